"""The report of a round, in Markdown, and its place in a document."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from chaos.records import Carried
from chaos.round import Round
from chaos.script import Target

BEGIN = "<!-- The report begins here; `make chaos` writes it. -->"
END = "<!-- The report ends here. -->"


def report(round_: Round, command: str) -> str:
    """What was done, what came of it, and by which command it was found."""
    return "\n".join(
        [
            f"`{command}`: {len(round_.outcomes)} BatchJobs and {len(round_.history.kills)} kills in"
            f" {round_.history.seconds / 60:.0f} minutes.",
            "",
            *_totals(round_),
            "",
            *_kills(round_),
            "",
            *_batchjobs(round_),
            "",
            *_violations(round_),
        ]
    )


def insert(document: str, text: str) -> str:
    """The document with the report between its marks.

    Raises:
        ValueError: it has no such marks.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def _totals(round_: Round) -> Iterator[str]:
    outcomes = round_.outcomes
    needed, sent = (sum(values) for values in ((len(o.arrived) for o in outcomes), (o.sent for o in outcomes)))
    twice, allowed = (
        sum(o.sent_twice for o in outcomes),
        sum(round_.allowed_twice(o) for o in outcomes),
    )
    yield from _table(
        ("what", "how many"),
        [
            ("lines of the inputs that were run", sum(o.script.lines for o in outcomes if o.publishes)),
            ("results", sum(len(o.results) for o in outcomes)),
            ("error lines", sum(len(o.errors) for o in outcomes)),
            ("**lines lost**", f"**{sum(o.lost for o in outcomes)}**"),
            ("**lines doubled**", f"**{sum(o.doubled for o in outcomes)}**"),
            ("BatchJobs in a wrong state, with wrong counts or lines", len(wrong_batchjobs(round_))),
            ("requests that reached the model server", needed),
            ("times that they reached it", sent),
            ("sent again", f"{twice} ({twice / needed:.1%})" if needed else twice),
            ("turned away at once by a model server that was shutting down", sum(o.turned_away for o in outcomes)),
            ("sent again at most, by what the kills can cost", allowed),
        ],
    )


def wrong_batchjobs(round_: Round) -> list[str]:
    """Names of BatchJobs of which something is wrong."""
    names = [outcome.script.name for outcome in round_.outcomes]
    return [name for name in names if any(text.startswith(name) for text in round_.violations)]


def _kills(round_: Round) -> Iterator[str]:
    rows = []
    for target in Target:
        kills = [kill for kill in round_.history.kills if kill.target is target]
        if kills:
            manners = Counter(str(kill.manner) for kill in kills)
            told = ", ".join(f"{count} × {manner}" for manner, count in sorted(manners.items()))
            rows.append((str(target), len(kills), told, _away(kills), *_recovery(kills)))
    yield from _table(("killed", "times", "how", "away for", "works again after, median", "longest"), rows)


def _away(kills: Sequence[Carried]) -> str:
    seconds = [kill.kill.seconds for kill in kills if kill.kill.seconds]
    return f"{min(seconds):.0f} to {max(seconds):.0f} s" if seconds else ""


def _recovery(kills: Sequence[Carried]) -> tuple[str, str]:
    seconds = [kill.recovered for kill in kills if kill.recovered is not None]
    return (f"{median(seconds):.0f} s", f"{max(seconds):.0f} s") if seconds else ("", "")


def _batchjobs(round_: Round) -> Iterator[str]:
    ends = Counter((outcome.script.kind, outcome.phase) for outcome in round_.outcomes)
    rows = [(str(kind), count, phase) for (kind, phase), count in sorted(ends.items())]
    yield from _table(("BatchJobs", "how many", "ended as"), rows)


def _violations(round_: Round) -> Iterator[str]:
    if not round_.violations:
        yield "Checked too, and right: order, answers, error codes, retry lines, counts, sizes; terminal states stay."
    for text in round_.violations:
        yield f"- **wrong**: {text}"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in row)} |"

"""What must hold of a BatchJob that has ended: every line once, in order, with its own answer, and exact counts."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.oracle import UNDONE_CODES, expected
from chaos.records import History
from chaos.script import Kind, Script

SHOWN = 5
Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A BatchJob that has ended, and what it published."""

    script: Script
    status: Mapping[str, Any]
    results: Sequence[bytes]
    """Lines without their ends."""
    errors: Sequence[bytes]
    retry: Sequence[bytes]
    arrived: Mapping[str, int]
    """How often each of its requests reached the model server, and was not turned away there."""
    turned_away: int = 0
    """How often one reached a server that was ending and gave it up at once, without any work."""

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", ""))

    @property
    def sent(self) -> int:
        """Requests that reached the model server, each time counted."""
        return sum(self.arrived.values())

    @property
    def sent_twice(self) -> int:
        """Requests that reached the model server once more than needed, each time counted."""
        return sum(count - 1 for count in self.arrived.values())

    @property
    def ids(self) -> list[str]:
        """The ids of all published lines."""
        return [str(line.get("custom_id")) for line in map(json.loads, [*self.results, *self.errors])]

    @property
    def lost(self) -> int:
        """Lines of the input that were published nowhere, of a BatchJob that publishes."""
        return len(set(self.script.identities()) - set(self.ids)) if self.publishes else 0

    @property
    def doubled(self) -> int:
        """Lines that were published more than once."""
        return sum(count - 1 for count in Counter(self.ids).values())

    @property
    def publishes(self) -> bool:
        """Whether it came so far that each of its lines must be published."""
        return self.script.kind is not Kind.INVALID and bool(self.status.get("fingerprint"))


def violations(outcome: Outcome, history: History, allowed_twice: int) -> list[str]:
    """Everything about a BatchJob that must not be; empty where all is well."""
    found = [*_end(outcome, history), *_arrivals(outcome, allowed_twice)]
    # One that was stopped before it had a plan, or that could not have one, has sent nothing and publishes nothing.
    found += _published(outcome) if outcome.publishes else _nothing(outcome)
    return [f"{outcome.script.name}: {what}" for what in found]


def _end(outcome: Outcome, history: History) -> Iterator[str]:
    right = expected(outcome.script, history.actions(outcome.script.name))
    if outcome.phase not in right.phases:
        yield f"ended as {outcome.phase or 'nothing'}, not as {' or '.join(sorted(right.phases))}: {_message(outcome)}"
    elif outcome.phase == "failed" and _reason(outcome) not in right.reasons:
        yield f"failed with {_reason(outcome)}, not {' or '.join(sorted(right.reasons))}: {_message(outcome)}"


def _arrivals(outcome: Outcome, allowed_twice: int) -> Iterator[str]:
    if outcome.sent_twice > allowed_twice:
        yield f"{outcome.sent_twice} requests were sent again, {allowed_twice} at most may be"


def _nothing(outcome: Outcome) -> Iterator[str]:
    if outcome.sent:
        yield f"{outcome.sent} requests were sent by a BatchJob without a plan"
    if outcome.results or outcome.errors or outcome.retry:
        yield "lines were published by a BatchJob without a plan"


def _published(outcome: Outcome) -> Iterator[str]:
    results, errors = ([json.loads(line) for line in lines] for lines in (outcome.results, outcome.errors))
    yield from _every_line_once(outcome)
    yield from _order("results", results, outcome.script)
    yield from _order("errors", errors, outcome.script)
    numbers = {identity: number for number, identity in enumerate(outcome.script.identities())}
    yield from _some("wrong answers", (line for line in results if not _right_answer(line, numbers, outcome.script)))
    yield from _some("wrong errors", (line for line in errors if not _right_error(line, numbers, outcome)))
    if outcome.phase == "completed" and len(errors) != len(outcome.script.refused):
        yield f"{len(errors)} requests failed, though the server refused {len(outcome.script.refused)}"
    yield from _retry(outcome, [str(line["custom_id"]) for line in errors], numbers)
    yield from _counts(outcome, errors)


def _every_line_once(outcome: Outcome) -> Iterator[str]:
    wanted, found = Counter(outcome.script.identities()), Counter(outcome.ids)
    yield from _some("lines are lost", (wanted - found).elements())
    yield from _some("lines are doubled or unknown", (found - wanted).elements())


def _order(what: str, lines: Sequence[Line], script: Script) -> Iterator[str]:
    places = {identity: number for number, identity in enumerate(script.identities())}
    order = [places.get(str(line["custom_id"]), -1) for line in lines]
    if order != sorted(order):
        yield f"{what} are not in the order of the input"


def _right_answer(line: Line, numbers: Mapping[str, int], script: Script) -> bool:
    number = numbers.get(str(line["custom_id"]), -1)
    response = line.get("response") or {}
    if response.get("status_code") != 200 or line.get("error") or number in script.refused:
        return False
    return bool(response["body"]["choices"][0]["message"]["content"] == script.text(number)[::-1])


def _right_error(line: Line, numbers: Mapping[str, int], outcome: Outcome) -> bool:
    """A line that the server refused says so; any other has the code of the phase."""
    if (line.get("response") or {}).get("status_code") == 400:
        return numbers.get(str(line["custom_id"]), -1) in outcome.script.refused
    code = (line.get("error") or {}).get("code")
    return code is not None and code == UNDONE_CODES.get(outcome.phase)


def _retry(outcome: Outcome, failed: Sequence[str], numbers: Mapping[str, int]) -> Iterator[str]:
    lines = outcome.script.input_lines()
    if list(outcome.retry) != [lines[numbers[identity]] for identity in failed if identity in numbers]:
        yield f"{len(outcome.retry)} lines to retry are not those of the {len(failed)} that failed"


def _counts(outcome: Outcome, errors: Sequence[Line]) -> Iterator[str]:
    status = outcome.status
    right = {"total": outcome.script.lines, "completed": len(outcome.results), "failed": len(outcome.errors)}
    if status.get("requestCounts") != right:
        yield f"the counts are {status.get('requestCounts')}, not {right}"
    for kind, lines in (("output", outcome.results), ("errors", outcome.errors), ("retry", outcome.retry)):
        shown = status.get(kind) or {}
        size = sum(len(line) + 1 for line in lines)
        if (shown.get("lines", 0), shown.get("bytes", 0)) != (len(lines), size):
            yield f"status.{kind} says {shown}, not {len(lines)} lines, {size} bytes"
    codes = Counter(_code(line) for line in errors)
    if (status.get("errorCodes") or {}) != dict(codes):
        yield f"the error codes are {status.get('errorCodes')}, not {dict(codes)}"


def _code(line: Line) -> str:
    response = line.get("response") or {}
    return str(response["status_code"]) if response else str((line.get("error") or {}).get("code"))


def _some(what: str, cases: Iterator[Any]) -> Iterator[str]:
    found = list(cases)
    if found:
        shown = ", ".join(str(case)[:300] for case in found[:SHOWN])
        yield f"{len(found)} {what}: {shown}"


def _failed(outcome: Outcome) -> Mapping[str, Any]:
    conditions = outcome.status.get("conditions") or ()
    return next((one for one in conditions if one["type"] == "Failed" and one["status"] == "True"), {})


def _reason(outcome: Outcome) -> str:
    return str(_failed(outcome).get("reason", ""))


def _message(outcome: Outcome) -> str:
    return str(outcome.status.get("message", ""))

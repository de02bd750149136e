"""From a seed to a schedule: the same seed, the same BatchJobs, the same kills at the same times."""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from chaos.script import Action, Kill, Kind, Manner, Schedule, Script, Step, Target

MANNERS: Mapping[Target, tuple[Manner, ...]] = {
    Target.OPERATOR: (Manner.CRASH, Manner.DELETE),
    Target.WORKER: (Manner.CRASH, Manner.CRASH, Manner.DELETE, Manner.EVICT),
    # What these two know is in a volume of their pod, so that their pod stays.
    Target.MODEL_SERVER: (Manner.CRASH, Manner.STOP),
    Target.STORAGE: (Manner.CRASH,),
    Target.NODE: (Manner.POWER_CUT,),
    Target.API_SERVER: (Manner.HANG, Manner.AWAY),
}
AWAY_SECONDS: Mapping[Target, tuple[float, float]] = {Target.NODE: (75.0, 100.0), Target.API_SERVER: (10.0, 35.0)}
REFUSED_SHARE = 0.05
FAILING_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Form:
    """How large the chaos is."""

    kinds: tuple[Kind, ...]
    """Of the BatchJobs, one each."""
    kills: Mapping[Target, int]
    lines: int
    lines_per_shard: int
    workers: int
    concurrency: int
    delays: tuple[float, float]
    """Seconds of an answer, from and to."""
    first_kill: float
    """Seconds from the end of the first request to the first kill."""
    kill_every: float
    """Seconds between two kills, on average."""
    job_every: float
    """Seconds between the creation of two BatchJobs, on average."""
    window: int
    """Seconds of a completion window that ends in mid-run."""


SHORT = Form(
    kinds=(Kind.REFUSALS, Kind.SUSPEND, Kind.CANCEL, Kind.CANCEL_AND_AGAIN),
    kills={Target.OPERATOR: 1, Target.WORKER: 3, Target.MODEL_SERVER: 1, Target.STORAGE: 1},
    lines=400,
    lines_per_shard=50,
    workers=2,
    concurrency=8,
    delays=(0.5, 0.7),
    first_kill=2.0,
    kill_every=3.0,
    job_every=1.0,
    window=0,
)
LONG = Form(
    kinds=(
        *(Kind.PLAIN,) * 3,
        *(Kind.REFUSALS,) * 3,
        *(Kind.SUSPEND,) * 3,
        *(Kind.CANCEL,) * 3,
        *(Kind.CANCEL_AND_AGAIN,) * 2,
        *(Kind.DELETE_AND_AGAIN,) * 2,
        *(Kind.EXPIRY,) * 2,
        Kind.FAILURES,
        Kind.INVALID,
    ),
    kills={
        Target.OPERATOR: 8,
        Target.WORKER: 14,
        Target.MODEL_SERVER: 5,
        Target.STORAGE: 4,
        Target.NODE: 2,
        Target.API_SERVER: 4,
    },
    lines=1500,
    lines_per_shard=150,
    workers=2,
    concurrency=8,
    delays=(0.6, 1.0),
    first_kill=15.0,
    kill_every=26.0,
    job_every=48.0,
    window=60,
)


def make_schedule(seed: int, form: Form, prefix: str) -> Schedule:
    """The schedule of a seed. Names of BatchJobs begin with `prefix`, which nothing else depends on."""
    # A string, since a number would give the same draws to BatchJobs and kills.
    scripts = tuple(_scripts(random.Random(f"scripts {seed}"), form, prefix))
    return Schedule(seed, scripts, tuple(_kills(random.Random(f"kills {seed}"), form)))


def _scripts(chance: random.Random, form: Form, prefix: str) -> Iterator[Script]:
    kinds = list(form.kinds)
    chance.shuffle(kinds)
    for number, kind in enumerate(kinds):
        yield Script(
            name=f"{prefix}-{number:02}-{kind}",
            kind=kind,
            start=form.job_every * (number + chance.random() / 2),
            lines=form.lines,
            lines_per_shard=form.lines_per_shard,
            workers=form.workers,
            concurrency=form.concurrency,
            delay=round(chance.uniform(*form.delays), 2),
            refused=_refused(chance, kind, form.lines),
            steps=tuple(_steps(chance, kind)),
            window=form.window if kind is Kind.EXPIRY else None,
            max_failures=form.lines // 20 if kind is Kind.FAILURES else None,
        )


def _refused(chance: random.Random, kind: Kind, lines: int) -> frozenset[int]:
    shares = {Kind.FAILURES: FAILING_SHARE, Kind.PLAIN: 0.0, Kind.INVALID: 0.0}
    return frozenset(chance.sample(range(lines), round(lines * shares.get(kind, REFUSED_SHARE))))


def _steps(chance: random.Random, kind: Kind) -> Iterable[Step]:
    """In the middle of the run mostly, since before and after it there is less to go wrong."""
    somewhere = chance.uniform(0.1, 0.7)
    match kind:
        case Kind.SUSPEND:
            suspend = Step(Action.SUSPEND, progress=somewhere)
            return (suspend, Step(Action.RESUME, pause=chance.uniform(4, 12)))
        case Kind.CANCEL:
            # One of four is cancelled in its first seconds, whatever it does then.
            early = chance.random() < 1 / 4
            return (Step(Action.CANCEL, pause=chance.uniform(0, 8)) if early else Step(Action.CANCEL, somewhere),)
        case Kind.CANCEL_AND_AGAIN:
            return (Step(Action.CANCEL, progress=somewhere), Step(Action.APPLY_AGAIN, at_end=True))
        case Kind.DELETE_AND_AGAIN:
            return (Step(Action.APPLY_AGAIN, progress=somewhere),)
        case _:
            return ()


def _kills(chance: random.Random, form: Form) -> list[Kill]:
    targets = [target for target, count in form.kills.items() for _ in range(count)]
    chance.shuffle(targets)
    _part_nodes(targets)
    kills = []
    for number, target in enumerate(targets):
        at = form.first_kill + form.kill_every * (number + chance.uniform(-0.4, 0.4))
        seconds = chance.uniform(*AWAY_SECONDS[target]) if target in AWAY_SECONDS else 0.0
        manner = chance.choice(MANNERS[target])
        kills.append(Kill(round(max(at, 1.0), 1), target, manner, chance.random(), round(seconds, 1)))
    return kills


def _part_nodes(targets: list[Target]) -> None:
    """Spread node losses evenly: each takes minutes, and a node that is away can't be lost again."""
    nodes = targets.count(Target.NODE)
    others: list[Target] = [target for target in targets if target is not Target.NODE]
    for number in range(nodes):
        others.insert(round((number + 0.5) * len(targets) / nodes), Target.NODE)
    targets[:] = others

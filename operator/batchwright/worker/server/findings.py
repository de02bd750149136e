"""What is found out about a model server, and what follows: the values that go into Availability and come out of it."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from batchwright.api.conditions import Reason
from batchwright.worker.server.verdicts import Kind


@dataclass(frozen=True, slots=True)
class WatchTimes:
    """How patient the watch is, in seconds. Tests shorten it."""

    silence: float = 5.0
    """With requests in flight and nothing coming back for so long, the server is probed."""
    probe_timeout: float = 5.0
    probe_again: float = 1.0
    """Between a failing probe and the one that settles it, and at least between any two."""
    first_poll: float = 0.5
    longest_poll: float = 10.0
    """Between looks at a server that is away; the pause doubles from the first to this one."""
    first_trial: float = 1.0
    longest_trial: float = 30.0
    """Between single requests to a server that answers its probe and nothing else."""
    patience: float = 120.0
    """After so long of such trials, with no line left that has not been sent, those that fail are charged: a job that
    ends in nothing but bad lines ends."""
    pacing: float = 60.0
    """A server that has answered nothing but 429 for so long is called away."""


class Cause(Enum):
    """How it was found that the server is away, which decides how its return is found."""

    PROBE = auto()
    ERRORS = auto()
    PACED = auto()
    KEY = auto()
    MODEL = auto()


_REASONS: Final = {
    Cause.PROBE: Reason.SERVER_AWAY,
    Cause.ERRORS: Reason.SERVER_AWAY,
    Cause.PACED: Reason.SERVER_AWAY,
    Cause.KEY: Reason.SERVER_UNAUTHORIZED,
    Cause.MODEL: Reason.MODEL_NOT_FOUND,
}


@dataclass(frozen=True, slots=True)
class Away:
    """The server can't be used."""

    cause: Cause
    message: str
    since: float
    """When this cause began, which may not be the first one."""

    @property
    def reason(self) -> Reason:
        """As the BatchJob's condition has it."""
        return _REASONS[self.cause]


@dataclass(frozen=True, slots=True)
class Failure:
    """A try that ended without a real answer."""

    kind: Kind
    line: str
    cause: str
    began: float
    clean: bool = True
    """Whether its line has no charge yet."""
    heard: bool = True
    """Whether the server said anything at all."""
    after: float | None = None
    """Seconds after which the server wants to be asked again."""


class Health(Enum):
    """What a probe came to."""

    ALIVE = auto()
    """Any answer below 500: a server may have no /health, or want a key for it."""
    ERRING = auto()
    """An answer of 500 or more. It tells nothing where none was ever better: a gateway may not know the path."""
    GONE = auto()
    """No connection, or a broken one."""
    LATE = auto()
    """No answer in time."""


class Step(Enum):
    """What the watch is to do now."""

    PROBE = auto()
    ASK_MODELS = auto()

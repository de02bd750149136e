"""What is to happen, as values: BatchJobs with what is done to them, and kills with their times."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

CHAT = "/v1/chat/completions"
REFUSED = "status=400"
"""The model server's switch for a line that it refuses for good."""


class Kind(StrEnum):
    """What a BatchJob is about."""

    PLAIN = "plain"
    REFUSALS = "refusals"
    """The server refuses some lines for good."""
    SUSPEND = "suspend"
    """Suspended in mid-run, and resumed."""
    CANCEL = "cancel"
    CANCEL_AND_AGAIN = "cancel-again"
    """Cancelled, deleted, applied again under its name."""
    DELETE_AND_AGAIN = "delete-again"
    """Deleted in mid-run and applied again under its name."""
    EXPIRY = "expiry"
    """Its completion window ends in mid-run."""
    FAILURES = "failures"
    """More lines are refused than spec.requests.maxFailures allows."""
    INVALID = "invalid"
    """The input has an id twice."""


class Action(StrEnum):
    """What is done to a BatchJob on purpose."""

    SUSPEND = "suspend"
    RESUME = "resume"
    CANCEL = "cancel"
    APPLY_AGAIN = "apply again"
    """Deletes the BatchJob, and applies it anew once it is gone."""


@dataclass(frozen=True, slots=True)
class Step:
    """An action that is due once the BatchJob has got so far. What comes too late, after its end, is left out."""

    action: Action
    progress: float = 0.0
    """Part of the requests that must have ended."""
    pause: float = 0.0
    """Seconds since the step before, or since the BatchJob was applied."""
    at_end: bool = False
    """Due when the BatchJob has ended, and not before."""


@dataclass(frozen=True, slots=True)
class Script:
    """A BatchJob and what is done to it."""

    name: str
    kind: Kind
    start: float
    """Seconds from the beginning to its creation."""
    lines: int
    lines_per_shard: int
    workers: int
    concurrency: int
    """Requests in flight, of each worker."""
    delay: float
    """Seconds that the model server takes for an answer."""
    refused: frozenset[int] = frozenset()
    """Numbers of the lines that the server refuses for good."""
    steps: tuple[Step, ...] = ()
    window: int | None = None
    """Seconds of the completion window."""
    max_failures: int | None = None

    def identity(self, number: int) -> str:
        """The custom_id of a line."""
        return f"{self.name}-{number}"

    def identities(self) -> list[str]:
        """The custom_id of every line, in order."""
        return [self.identity(number) for number in range(self.lines)]

    def text(self, number: int) -> str:
        """What a line asks; the model server answers with it in reverse."""
        return f"question {number} of {self.name}"

    def input_lines(self) -> list[bytes]:
        """The lines of the input object, without their ends."""
        lines = [json.dumps(self._line(number)).encode() for number in range(self.lines)]
        return [*lines, lines[0]] if self.kind is Kind.INVALID else lines

    def _line(self, number: int) -> dict[str, Any]:
        stub = f"delay={self.delay}" + (f",{REFUSED}" if number in self.refused else "")
        metadata = {"id": self.identity(number), "stub": stub}
        body = {
            "model": "stub-model",
            "messages": [{"role": "user", "content": self.text(number)}],
            "metadata": metadata,
        }
        return {"custom_id": self.identity(number), "method": "POST", "url": CHAT, "body": body}


class Target(StrEnum):
    """What is killed."""

    OPERATOR = "operator"
    WORKER = "worker"
    """A pod of any stage."""
    MODEL_SERVER = "model server"
    STORAGE = "storage"
    NODE = "node"
    API_SERVER = "API server"


class Manner(StrEnum):
    """How it is killed."""

    CRASH = "SIGKILL"
    """The container's first process is killed; the container starts again, with the pod's volumes."""
    STOP = "SIGTERM"
    """The same, asked to end."""
    DELETE = "pod deleted by force"
    EVICT = "pod deleted"
    POWER_CUT = "power cut"
    """The node and all that runs there, for a while."""
    HANG = "hangs"
    """For a while nothing is answered."""
    AWAY = "killed"
    """For a while nothing listens."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill. Which of several it hits is known only when it is done: `draw` decides."""

    at: float
    """Seconds from the moment when the first request of any BatchJob has ended."""
    target: Target
    manner: Manner
    draw: float
    """From 0 up to 1."""
    seconds: float = 0.0
    """How long a node or the API server is away."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """All that is to happen."""

    seed: int
    scripts: tuple[Script, ...]
    kills: tuple[Kill, ...]

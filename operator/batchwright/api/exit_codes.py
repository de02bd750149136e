"""Exit codes of a worker's container: what the Job controller does with a pod's end, by podFailurePolicy.

The codes say only what the Job controller must know; the reason for people is in the termination message.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Every code but DONE makes the pod Failed; UNEXPECTED, and whatever stands here not, counts against its index."""

    DONE = 0
    UNEXPECTED = 1
    INTERRUPTED = 10
    """SIGTERM: the worker flushed and left. Ignored: no attempt is counted."""
    INPUT_INVALID = 20
    """The plan found errors in the input."""
    STORAGE_REFUSED = 21
    """Missing bucket or object, denied access, wrong credentials."""
    INPUT_CHANGED = 22
    """The input object isn't the one that was planned."""
    PLAN_UNREADABLE = 23
    """The plan or a record is missing, or of a format that this version can't read."""
    CONFIGURATION_INVALID = 24
    """The job's settings can't be used."""
    SERVER_REFUSED = 25
    """The model server refuses the key or doesn't serve the model."""
    SHARDS_MISSING = 26
    """The merge found shards without a record: the operator runs the job again for them."""


FINAL_EXIT_CODES: tuple[ExitCode, ...] = (
    ExitCode.INPUT_INVALID,
    ExitCode.STORAGE_REFUSED,
    ExitCode.INPUT_CHANGED,
    ExitCode.PLAN_UNREADABLE,
    ExitCode.CONFIGURATION_INVALID,
    ExitCode.SERVER_REFUSED,
    ExitCode.SHARDS_MISSING,
)
"""No retry can mend these: the Job fails at once (FailJob)."""

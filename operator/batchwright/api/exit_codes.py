"""Exit codes of a worker's container: what the Job controller does with a pod's end, by podFailurePolicy.

The codes say only what the Job controller must know; the reason for people is in the termination message.
"""

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """Every code but DONE makes the pod Failed; UNEXPECTED, and whatever stands here not, counts against its index."""

    DONE = 0
    UNEXPECTED = 1
    INTERRUPTED = 10
    INPUT_INVALID = 20
    STORAGE_REFUSED = 21
    INPUT_CHANGED = 22
    PLAN_UNREADABLE = 23
    CONFIGURATION_INVALID = 24
    SERVER_REFUSED = 25
    SHARDS_MISSING = 26


EXIT_CODE_MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.DONE: "The stage, or the worker's part of it, is finished.",
    ExitCode.UNEXPECTED: "A failure that may pass. It counts against the index, and the pod is replaced.",
    ExitCode.INTERRUPTED: "SIGTERM: the worker flushed and left. Ignored: no attempt is counted.",
    ExitCode.INPUT_INVALID: "The plan found errors in the input, or a model that the server doesn't serve.",
    ExitCode.STORAGE_REFUSED: "Missing bucket or object, denied access, wrong credentials.",
    ExitCode.INPUT_CHANGED: "The input object isn't the one that was planned.",
    ExitCode.PLAN_UNREADABLE: "The plan or a record is missing, or of a format that this version can't read.",
    ExitCode.CONFIGURATION_INVALID: "The job's settings can't be used.",
    ExitCode.SERVER_REFUSED: "The model server refuses the API key.",
    ExitCode.SHARDS_MISSING: "The merge found shards without a record: the operator runs the job again for them.",
}
"""Every code. The reference in docs/reference is generated from this."""


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

"""Condition types and reasons of a BatchJob. Conditions are the truth; `phase` is derived from them."""

from collections.abc import Mapping
from enum import StrEnum


class ConditionType(StrEnum):
    """`Complete`, `Failed`, `FailureTarget`, `Suspended` as batch/v1 Job has them; `Reconciling`, `Stalled` as kstatus
    reads them."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    FAILURE_TARGET = "FailureTarget"
    SUSPENDED = "Suspended"
    RECONCILING = "Reconciling"
    SERVER_AVAILABLE = "ServerAvailable"
    STALLED = "Stalled"


class Phase(StrEnum):
    """Where a BatchJob stands: OpenAI's batch states, and `pending` before them."""

    PENDING = "pending"
    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


TERMINAL_PHASES = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED, Phase.EXPIRED})


class Reason(StrEnum):
    """Why a condition has its status."""

    # Reconciling: what is being done
    PENDING = "Pending"
    VALIDATING = "Validating"
    RUNNING = "Running"
    REPAIRING = "Repairing"
    WAITING_FOR_MERGE = "WaitingForMerge"
    MERGING = "Merging"
    CANCELLING = "Cancelling"
    EXPIRING = "Expiring"
    FAILING = "Failing"
    # Complete
    COMPLETED = "Completed"
    COMPLETED_WITH_FAILURES = "CompletedWithFailures"
    # Failed: what is wrong
    INVALID_SPEC = "InvalidSpec"
    INVALID_INPUT = "InvalidInput"
    INPUT_NOT_FOUND = "InputNotFound"
    INPUT_CHANGED = "InputChanged"
    BUCKET_NOT_FOUND = "BucketNotFound"
    STORAGE_ACCESS_DENIED = "StorageAccessDenied"
    STORAGE_CREDENTIALS_INVALID = "StorageCredentialsInvalid"
    STORAGE_UNREACHABLE = "StorageUnreachable"
    OUTPUT_OWNED_BY_ANOTHER = "OutputOwnedByAnother"
    MODEL_NOT_FOUND = "ModelNotFound"
    SERVER_UNAUTHORIZED = "ServerUnauthorized"
    SERVER_UNREACHABLE = "ServerUnreachable"
    PLAN_UNREADABLE = "PlanUnreadable"
    PLAN_FAILED = "PlanFailed"
    RUN_FAILED = "RunFailed"
    MERGE_FAILED = "MergeFailed"
    SHARDS_MISSING = "ShardsMissing"
    TOO_MANY_FAILURES = "TooManyFailures"
    UNEXPECTED = "Unexpected"
    CANCELLED = "Cancelled"
    EXPIRED = "Expired"
    # Stalled: a person must act
    SECRET_MISSING = "SecretMissing"  # noqa: S105
    CONFIG_MAP_MISSING = "ConfigMapMissing"
    SERVICE_ACCOUNT_MISSING = "ServiceAccountMissing"
    JOB_REFUSED = "JobRefused"
    PODS_NOT_STARTING = "PodsNotStarting"
    # ServerAvailable
    SERVER_ANSWERS = "ServerAnswers"
    SERVER_AWAY = "ServerAway"
    NOT_SUSPENDED = "NotSuspended"
    SUSPENDED = "Suspended"


PHASE_MEANINGS: Mapping[Phase, str] = {
    Phase.PENDING: "Nothing has begun.",
    Phase.VALIDATING: "The input is read, checked and split. No request has been sent.",
    Phase.IN_PROGRESS: "Workers send requests.",
    Phase.FINALIZING: "Every request ended, or the work is stopped because the completion window ended or the run"
    " failed; results and errors are being joined.",
    Phase.COMPLETED: "Everything is published, whether requests failed or not. Condition Complete.",
    Phase.FAILED: "It could not be done, and the condition Failed says why. What was finished before is published.",
    Phase.CANCELLING: "spec.cancel was set; the workers stop, and what is finished is being published.",
    Phase.CANCELLED: "Cancelled; what was finished is published. Condition Failed, reason Cancelled.",
    Phase.EXPIRED: "The completion window ended; what was finished is published. Condition Failed, reason Expired.",
}

CONDITION_MEANINGS: Mapping[ConditionType, str] = {
    ConditionType.COMPLETE: "True: every request ended, and results and errors are published. Terminal.",
    ConditionType.FAILED: "True: it ended before every request did: failed, cancelled or expired. What was finished is"
    " published; the message says how much. Terminal.",
    ConditionType.FAILURE_TARGET: "True: the work is stopped, and what is finished is being published. Failed will have"
    " this reason; nothing but a cancel changes it any more.",
    ConditionType.SUSPENDED: "True: spec.suspend pauses the work. Workers finish what is in flight; none is started.",
    ConditionType.RECONCILING: "True: the operator works towards the end. False once it is reached.",
    ConditionType.SERVER_AVAILABLE: "False: the model server is away, refuses the API key, or no longer serves the"
    " model. Nothing is sent until that is over, no request fails for it, and the work goes on by itself.",
    ConditionType.STALLED: "True: a person must act, and the message says how. It goes on by itself afterwards.",
}


REASON_MEANINGS: Mapping[ConditionType, Mapping[Reason, str]] = {
    ConditionType.RECONCILING: {
        Reason.PENDING: "Not begun: suspended from the start, or waiting for what it needs.",
        Reason.VALIDATING: "The plan Job reads the input and checks its lines, the model, and the access to storage.",
        Reason.RUNNING: "Workers send requests.",
        Reason.REPAIRING: "The run ended with shards that have no record: it runs again, at most three times.",
        Reason.WAITING_FOR_MERGE: "Every request ended; the pod of the merge has yet to start.",
        Reason.MERGING: "The merge Job joins results and errors in input order.",
        Reason.CANCELLING: "spec.cancel was set: the workers stop, then what is finished is published.",
        Reason.EXPIRING: "The completion window ended: the workers stop, then what is finished is published.",
        Reason.FAILING: "Too many requests failed, or the run can't go on: the workers stop, then what is finished is"
        " published. The message has the reason that the condition Failed will have.",
    },
    ConditionType.COMPLETE: {
        Reason.COMPLETED: "Every request got an answer with a 2xx status.",
        Reason.COMPLETED_WITH_FAILURES: "Every request ended; what failed is in the errors object, and to be submitted"
        " again in the retry object.",
    },
    ConditionType.FAILED: {
        Reason.INVALID_SPEC: "A field of the spec can't be used. The message names it.",
        Reason.INVALID_INPUT: "Lines of the input are wrong: see status.validationErrors. No request was sent.",
        Reason.INPUT_NOT_FOUND: "The input object doesn't exist.",
        Reason.INPUT_CHANGED: "The input object was changed or replaced after it was planned.",
        Reason.BUCKET_NOT_FOUND: "A bucket, or the folder of a file:// URI, doesn't exist.",
        Reason.STORAGE_ACCESS_DENIED: "The store refuses an operation. The message names the permission and the URI.",
        Reason.STORAGE_CREDENTIALS_INVALID: "The store refuses the credentials, or there are none.",
        Reason.STORAGE_UNREACHABLE: "The store didn't answer in spite of every retry.",
        Reason.OUTPUT_OWNED_BY_ANOTHER: "Another BatchJob, of another name or cluster, writes under this output.",
        Reason.MODEL_NOT_FOUND: "The server doesn't serve the model. The message names those that it serves.",
        Reason.SERVER_UNAUTHORIZED: "The server refuses the API key.",
        Reason.SERVER_UNREACHABLE: "The server couldn't be reached. In a cluster no BatchJob fails for it: the plan"
        " asks until the server answers.",
        Reason.PLAN_UNREADABLE: "A work object is missing, or of a format that this version can't read.",
        Reason.PLAN_FAILED: "The plan Job failed in spite of every retry.",
        Reason.RUN_FAILED: "The run Job failed in spite of every retry.",
        Reason.MERGE_FAILED: "The merge Job failed in spite of every retry.",
        Reason.SHARDS_MISSING: "Shards have no record even after every repair.",
        Reason.TOO_MANY_FAILURES: "More requests failed than spec.requests.maxFailures allows.",
        Reason.UNEXPECTED: "An error that nobody foresaw. The worker's log has the details.",
        Reason.CANCELLED: "spec.cancel was set. What was finished is published; a BatchJob of the same name, input and"
        " output sends only the rest.",
        Reason.EXPIRED: "The completion window ended. What was finished is published; a BatchJob of the same name,"
        " input and output sends only the rest.",
    },
    ConditionType.FAILURE_TARGET: {
        Reason.CANCELLED: "As for Failed, and so are all others.",
        Reason.EXPIRED: "The completion window has ended.",
        Reason.TOO_MANY_FAILURES: "More requests failed than spec.requests.maxFailures allows.",
    },
    ConditionType.STALLED: {
        Reason.SECRET_MISSING: "A Secret, or a key of it, doesn't exist in the namespace.",
        Reason.CONFIG_MAP_MISSING: "A ConfigMap, or a key of it, doesn't exist in the namespace.",
        Reason.SERVICE_ACCOUNT_MISSING: "The service account of the workers doesn't exist in the namespace.",
        Reason.JOB_REFUSED: "The API server refuses the Job: a quota, a policy, or a wrong field of spec.worker.",
        Reason.PODS_NOT_STARTING: "Pods of a Job can't start: no node fits, or the image can't be pulled.",
        Reason.SERVER_UNAUTHORIZED: "The server has refused the API key for a while.",
        Reason.MODEL_NOT_FOUND: "The server has not served the model for a while.",
    },
    ConditionType.SERVER_AVAILABLE: {
        Reason.SERVER_ANSWERS: "The model server answers.",
        Reason.SERVER_AWAY: "The model server doesn't answer, says that it is not ready, or fails every request.",
        Reason.SERVER_UNAUTHORIZED: "The model server refuses the API key.",
        Reason.MODEL_NOT_FOUND: "The model server no longer lists the model.",
    },
    ConditionType.SUSPENDED: {
        Reason.SUSPENDED: "spec.suspend is true.",
        Reason.NOT_SUSPENDED: "spec.suspend is not true.",
    },
}
"""Every reason, under the condition that it explains when that is set. docs/reference is generated from this."""

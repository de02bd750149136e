"""Condition types and reasons of a BatchJob. Conditions are the truth; `phase` is derived from them."""

from enum import StrEnum


class ConditionType(StrEnum):
    """`Complete`, `Failed`, `Suspended` as batch/v1 Job has them; `Reconciling`, `Stalled` as kstatus reads them."""

    COMPLETE = "Complete"
    FAILED = "Failed"
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

"""What may change after creation, and when a change is read. The CEL rules and the reference follow this table."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """When a change of a field is read."""

    NEVER = "never"
    PLANNING = "until the input is validated"
    NEXT_JOB = "next Job"
    NEXT_POD = "next pod"
    LIVE = "live"


EFFECT_MEANINGS: Mapping[Effect, str] = {
    Effect.NEVER: "Refused: another value would be other work. Create another BatchJob.",
    Effect.PLANNING: "Without effect once the input is planned.",
    Effect.NEXT_JOB: "Read when the next Job is created: the plan, the run, a repair or the merge.",
    Effect.NEXT_POD: "Read by every pod that starts afterwards, of a running Job too.",
    Effect.LIVE: "Read at once.",
}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of the spec with everything under it, where no longer path of the table says otherwise."""

    path: str
    effect: Effect
    note: str = ""


FIELD_CHANGES: tuple[FieldChange, ...] = (
    FieldChange("endpoint", Effect.NEVER),
    FieldChange("model", Effect.NEVER),
    FieldChange("input.uri", Effect.NEVER),
    FieldChange("input.limits", Effect.NEVER),
    FieldChange("input.storage", Effect.NEXT_POD, "Another Secret or ConfigMap: with the next Job."),
    FieldChange("output.uri", Effect.NEVER),
    FieldChange("output.folder", Effect.NEVER),
    FieldChange("output.names", Effect.NEVER),
    FieldChange("output.storage", Effect.NEXT_POD, "Another Secret or ConfigMap: with the next Job."),
    FieldChange("server", Effect.NEXT_POD, "Another Secret or ConfigMap: with the next Job. A Secret's value: live."),
    FieldChange("storage", Effect.NEXT_POD, "Another Secret or ConfigMap: with the next Job. A Secret's value: live."),
    FieldChange("completionWindow", Effect.LIVE, "Always from creation on."),
    FieldChange("sharding.linesPerShard", Effect.NEVER),
    FieldChange("sharding.parallelism", Effect.NEXT_JOB),
    FieldChange("requests", Effect.NEXT_POD),
    FieldChange("requests.maxFailures", Effect.LIVE),
    FieldChange("suspend", Effect.LIVE),
    FieldChange("cancel", Effect.LIVE, "Only to true: it can't be undone."),
    FieldChange("resume", Effect.PLANNING),
    FieldChange("ttlSecondsAfterFinished", Effect.LIVE, "From the end on, also of a finished BatchJob."),
    FieldChange("queueName", Effect.NEXT_JOB),
    FieldChange("worker", Effect.NEXT_JOB),
    FieldChange("metadata", Effect.LIVE, "It is a note; nothing else follows from it."),
)


def change_of(path: str) -> FieldChange | None:
    """The entry that a field, such as `storage.region`, falls under: the longest path that leads to it."""
    leading = [entry for entry in FIELD_CHANGES if path == entry.path or path.startswith(f"{entry.path}.")]
    return max(leading, key=lambda entry: len(entry.path), default=None)


FIXED_FIELDS: tuple[str, ...] = tuple(entry.path for entry in FIELD_CHANGES if entry.effect is Effect.NEVER)

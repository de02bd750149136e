"""Rules that both the API server (CEL) and local runs (pydantic) check, each written once with its message."""

from dataclasses import dataclass

from pydantic import JsonValue

INPUT_URI_PATTERN = r"^(s3://[a-zA-Z0-9][-._a-zA-Z0-9]{1,62}/[^\x00]+|file:///[^\x00]+)$"
OUTPUT_URI_PATTERN = r"^(s3://[a-zA-Z0-9][-._a-zA-Z0-9]{1,62}(/[^\x00]*)?|file:///[^\x00]*)$"
PERCENTAGE_PATTERN = r"^(100|[0-9]{1,2})%$"
METADATA_KEY_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL expression that must hold, and what a person reads when it doesn't."""

    expression: str
    message: str

    def schema(self) -> dict[str, JsonValue]:
        """The rule as an entry of x-kubernetes-validations."""
        return {"rule": self.expression, "message": self.message}


def _never_changes(path: str) -> Rule:
    """A field that may be absent: absent stays absent, a value stays the same.

    A transition rule that stands on an optional field itself is skipped when the field is added or removed
    (Kubernetes, "CEL transition rules"), so these stand on the spec.
    """

    def present(root: str) -> str:
        steps = path.split(".")
        return " && ".join(f"has({root}.{'.'.join(steps[: n + 1])})" for n in range(len(steps)))

    return Rule(
        f"({present('self')}) == ({present('oldSelf')}) && (!({present('self')}) || self.{path} == oldSelf.{path})",
        f"{path} can't be changed after creation: delete the BatchJob and create it anew",
    )


SERVER_ONE_ADDRESS = Rule("!(has(self.url) && has(self.service))", "give either url or service, not both")
MAX_FAILURES = Rule(
    rf"type(self) == int ? self >= 0 : self.matches('{PERCENTAGE_PATTERN}')",
    'maxFailures must be a number of requests, or a part of all from "0%" to "100%"',
)
METADATA_KEYS = Rule(
    f"self.all(key, size(key) <= {METADATA_KEY_LENGTH})",
    f"keys of metadata have at most {METADATA_KEY_LENGTH} characters",
)
CANCEL_STAYS = Rule(
    "!(has(oldSelf.cancel) && oldSelf.cancel) || (has(self.cancel) && self.cancel)",
    "cancel can't be undone: create a new BatchJob",
)
SPEC_RULES = (
    _never_changes("endpoint"),
    _never_changes("model"),
    _never_changes("input.uri"),
    _never_changes("output.uri"),
    _never_changes("output.names"),
    _never_changes("sharding.linesPerShard"),
    CANCEL_STAYS,
)

"""Rules that both the API server (CEL) and local runs (pydantic) check, each written once with its message."""

from dataclasses import dataclass

from pydantic import JsonValue

from batchwright.api.changes import FIXED_FIELDS
from batchwright.api.names import ERRORS_OBJECT, RESULTS_OBJECT, RETRY_OBJECT

DNS_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""A DNS subdomain of RFC 1123, as the API server checks names of objects."""

LABEL_VALUE_PATTERN = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
HTTP_URL_PATTERN = r"^https?://[A-Za-z0-9._~:\[\]-]+(/[!\x22$->@-~]*)?$"
"""Host, port and path of printable ASCII: no user, query or fragment, which a base URL can't have."""

FILE_NAME_PATTERN = r"^[^./\x00][^/\x00]*$"
"""No hidden file: the work objects lie under a name with a dot."""

HEADER_NAME_PATTERN = r"^[-!#$%&\x27*+.^_`|~0-9A-Za-z]+$"
HEADER_VALUE_PATTERN = r"^[^\x00-\x08\x0a-\x1f\x7f]*$"
"""RFC 9110, sections 5.1 and 5.5."""

INPUT_URI_PATTERN = r"^(s3://[a-zA-Z0-9][-._a-zA-Z0-9]{1,62}/[^\x00]+|file:///[^\x00]+)$"
OUTPUT_URI_PATTERN = r"^(s3://[a-zA-Z0-9][-._a-zA-Z0-9]{1,62}(/[^\x00]*)?|file:///[^\x00]*)$"
PERCENTAGE_PATTERN = r"^(100|[0-9]{1,2})%$"
METADATA_KEY_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL expression that must hold, and what a person reads when it doesn't."""

    expression: str
    message: str
    field_path: str | None = None
    """The field that the API server names, where it isn't the one that the rule stands on, such as `.endpoint`."""

    def schema(self) -> dict[str, JsonValue]:
        """The rule as an entry of x-kubernetes-validations."""
        entry: dict[str, JsonValue] = {"rule": self.expression, "message": self.message}
        return entry | ({"fieldPath": self.field_path} if self.field_path else {})


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
        f".{path}",
    )


def _at_least(field: str, least: str) -> Rule:
    return Rule(
        f"duration(self) >= duration('{least}')",
        f"{field} must be a duration such as 90s, 3m or 1h30m, at least {least} and at most 292 years",
    )


INPUT_SCHEME = Rule(
    "self.startsWith('s3://') || self.startsWith('file:///')",
    "write s3://bucket/key, or file:///path of a mounted volume",
)
OUTPUT_SCHEME = Rule(
    "self.startsWith('s3://') || self.startsWith('file:///')",
    "write s3://bucket/prefix/, or file:///folder/ of a mounted volume",
)
SERVER_ONE_ADDRESS = Rule("!(has(self.url) && has(self.service))", "give either url or service, not both")
HEADER_NAMES = Rule(
    f"self.all(name, name.matches('{HEADER_NAME_PATTERN}'))",
    "a header's name has letters, digits and -!#$%&'*+.^_`|~ only",
)
OUTPUT_NAMES_DIFFER = Rule(
    "{names}.all(name, {names}.exists_one(other, other == name))".format(
        names="["
        f"has(self.results) ? self.results : '{RESULTS_OBJECT}', "
        f"has(self.errors) ? self.errors : '{ERRORS_OBJECT}', "
        f"has(self.retry) ? self.retry : '{RETRY_OBJECT}', "
        "has(self.progress) ? self.progress : '']"
    ),
    "names of results, errors, retry and progress must differ, those by default too",
)
TIMEOUT = _at_least("timeout", "1ms")
COMPLETION_WINDOW = _at_least("completionWindow", "1s")
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
    ".cancel",
)
SPEC_RULES = (*(_never_changes(path) for path in FIXED_FIELDS), CANCEL_STAYS)

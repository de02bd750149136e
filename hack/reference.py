"""The API reference in Markdown, made from the CRD and the tables beside the models."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from batchwright.api.changes import EFFECT_MEANINGS, FIELD_CHANGES, Effect
from batchwright.api.conditions import CONDITION_MEANINGS, PHASE_MEANINGS, REASON_MEANINGS
from batchwright.api.duration import DURATION_PATTERN
from batchwright.api.exit_codes import EXIT_CODE_MEANINGS, FINAL_EXIT_CODES, ExitCode
from batchwright.api.undone import UNDONE_MEANINGS

Schema = dict[str, Any]

HEAD = """\
<!-- Generated from operator/batchwright/api by `make generate`: don't edit. -->
# BatchJob

`batchwright.dev/v1alpha1`, kind `BatchJob`, plural `batchjobs`, short name `bj`, category `batchwright`.
`kubectl explain batchjob.spec` prints the same descriptions.
"""

SPEC_HEAD = """\
## Spec

Absent and null mean the same. The API server fills in no defaults: what is applied is what is stored.

Durations are written as in Go: numbers with units (`h`, `m`, `s`, `ms`, `us` or `µs`, `ns`), such as `90s`, `3m`,
`1h30m`, `1.5h`, `500ms`; at most 292 years. URIs are literal: nothing in them is percent-decoded.
"""

CHANGES_HEAD = """\
## What may change after creation

A change of a field that never changes is refused by the API server.
"""

STATUS_HEAD = """\
## Status

Conditions are the truth; `phase` follows from them. Every terminal phase has `Complete` or `Failed` true, so that
`kubectl wait` ends. A field that is not known yet is absent.
"""

UNDONE_HEAD = """\
## Requests that a batch ended without

A batch that is stopped publishes what is finished. Each other request has a line in the errors file, and its input line
in the retry file. Its `error.code` is one of these; it counts as failed.
"""

EXIT_CODES_HEAD = """\
## Exit codes of a worker

What a pod has to tell is in its termination message; its exit code is for the Job controller (`podFailurePolicy`).
Codes that stand not here, such as 137 after running out of memory, count against the index like 1.
"""


def reference(definition: Schema) -> str:
    """The whole reference of a CustomResourceDefinition."""
    version = definition["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    return "\n".join(
        [
            HEAD,
            SPEC_HEAD,
            table(("field", "type", "default", "description"), _spec_rows(properties["spec"])),
            CHANGES_HEAD,
            table(("when a change is read", "meaning"), ([effect, EFFECT_MEANINGS[effect]] for effect in Effect)),
            table(("field", "when", "note"), _change_rows()),
            STATUS_HEAD,
            table(("field", "type", "description"), _status_rows(properties["status"])),
            "### Phases\n",
            table(("phase", "meaning"), ([_code(phase), text] for phase, text in PHASE_MEANINGS.items())),
            "### Conditions\n",
            table(("condition", "meaning"), ([_code(kind), text] for kind, text in CONDITION_MEANINGS.items())),
            "### Reasons\n",
            table(("condition", "reason", "meaning"), _reason_rows()),
            "### Columns of `kubectl get`\n",
            table(("column", "field", "shown"), _column_rows(version["additionalPrinterColumns"])),
            UNDONE_HEAD,
            table(("code", "meaning"), ([_code(code), text] for code, text in UNDONE_MEANINGS.items())),
            EXIT_CODES_HEAD,
            table(("code", "name", "the Job controller", "meaning"), _exit_code_rows()),
        ]
    )


def split_default(description: str) -> tuple[str, str]:
    """A description without its default, and the default; empty where it has none."""
    match = re.search(r" ?Default: (.*?)\.(?= Can't be changed\.$|$)", description)
    if match is None:
        return description, ""
    return (description[: match.start()] + description[match.end() :]).strip(), match[1]


def fields(schema: Schema, prefix: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Each field under an object, depth first: path, schema, whether it is required."""
    for name, node in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, node, name in schema.get("required", ())
        yield from fields(node, f"{path}.")
        if node.get("type") == "array":
            yield from fields(node["items"], f"{path}[].")


def _spec_rows(spec: Schema) -> Iterator[Sequence[str]]:
    storage = spec["properties"]["storage"]["properties"]
    for path, node, required in fields(spec):
        if re.match(r"(input|output)\.storage\.", path):
            continue
        description, default = split_default(node["description"])
        if path != "storage" and node.get("properties") == storage:
            description += " Fields as in `storage`."
        yield [_code(path), _type(node), "**required**" if required else default, description]


def _status_rows(status: Schema) -> Iterator[Sequence[str]]:
    for path, node, _ in fields(status):
        yield [_code(path), _type(node), node["description"]]


def _change_rows() -> Iterator[Sequence[str]]:
    for entry in FIELD_CHANGES:
        yield [_code(entry.path), entry.effect, entry.note]


def _reason_rows() -> Iterator[Sequence[str]]:
    for condition, reasons in REASON_MEANINGS.items():
        for reason, meaning in reasons.items():
            yield [_code(condition), _code(reason), meaning]


def _column_rows(columns: Iterable[Schema]) -> Iterator[Sequence[str]]:
    for column in columns:
        shown = "with `-o wide`" if column.get("priority") else "always"
        yield [column["name"].upper(), _code(column["jsonPath"].removeprefix(".")), shown]


def _exit_code_rows() -> Iterator[Sequence[str]]:
    for code, meaning in EXIT_CODE_MEANINGS.items():
        yield [str(int(code)), code.name, _treatment(code), meaning]


def _treatment(code: ExitCode) -> str:
    if code is ExitCode.DONE:
        return "counts it as succeeded"
    if code is ExitCode.INTERRUPTED:
        return "replaces the pod, counts nothing (Ignore)"
    if code in FINAL_EXIT_CODES:
        return "ends the Job (FailJob)"
    return "replaces the pod up to the backoff limit"


def _type(node: Schema) -> str:
    """The type with its bounds, as short as it can be said."""
    if node.get("x-kubernetes-int-or-string"):
        return "integer or string"
    match node["type"]:
        case "string":
            return _string_type(node)
        case "integer":
            low, high = node.get("minimum"), node.get("maximum")
            return "integer" + (f", {low:,} to {high:,}" if low is not None and high is not None else "")
        case "array":
            return f"list of {node['items']['type']}s, at most {node['maxItems']}"
        case "object" if "additionalProperties" in node:
            return f"map of {node['additionalProperties']['type']}s, at most {node['maxProperties']}"
        case other:
            return str(other)


def _string_type(node: Schema) -> str:
    if "enum" in node:
        return " | ".join(_code(value) for value in node["enum"])
    if node.get("format") == "date-time":
        return "time"
    if node.get("pattern") == DURATION_PATTERN:
        return "duration"
    return f"string, at most {node['maxLength']:,}"


def _code(text: str) -> str:
    return f"`{text}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_escaped, line))} |\n" for line in lines)


def _escaped(cell: str) -> str:
    """A cell in which Markdown finds neither tags nor the end of the cell."""
    return cell.replace("<", "\\<").replace("|", "\\|")

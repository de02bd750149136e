"""What is generated is current, complete, and found out when it is not."""

import re
from pathlib import Path

import pytest
from hack import generate
from hack.reference import fields, split_default

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.changes import FIELD_CHANGES
from batchwright.api.conditions import ConditionType, Phase, Reason
from batchwright.api.crd import structural
from batchwright.api.exit_codes import ExitCode
from batchwright.api.status import BatchJobStatus
from batchwright.controller import settings
from batchwright.controller.core.resources import LIMITS, REQUESTS
from batchwright.gateway.settings import Settings as GatewaySettings

REFERENCE = generate.generated()["docs/reference/batchjob.md"]
SPEC = structural(BatchJobSpec.model_json_schema(by_alias=True))
STATUS = structural(BatchJobStatus.model_json_schema(by_alias=True, mode="serialization"))


def test_what_is_committed_is_current() -> None:
    assert generate.main(["--check"]) == 0


def test_what_is_missing_or_stale_is_named_and_then_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = tmp_path / "crds" / "batchjobs.yaml"
    stale.parent.mkdir()
    stale.write_text("stale")
    assert generate.main(["--check"], tmp_path) == 1
    complaint = capsys.readouterr().err
    assert complaint.splitlines() == [
        f"{path} is not current: run `make generate` and commit it"
        for path in (
            "crds/batchjobs.yaml",
            "docs/reference/batchjob.md",
            "docs/reference/settings.md",
            "docs/reference/gateway.md",
        )
    ]
    assert stale.read_text() == "stale"
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0


def rows() -> set[str]:
    """What stands in the first cell of some row."""
    return set(re.findall(r"^\| `([^`]+)` \|", REFERENCE, re.MULTILINE))


def test_the_reference_has_every_field() -> None:
    spec = {path for path, _, _ in fields(SPEC) if not re.match(r"(input|output)\.storage\.", path)}
    status = {path for path, _, _ in fields(STATUS)}
    assert spec | status <= rows()
    assert {entry.path for entry in FIELD_CHANGES} <= rows()


def test_the_reference_has_every_phase_condition_reason_and_exit_code() -> None:
    assert {*Phase, *ConditionType} <= rows()
    assert [reason for reason in Reason if f"| `{reason}` |" not in REFERENCE] == []
    assert [code for code in ExitCode if f"| {int(code)} | {code.name} |" not in REFERENCE] == []


def test_the_reference_of_the_settings_has_every_variable() -> None:
    page = generate.generated()["docs/reference/settings.md"]
    assert set(re.findall(r"^\| `(BATCHWRIGHT_\w+)` \|", page, re.MULTILINE)) == set(settings.variables().values())


def test_the_reference_of_the_gateway_has_every_setting_with_a_meaning() -> None:
    page = generate.generated()["docs/reference/gateway.md"]
    cells = dict(re.findall(r"^\| `([\w.\[\]]+)` \| (.*) \|$", page, re.MULTILINE))
    inner = {"limits.openai.bytes", "tenants.NAMESPACE.storage", "sharedVolume.claimName", "models[].server"}
    assert {field.alias for field in GatewaySettings.model_fields.values()} | inner <= set(cells)
    # Type, default, meaning: each field has a type, and a default or a meaning.
    assert [name for name, row in cells.items() if not re.match(r"\S.* \|.*\w", row)] == []


@pytest.mark.parametrize("path", [path for path in generate.generated() if path.endswith(".md")])
def test_every_row_of_a_table_has_as_many_cells_as_its_head(path: str) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", generate.generated()[path], re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Lines. Default: 8, or 9. Can't be changed.", ("Lines. Can't be changed.", "8, or 9")),
        ("Port. Default: 8000.", ("Port.", "8000")),
        ("Name. Default: ca.crt.", ("Name.", "ca.crt")),
        ("No default at all.", ("No default at all.", "")),
    ],
)
def test_a_default_is_taken_out_of_its_description(description: str, expected: tuple[str, str]) -> None:
    assert split_default(description) == expected


@pytest.mark.parametrize("path", [path for path, node, required in fields(SPEC) if not required])
def test_every_default_is_found(path: str) -> None:
    description = {path: node["description"] for path, node, _ in fields(SPEC)}[path]
    assert split_default(description)[1]


def test_the_documented_resources_of_a_worker_are_those_that_the_operator_sets() -> None:
    _, default = split_default(SPEC["properties"]["worker"]["properties"]["resources"]["description"])
    requests, limits = default.split("; ")
    assert requests == "requests " + ", ".join(f"{name} {value}" for name, value in REQUESTS.items())
    assert limits == "limits " + ", ".join(f"{name} {value}" for name, value in LIMITS.items())

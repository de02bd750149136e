"""docs/tuning.md: its parts of a spec can be applied, and the metrics that it names are those of the operator."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

import batchwright.controller.metrics  # noqa: F401 - its metrics are registered by then
from batchwright.api.batchjob import BatchJob
from batchwright.api.duration import parse_duration

MANUAL = (Path(__file__).parents[3] / "docs" / "tuning.md").read_text()
PARTS = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", MANUAL, re.MULTILINE | re.DOTALL)]
STOP = re.compile(r"^ *\| `manifests/\S+`.*\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
REST = {"input": {"uri": "s3://batches/in.jsonl"}, "output": {"uri": "s3://batches/out/"}}


def test_there_are_parts_of_a_spec() -> None:
    assert len(PARTS) >= 4
    assert all(set(part) == {"spec"} for part in PARTS)


@pytest.mark.parametrize("part", PARTS, ids=range(len(PARTS)))
def test_a_part_of_a_spec_can_be_applied(part: dict[str, Any]) -> None:
    job = {"metadata": {"name": "tuned", "namespace": "team-a"}, "spec": {**REST, **part["spec"]}}
    BatchJob.model_validate(job)


def test_a_stop_has_time_for_the_requests_timeout_and_all_around_it() -> None:
    rows = STOP.findall(MANUAL)
    assert len(rows) == 4
    for timeout, pause, drain, release, grace in rows:
        assert parse_duration(timeout).total_seconds() == int(drain)
        assert int(pause) + int(drain) + int(release) == int(grace)


def test_the_metrics_are_those_of_the_operator() -> None:
    served = set(re.findall(r"^# TYPE (\w+)", generate_latest().decode(), re.MULTILINE))
    named = set(re.findall(r"`(batchwright_\w*[a-z])`", MANUAL))
    assert named
    assert named <= served

"""Fields without effect yet are named, never passed over."""

from typing import Any

import pytest

from batchwright.api.batchjob import BatchJobSpec
from batchwright.api.unsupported import unsupported_field

MINIMAL: dict[str, Any] = {"input": {"uri": "s3://bucket/in.jsonl"}, "output": {"uri": "s3://bucket/out/"}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            MINIMAL | {"output": {"uri": "s3://bucket/out/", "names": {"progress": "progress.json"}}},
            "spec.output.names.progress",
        ),
    ],
)
def test_it_is_named_with_the_remedy(spec: dict[str, Any], field: str) -> None:
    problem = unsupported_field(BatchJobSpec.model_validate(spec))
    assert problem is not None
    assert problem.startswith(f"{field}: ")
    assert "Leave it out" in problem


def test_a_spec_without_them_has_no_problem() -> None:
    assert unsupported_field(BatchJobSpec.model_validate(MINIMAL)) is None

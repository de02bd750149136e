"""The limits of an input: of the operator's settings and the spec's the smaller one counts."""

import pytest

from batchwright.api.batchjob import BatchJob
from batchwright.api.worker_job import Limits, WorkerJob
from fixtures.specs import make_spec


@pytest.mark.parametrize(
    ("settings", "spec", "counts"),
    [(None, None, None), (5, None, 5), (None, 5, 5), (5, 6, 5), (6, 5, 5), (5, 5, 5)],
)
def test_the_smaller_limit_counts(settings: int | None, spec: int | None, counts: int | None) -> None:
    other = 1000  # of lines where bytes are looked at, and the other way round
    for by_settings, in_spec, found in (
        (Limits(max_lines=settings, max_file_bytes=other), {"lines": spec}, "max_lines"),
        (Limits(max_file_bytes=settings, max_lines=other), {"bytes": spec}, "max_file_bytes"),
    ):
        changes = {"input": {"limits": {name: limit for name, limit in in_spec.items() if limit is not None}}}
        batchjob = BatchJob.model_validate({"metadata": {"name": "job"}, "spec": make_spec(changes)})
        job = WorkerJob(batchjob=batchjob, server_url="http://vllm:8000", limits=by_settings)
        assert getattr(job, found) == counts


def test_a_spec_without_limits_leaves_those_of_the_settings() -> None:
    batchjob = BatchJob.model_validate({"metadata": {"name": "job"}, "spec": make_spec()})
    job = WorkerJob(batchjob=batchjob, server_url="http://vllm:8000", limits=Limits(max_lines=7))
    assert (job.max_lines, job.max_file_bytes) == (7, None)

"""One BatchJob for each endpoint, from its file to the published results."""

import math
from typing import Any

import pytest

from batchwright.api.reports import MergeReport
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, bucket_place, ids
from vllm.batches.lines import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, line
from vllm.flags import EMBEDDING_MODEL

LINES = 24
SHARD_LINES = 7

BODIES: dict[str, dict[str, Any]] = {
    CHAT: {},
    COMPLETIONS: {"prompt": "Say something.", "max_tokens": 8},
    RESPONSES: {"input": "Say something.", "max_output_tokens": 16},
}
CUT = {CHAT: "length", COMPLETIONS: "length", RESPONSES: "max_output_tokens"}
USAGE = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}


def completed(job: JobUnderTest, endpoint: str, **body: Any) -> tuple[MergeReport, list[dict[str, Any]]]:
    """Run a job of LINES lines in two workers; every line has its result, in the input's order."""
    wanted = [line(f"line-{number}", endpoint, **body) for number in range(LINES)]
    job = job.with_spec(sharding={"linesPerShard": SHARD_LINES}).input(wanted)
    report = job.complete(workers=2)
    results = job.published("results.jsonl")
    assert ids(results) == ids(wanted)
    assert (report.request_counts.completed, report.request_counts.failed) == (LINES, 0)
    assert {result["response"]["status_code"] for result in results} == {200}
    return report, results


def tokens(results: list[dict[str, Any]], name: str) -> int:
    """The sum of a count over all answers, in the words of either spelling."""
    usages = [result["response"]["body"]["usage"] for result in results]
    return sum(usage.get(name, usage.get(USAGE.get(name, name), 0)) for usage in usages)


@pytest.mark.vllm_short
@pytest.mark.parametrize("endpoint", BODIES)
def test_text_is_generated(job: JobUnderTest, endpoint: str) -> None:
    report, results = completed(job, endpoint, **BODIES[endpoint], ignore_eos=True)
    assert report.finish_reasons == {CUT[endpoint]: LINES}
    assert report.usage.input_tokens == tokens(results, "prompt_tokens") > LINES
    assert report.usage.output_tokens == tokens(results, "completion_tokens") >= 8 * LINES
    assert report.usage.total_tokens == tokens(results, "total_tokens")


def test_texts_are_embedded(embedding_job: JobUnderTest) -> None:
    report, results = completed(embedding_job, EMBEDDINGS, model=EMBEDDING_MODEL, input="Say something.")
    assert report.usage.input_tokens == tokens(results, "prompt_tokens") > LINES
    for result in results:
        (data,) = result["response"]["body"]["data"]
        assert math.hypot(*data["embedding"]) == pytest.approx(1, abs=0.01)


def test_a_bucket_holds_what_a_folder_would(job: JobUnderTest, s3_bucket: S3Bucket) -> None:
    place = bucket_place(s3_bucket, s3_bucket.server.endpoint_url)
    completed(job.at(place), CHAT)

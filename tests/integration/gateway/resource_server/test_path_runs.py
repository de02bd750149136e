"""Path-based batches from the request to the files, with real workers on a volume. 150,000 lines: tests/scale."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchwright.api.reports import FailureReport
from batchwright.worker.failures import StageFailed
from fixtures.gateway import BOB
from fixtures.made_batchjobs import job_of, run_batchjob
from fixtures.path_routes import BATCHES
from fixtures.path_volume import Volume
from fixtures.worker import MODEL, chat_line, chat_lines, ids, jsonl, parsed

MIB = 1 << 20
BODY_BYTES = 10_000_000


def test_a_run_of_5000_lines_leaves_its_files_where_the_result_says(volume: Volume) -> None:
    batch_id = volume.create([chat_line(f"r-{n}", stub="status=400" if n % 500 == 7 else None) for n in range(5000)])
    ran = run_batchjob(volume.job(batch_id), workers=2)
    volume.world.set_status(batch_id, **ran.status, metrics={"responseTimeSeconds": "12.5"})
    result = volume.result(batch_id)
    results, failures = (parsed(Path(result[name]).read_bytes()) for name in ("results_file", "errors_file"))
    assert ids(results) == [f"r-{n}" for n in range(5000) if n % 500 != 7]
    assert ids(failures) == [f"r-{n}" for n in range(5000) if n % 500 == 7]
    assert (result["metrics"]["lines_processed"], result["metrics"]["num_responses"]) == (5000, 4990)
    final = json.loads(Path(result["progress_file"]).read_bytes())
    assert (final["lines_processed"], final["num_responses_so_far"]) == (5000, 4990)
    assert final["total_tokens_so_far"] == final["metrics"]["total_tokens"] == result["metrics"]["total_tokens"] > 0


def test_requests_of_ten_megabytes_are_sent_whole(volume: Volume) -> None:
    batch_id = volume.create([chat_line(f"r-{n}", filler="x" * BODY_BYTES) for n in range(3)])
    ran = run_batchjob(volume.job(batch_id))
    volume.world.set_status(batch_id, **ran.status)
    assert ids(parsed(Path(volume.result(batch_id)["results_file"]).read_bytes())) == ["r-0", "r-1", "r-2"]
    assert ran.peak_bytes < 256 * MIB


def test_several_at_once_of_inputs_of_one_name_each_have_their_own_files(volume: Volume) -> None:
    volume.stub.switch(delay="0.05")
    wanted = {
        volume.create([chat_line(f"{letter}-{n}") for n in range(300)], folder=letter): letter for letter in "abc"
    }
    jobs = {batch_id: volume.job(batch_id) for batch_id in wanted}
    with ThreadPoolExecutor(len(jobs)) as pool:
        ran = dict(zip(jobs, pool.map(run_batchjob, jobs.values()), strict=True))
    for batch_id, letter in wanted.items():
        volume.world.set_status(batch_id, **ran[batch_id].status)
        published = Path(volume.result(batch_id)["results_file"])
        assert batch_id in published.parent.name
        assert ids(parsed(published.read_bytes())) == [f"{letter}-{n}" for n in range(300)]


@pytest.mark.parametrize("settings", [{"limits": {"paths": {"lines": 4}}}])
@pytest.mark.parametrize(("lines", "taken"), [(4, True), (5, False)])
def test_the_settings_say_how_many_lines_an_input_may_have(volume: Volume, lines: int, taken: bool) -> None:
    job = volume.job(volume.create(chat_lines(lines)))
    if taken:
        assert job.plan().lines == lines
        return
    with pytest.raises(StageFailed) as refused:
        job.plan()
    report = refused.value.report
    assert isinstance(report, FailureReport)
    (error,) = report.validation_errors
    assert (error.code, error.message) == ("too_many_tasks", "The input file has 5 requests; the limit is 4.")


class TestDeletedBatchJobs:
    def test_one_that_had_published_has_ended_as_its_work_says(self, volume: Volume) -> None:
        batch_id = volume.create([chat_line("a"), chat_line("b", stub="status=400")])
        ran = run_batchjob(volume.job(batch_id))
        volume.delete_batchjob(batch_id)
        assert volume.world.get(f"{BATCHES}/{batch_id}").json() == "completed"
        result = volume.result(batch_id)
        assert ids(parsed(Path(result["results_file"]).read_bytes())) == ["a"]
        assert ids(parsed(Path(result["errors_file"]).read_bytes())) == ["b"]
        final = json.loads(Path(result["progress_file"]).read_bytes())
        metrics = result["metrics"]
        for counted in ("lines_processed", "num_responses", "total_tokens"):
            assert metrics[counted] == final["metrics"][counted]
        assert metrics["response_time"] == pytest.approx(final["metrics"]["response_time"], abs=0.1)
        seconds = metrics["total_tokens"] / metrics["throughput_tokens_per_second"]
        assert metrics["response_time"] == pytest.approx(seconds, abs=0.01)
        assert metrics["total_tokens"] == ran.merged.usage.total_tokens

    def test_one_that_had_not_published_has_failed(self, volume: Volume) -> None:
        batch_id = volume.create(chat_lines(2))
        job = volume.job(batch_id)
        job.work(job.plan())
        volume.delete_batchjob(batch_id)
        assert volume.world.get(f"{BATCHES}/{batch_id}").json() == "failed"
        assert volume.result(batch_id) == (
            "The batch failed: The BatchJob of this batch was deleted before it had ended."
        )

    def test_work_elsewhere_is_not_looked_at_and_the_message_says_where_it_is(self, volume: Volume) -> None:
        batch_id = volume.world.create(input_file="s3://own/in.jsonl", output_folder_path="s3://own/out")
        folder = volume.world.batchjob(batch_id)["spec"]["output"]["folder"]
        volume.delete_batchjob(batch_id)
        message = volume.result(batch_id)
        assert message.startswith("The batch failed: The BatchJob of this batch was deleted")
        assert message.endswith(f"look there for what it published: s3://own/out/{folder}.")

    def test_nothing_is_read_through_a_link_to_another_tenants_work(self, volume: Volume) -> None:
        theirs = volume.root / "tenants/team-b/in.jsonl"
        theirs.write_bytes(jsonl(chat_lines(2)))
        other = volume.world.create(BOB, model=MODEL, input_file=str(theirs))
        run_batchjob(job_of(volume.world.batchjob(other, "team-b"), volume.root.parent / other, volume.stub.url))
        batch_id = volume.create(chat_lines(1))
        (published,) = (volume.root / "tenants/team-b/batch-results").iterdir()
        mine = (
            volume.root / "tenants/team-a/batch-results" / volume.world.batchjob(batch_id)["spec"]["output"]["folder"]
        )
        mine.parent.mkdir()
        mine.symlink_to(published)
        volume.delete_batchjob(batch_id)
        assert volume.world.get(f"{BATCHES}/{batch_id}").json() == "failed"

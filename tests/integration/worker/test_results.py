"""From an input to published results, against a real server."""

import json

import pytest

from batchwright.api.reports import MergeReport, PlanReport, Progress
from fixtures.s3 import S3Bucket
from fixtures.stub_client import BODIES
from fixtures.worker import JobUnderTest, bucket_place, chat_line, chat_lines, ids, jsonl
from stub.harness import StubProcess

RESULTS, ERRORS, RETRY = "results.jsonl", "errors.jsonl", "retry.jsonl"

OUTCOMES: dict[str, tuple[str | None, int | str, int]] = {
    # how the server answers: what becomes of the line, and after how many tries
    "at once": (None, 200, 1),
    "late": ("delay=0.3", 200, 1),
    "cut at max_tokens": ("finish=length", 200, 1),
    "half a surrogate pair": ("text=surrogate", 200, 1),
    "line separators in the text": ("text=line_separator", 200, 1),
    "busy twice": ("status=503,times=2", 200, 3),
    "paced": ("status=429,retry_after=0,times=1", 200, 2),
    "empty once": ("body=empty,times=1", 200, 2),
    "not JSON once": ("body=garbage,times=1", 200, 2),
    "cut off once": ("body=truncated,times=1", 200, 2),
    "reset once": ("reset=after_read,times=1", 200, 2),
    "reset within the answer once": ("reset=mid_body,times=1", 200, 2),
    "aborted once": ("finish=abort,times=1", 200, 2),
    "without a finish reason once": ("finish=null,times=1", 200, 2),
    "refused": ("status=400", 400, 1),
    "unprocessable": ("status=422", 422, 1),
    "refused by a web page": ("status=403,body=html", 403, 1),
    "broken for ever": ("status=500", 500, 4),
    "empty for ever": ("body=empty", "invalid_answer", 4),
    "a web page for ever": ("body=html", "invalid_answer", 4),
}


def test_every_way_of_answering_ends_in_its_outcome(job: JobUnderTest, stub: StubProcess) -> None:
    report = job.input([chat_line(name, switches) for name, (switches, _, _) in OUTCOMES.items()]).complete()
    good = [name for name, (_, outcome, _) in OUTCOMES.items() if outcome == 200]
    bad = [name for name in OUTCOMES if name not in good]
    results, errors = job.published(RESULTS), job.published(ERRORS)
    assert ids(results) == good
    assert ids(errors) == bad
    assert ids(job.published(RETRY)) == bad
    for line in errors:
        outcome = OUTCOMES[line["custom_id"]][1]
        if isinstance(outcome, int):
            assert line["response"]["status_code"] == outcome
            assert "error" in line["response"]["body"]
            assert line["error"] is None
        else:
            assert line["response"] is None
            assert line["error"]["code"] == outcome
            assert line["error"]["message"].endswith("Tried 4 times.")
    assert stub.arrivals().arrived == {name: tries for name, (_, _, tries) in OUTCOMES.items()}
    assert (report.request_counts.completed, report.request_counts.failed) == (len(good), len(bad))
    assert report.finish_reasons == {"stop": len(good) - 1, "length": 1}


def test_a_request_without_an_answer_in_time(job: JobUnderTest, stub: StubProcess) -> None:
    job.input([chat_line("hangs", "hang")]).with_spec(requests={"timeout": "200ms", "retries": 1}).complete()
    (line,) = job.published(ERRORS)
    assert line["error"]["code"] == "request_timeout"
    assert line["response"] is None
    assert stub.arrivals().arrived == {"hangs": 2}


def test_a_thousand_requests_of_which_ten_are_refused(
    job: JobUnderTest, stub: StubProcess, s3_bucket: S3Bucket
) -> None:
    """As pods do it: every stage a process, three workers at once, results in a bucket."""
    stub.switch(delay="0-0.1")
    refused = {f"request-{number}" for number in range(5, 1000, 100)}
    lines = [
        chat_line(one["custom_id"], "status=400,times=1" if one["custom_id"] in refused else None)
        for one in chat_lines(1000)
    ]
    job = job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url)).with_spec(sharding={"linesPerShard": 70})
    planned = job.input(lines).start("plan").report(PlanReport)
    assert (planned.lines, planned.shards) == (1000, 15)
    workers = [job.start_worker(planned, index, workers=3, spool=f"spool-{index}") for index in range(3)]
    progress = [worker.report(Progress) for worker in workers]
    report = job.start_merge(planned).report(MergeReport)

    assert sum(one.completed for one in progress) == report.request_counts.completed == 990
    assert sum(one.failed for one in progress) == report.request_counts.failed == 10
    assert sum(one.shards_completed for one in progress) == 15
    assert report.error_codes == {"400": 10}
    assert report.finish_reasons == {"stop": 990}
    results, errors = job.published(RESULTS), job.published(ERRORS)
    assert ids(results) == [one for one in ids(lines) if one not in refused]
    assert ids(errors) == [one for one in ids(lines) if one in refused]
    assert {line["response"]["status_code"] for line in errors} == {400}
    assert all(line["response"]["body"]["error"]["message"] for line in errors)
    usage = [line["response"]["body"]["usage"] for line in results]
    assert report.usage.input_tokens == sum(one["prompt_tokens"] for one in usage)
    assert report.usage.output_tokens == sum(one["completion_tokens"] for one in usage)
    assert report.usage.total_tokens == sum(one["total_tokens"] for one in usage)
    for name, published in ((RESULTS, report.output), (ERRORS, report.errors), (RETRY, report.retry)):
        assert published is not None
        assert (published.bytes, published.lines) == (
            len(job.published_bytes(name)),
            len(job.published(name)),
        )
    assert stub.arrivals().arrived == dict.fromkeys(ids(lines), 1)

    retry = job.published_bytes(RETRY)
    assert retry == jsonl(line for line in lines if line["custom_id"] in refused)
    again = job.at(bucket_place(s3_bucket, s3_bucket.server.endpoint_url, "in/retry.jsonl", "again/")).input(retry)
    assert again.complete().request_counts.completed == 10
    assert ids(again.published(RESULTS)) == ids(errors)


def test_several_workers_at_random_delays_give_input_order(job: JobUnderTest, stub: StubProcess) -> None:
    stub.switch(delay="0-0.05")
    lines = chat_lines(200)
    job = job.input(lines).with_spec(sharding={"linesPerShard": 13}, requests={"maxConcurrency": 16})
    job.complete(workers=3)
    assert ids(job.published(RESULTS)) == ids(lines)
    assert len({line["id"] for line in job.published(RESULTS)}) == 200


@pytest.mark.parametrize("store", ["folder", "bucket"])
@pytest.mark.parametrize("name", ["eval_Qwen3-8B_1", "of any characters: ü %2F +&"])
def test_everything_lies_in_the_folder_that_the_spec_names(
    job: JobUnderTest, request: pytest.FixtureRequest, store: str, name: str
) -> None:
    if store == "bucket":
        bucket: S3Bucket = request.getfixturevalue("s3_bucket")
        job = job.at(bucket_place(bucket, bucket.server.endpoint_url))
    job = job.input([chat_line("good"), chat_line("bad", "status=400")]).with_output(folder=name)
    report = job.complete()
    published = (report.output, report.errors, report.retry)
    assert [one and one.uri for one in published] == [f"{job.output_folder}{kind}" for kind in (RESULTS, ERRORS, RETRY)]
    assert job.output_folder == f"{job.place.output_uri}{name}/"
    assert ids(job.published(RESULTS)) == ["good"]
    stage = job.stage()
    above = stage.layout.prefix.removesuffix(f"{name}/")
    written = [stage.output_store.uri(info.key) for info in stage.output_store.list(above)]
    assert {uri for uri in written if not uri.startswith(job.output_folder)} == set()
    assert f"{job.output_folder}.batchwright/owner.json" in written


def test_a_request_id_of_the_result_is_found_in_the_servers_log(job: JobUnderTest, stub: StubProcess) -> None:
    job.input([chat_line("first"), chat_line("third", "status=503,times=2"), chat_line("bad", "status=400")])
    job.complete()
    arrivals = {arrival.request_id: arrival for arrival in stub.arrivals().last}
    assert len(arrivals) == 5, "every try has an id of its own"
    for line in (*job.published(RESULTS), *job.published(ERRORS)):
        assert arrivals[line["response"]["request_id"]].key == line["custom_id"]
    third = next(line for line in job.published(RESULTS) if line["custom_id"] == "third")
    assert arrivals[third["response"]["request_id"]].attempt == 2


def test_without_the_servers_header_the_id_that_was_sent_is_kept(job: JobUnderTest, stub: StubProcess) -> None:
    stub.switch(request_id_headers=False)
    job.input(chat_lines(1)).complete()
    assert job.published(RESULTS)[0]["response"]["request_id"] == stub.arrivals().last[0].request_id


@pytest.mark.parametrize("endpoint", list(BODIES))
def test_every_endpoint_runs(job: JobUnderTest, stub: StubProcess, endpoint: str) -> None:
    lines = [
        {"custom_id": f"id-{n}", "method": "POST", "url": endpoint, "body": {"model": "stub-model"} | BODIES[endpoint]}
        for n in range(3)
    ]
    report = job.input(lines).complete()
    assert report.request_counts.completed == 3
    assert report.usage.input_tokens
    assert ids(job.published(RESULTS)) == ["id-0", "id-1", "id-2"]
    assert {arrival.endpoint for arrival in stub.arrivals().last} == {endpoint}


def test_bodies_go_out_and_answers_come_in_byte_for_byte(job: JobUnderTest) -> None:
    messages = b'[{"role":"user","content":"\xe2\x80\xa8 \\u00e9 1.0"}]'
    odd = b'{ "model":"stub-model" ,\t"messages":%s,\r"temperature":1.50e0 }' % messages
    line = b'{"custom_id":"odd \xe2\x80\xa8","method":"POST","url":"/v1/chat/completions","body":%s}\r\n' % odd
    report = job.input(b"\xef\xbb\xbf\r\n" + line).complete()
    assert report.request_counts.completed == 1
    raw = job.published_bytes(RESULTS)
    assert raw.count(b"\n") == len(raw.decode().splitlines()) == 1
    assert json.loads(raw)["custom_id"] == "odd \u2028"


class TestSettings:
    """What the spec says reaches the server."""

    def test_the_priority(self, job: JobUnderTest, stub: StubProcess) -> None:
        job.input(chat_lines(2)).with_spec(requests={"priority": -7}).complete()
        assert {arrival.priority for arrival in stub.arrivals().last} == {-7}

    def test_the_api_key(self, job: JobUnderTest, stub: StubProcess) -> None:
        stub.switch(api_keys=["sk-right"])
        (job.folder / "server").mkdir()
        (job.folder / "server" / "api-key").write_text("sk-right\n")
        assert job.input(chat_lines(2)).complete().request_counts.completed == 2

    def test_the_number_of_retries(self, job: JobUnderTest, stub: StubProcess) -> None:
        job.input([chat_line("a", "status=500")]).with_spec(requests={"retries": 0}).complete()
        assert stub.arrivals().arrived == {"a": 1}

    def test_the_number_of_requests_in_flight(self, job: JobUnderTest, stub: StubProcess) -> None:
        stub.switch(delay="0.02")
        job.input(chat_lines(40)).with_spec(requests={"maxConcurrency": 3}).complete()
        assert max(arrival.in_flight for arrival in stub.arrivals().last) == 3

    def test_the_names_of_what_is_published(self, job: JobUnderTest) -> None:
        names = {"results": "ok.jsonl", "errors": "bad.jsonl", "retry": "again.jsonl"}
        job = job.with_spec(output={"uri": job.place.output_uri, "names": names})
        job.input([chat_line("a"), chat_line("b", "status=400")]).complete()
        assert [ids(job.published(name)) for name in names.values()] == [["a"], ["b"], ["b"]]


class TestTextsOfAnswers:
    """What models say, in files for readers that cut at `\\n` and for those that use `splitlines`."""

    TEXTS = (
        "text=surrogate",
        "text=line_separator",
        "size=5MB",
        "text=line_separator,size=5MB",
        "status=400,text=surrogate",
    )

    def test_every_line_is_one_line_for_every_reader(self, job: JobUnderTest) -> None:
        lines = [chat_line(f"{number} \u2028 \u0085", switches) for number, switches in enumerate(self.TEXTS)]
        raw_input = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
        report = job.input(raw_input).complete()
        assert (report.request_counts.completed, report.request_counts.failed) == (4, 1)
        assert len(raw_input.decode().splitlines()) > len(lines), "the retry line had separators in it too"
        for name, count in ((RESULTS, 4), (ERRORS, 1), (RETRY, 1)):
            raw = job.published_bytes(name)
            assert raw.endswith(b"\n")
            by_newline, by_splitlines = raw.decode().split("\n")[:-1], raw.decode().splitlines()
            assert by_newline == by_splitlines
            assert len(raw.splitlines()) == len(by_newline) == count
            for line in by_newline:
                json.dumps(json.loads(line), ensure_ascii=False).encode()  # no half of a surrogate pair is left
        texts = [line["response"]["body"]["choices"][0]["message"]["content"] for line in job.published(RESULTS)]
        assert "\ufffd" in texts[0]
        assert "\u2028" in texts[1]
        assert len(texts[2].encode()) >= 5_000_000
        assert "\u2028" in texts[3]

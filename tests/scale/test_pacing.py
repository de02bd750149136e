"""A server that asks for patience for a whole minute, over real sockets. On a clock that takes no time:
tests/unit/worker/run/test_sender_on_servers.py.
"""

import time

import pytest

from fixtures.worker import JobUnderTest, chat_lines, ids, wait_until
from stub.harness import StubProcess

LINES = 400
SECONDS = 60.0

pytestmark = [pytest.mark.scale, pytest.mark.timeout(600)]


@pytest.mark.parametrize("retry_after", ["", ",retry_after=5"], ids=["429 alone", "with Retry-After"])
@pytest.mark.parametrize("concurrency", ["Fixed", "Adaptive"])
def test_a_minute_of_429_fails_no_line(
    retry_after: str, concurrency: str, job: JobUnderTest, stub: StubProcess
) -> None:
    stub.switch(delay="0.05")
    requests = {"maxConcurrency": 16, "retries": 0, "concurrency": concurrency}
    job = job.with_spec(sharding={"linesPerShard": 100}, requests=requests).input(chat_lines(LINES))
    planned = job.plan()
    with job.working(planned) as worker:
        wait_until(lambda: stub.arrivals().total > LINES // 4)
        stub.switch(requests=f"status=429{retry_after}")
        arrived = stub.arrivals().total
        time.sleep(SECONDS)
        refused = stub.arrivals().total - arrived
        stub.switch(requests="")
        assert worker.end().failed == 0
    report = job.merge(planned)
    assert (report.request_counts.completed, report.request_counts.failed) == (LINES, 0)
    assert ids(job.published("results.jsonl")) == ids(chat_lines(LINES))
    assert refused < 20 * SECONDS, "it was asked patiently"

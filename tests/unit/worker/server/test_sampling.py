"""When the server's metrics are asked for, and what becomes of the answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from batchwright.worker.server.concurrency import LatestAnswers, ServerLoad
from batchwright.worker.server.load import Metrics
from batchwright.worker.server.sampling import MISSES, RARELY_SECONDS, Sampling, metrics_of
from batchwright.worker.transport.errors import AnswerTimeout, TransportError
from batchwright.worker.transport.protocol import Answer
from fixtures.transport import NoServer

Results = Sequence[Answer | TransportError]


def metrics(waiting: int, running: int) -> Answer:
    text = f"vllm:num_requests_waiting {waiting}\nvllm:num_requests_running {running}\n"
    return Answer(200, {}, text.encode())


NOT_FOUND = Answer(404, {}, b'{"detail": "Not Found"}')
LATE = AnswerTimeout("no answer within 2 s")


@dataclass
class Server(NoServer):
    """Answers by turns, the last one for ever."""

    turns: list[Results]
    asked: int = 0

    async def get_each(self, path: str, **_: object) -> Results:
        assert path == "/metrics"
        self.asked += 1
        return self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]


@dataclass(slots=True)
class Sent:
    in_flight: int = 4
    loads: list[ServerLoad] = field(default_factory=list)

    def loaded(self, load: ServerLoad) -> None:
        self.loads.append(load)


@dataclass(slots=True)
class Sleep:
    """Ends the task after so many naps."""

    naps: int
    seconds: list[float] = field(default_factory=list)
    then: Callable[[], None] = lambda: None

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.then()
        if len(self.seconds) > self.naps:
            raise asyncio.CancelledError


async def sampled(server: Server, traffic: Sent, sleep: Sleep, workers: int = 1) -> None:
    sampling = Sampling(server, traffic, workers=workers, sleep=sleep, chance=lambda: 0.5)
    with pytest.raises(asyncio.CancelledError):
        await sampling.run()


async def test_it_asks_every_second() -> None:
    traffic, sleep = Sent(), Sleep(3)
    await sampled(Server([[metrics(0, 4)], [metrics(1, 4)], [metrics(2, 4)]]), traffic, sleep)
    assert traffic.loads == [ServerLoad(0, 4, 0), ServerLoad(1, 4, 0), ServerLoad(2, 4, 0)]
    assert sleep.seconds == [0.5, 1, 1, 1]


async def test_it_tells_what_the_server_answered_since_the_sample_before() -> None:
    def counted(count: int, seconds: float, queued: float) -> Results:
        text = f"vllm:e2e_request_latency_seconds_count {count}\nvllm:e2e_request_latency_seconds_sum {seconds}\n"
        text += f"vllm:request_queue_time_seconds_sum {queued}\nvllm:request_inference_time_seconds_sum {queued}\n"
        text += f"vllm:generation_tokens_total {count * 30}\nvllm:e2e_request_latency_seconds_created 1.7e9\n"
        return [Answer(200, {}, metrics(0, 4).body + text.encode())]

    server = Server([counted(100, 20, 5), counted(120, 24, 6), counted(120, 24, 6)])
    traffic = Sent()
    seconds = iter((7.0, 8.0, 9.0))
    sampling = Sampling(server, traffic, sleep=Sleep(3), clock=lambda: next(seconds), chance=lambda: 0.5)
    with pytest.raises(asyncio.CancelledError):
        await sampling.run()
    assert [load.latest for load in traffic.loads] == [None, LatestAnswers(20, 1.0, 0.2, 0.05, 0.05, 30), None]


async def test_many_workers_ask_less_often_each() -> None:
    sleep = Sleep(1)
    await sampled(Server([[metrics(0, 4)]]), Sent(), sleep, workers=24)
    assert sleep.seconds == [1.5, 3.0]
    sleep = Sleep(1)
    await sampled(Server([[metrics(0, 4)]]), Sent(), sleep, workers=1000)
    assert sleep.seconds == [2.0, 4.0]


async def test_it_does_not_ask_while_nothing_is_in_flight() -> None:
    server = Server([[metrics(0, 4)]])
    await sampled(server, Sent(in_flight=0), Sleep(5))
    assert server.asked == 0


@pytest.mark.parametrize("result", [NOT_FOUND, Answer(200, {}, b"up 1\n"), LATE], ids=["404", "other metrics", "late"])
async def test_where_there_are_no_such_metrics_it_asks_ever_more_rarely(result: Answer | TransportError) -> None:
    traffic, sleep = Sent(), Sleep(100)
    await sampled(Server([[result]]), traffic, sleep)
    assert traffic.loads == []
    assert sleep.seconds[1:10] == [1, 1, 2, 4, 8, 16, 32, RARELY_SECONDS, RARELY_SECONDS]
    assert sleep.seconds[-1] == RARELY_SECONDS


async def test_it_asks_every_second_again_once_there_are_metrics() -> None:
    sleep = Sleep(MISSES + 2)
    turns: list[Results] = [[NOT_FOUND]] * MISSES
    await sampled(Server([*turns, [metrics(0, 4)]]), Sent(), sleep)
    assert sleep.seconds[1:] == [1, 1, 2, 1, 1]


async def test_a_sample_that_is_missed_now_and_then_changes_nothing() -> None:
    traffic, sleep = Sent(), Sleep(6)
    turns: list[Results] = [[LATE], [metrics(0, 4)]] * 3
    await sampled(Server(turns), traffic, sleep)
    assert len(traffic.loads) == 3
    assert set(sleep.seconds[1:]) == {1}


async def test_a_server_that_had_metrics_is_asked_as_often_as_before_though_it_is_late() -> None:
    sleep = Sleep(10)
    await sampled(Server([[metrics(0, 4)], [LATE]]), Sent(), sleep)
    assert set(sleep.seconds[1:]) == {1}


def test_the_addresses_of_a_server_count_together() -> None:
    assert metrics_of([metrics(1, 10), metrics(2, 20)]) == Metrics(ServerLoad(3, 30, 0), None)


@pytest.mark.parametrize("other", [LATE, NOT_FOUND], ids=["late", "404"])
def test_one_address_that_does_not_tell_spoils_the_sample(other: Answer | TransportError) -> None:
    assert metrics_of([metrics(1, 10), other]) is None

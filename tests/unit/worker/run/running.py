"""A runner over a real store on a volume, with a transport that answers when a test says so.

Against a real server the moments at which these tests stop a worker could only be hit by chance.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from batchwright.api.defaults import RequestPolicy
from batchwright.batchfile.layout import WorkLayout
from batchwright.batchfile.plan_record import PlannedInput, PlanRecord, Shard, decode_record
from batchwright.batchfile.result_line import read_finished_line
from batchwright.batchfile.shard_record import ShardRecord, WorkerState
from batchwright.storage.errors import AccessDenied, StorageError, StorageUnavailable
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectInfo
from batchwright.worker.api_key import ApiKey
from batchwright.worker.run.claims import ShardQueue, WorkerIdentity
from batchwright.worker.run.progress import RunProgress
from batchwright.worker.run.runner import Runner, line_queue
from batchwright.worker.run.sender import Sender
from batchwright.worker.run.shard_input import ShardInput
from batchwright.worker.run.stopping import sleep_unless
from batchwright.worker.server.availability import Availability
from batchwright.worker.server.concurrency import FixedLimit
from batchwright.worker.server.findings import WatchTimes
from batchwright.worker.server.gate import Gate
from batchwright.worker.server.watch import Watch
from batchwright.worker.transport.errors import TransportError
from batchwright.worker.transport.protocol import Answer, Body
from fixtures.transport import NoServer

INPUT = "input.jsonl"
LAYOUT = WorkLayout("work/")
DONE = b'{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}'
SECONDS = 30.0
"""Within which a test's worker must have got somewhere."""

Responder = Callable[[str], Answer | Exception | None]
"""From a custom_id to its answer; None holds it back until the transport's `release`."""


def answer(status: int = 200, body: bytes = DONE) -> Answer:
    return Answer(status, {}, body)


def answer_all(custom_id: str) -> Answer:
    return answer()


def hold_all(custom_id: str) -> None:
    return None


class ScriptedTransport(NoServer):
    """Answers by a script. `arrived` counts tries by custom_id."""

    def __init__(self, respond: Responder, delay: Callable[[], float] = lambda: 0.0) -> None:
        self.respond = respond
        self._delay = delay
        self.arrived = Counter[str]()
        self.in_flight = 0
        self.health: Answer | TransportError = answer()
        self._released = asyncio.Event()

    async def post(self, path: str, body: Body, **_: object) -> Answer:
        custom_id = json.loads(bytes(body))["id"]
        self.arrived[custom_id] += 1
        self.in_flight += 1
        try:
            reply = self.respond(custom_id)
            if reply is None:
                await self._released.wait()
                reply = answer()
            await asyncio.sleep(self._delay())
        finally:
            self.in_flight -= 1
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def probe(self, path: str, **_: object) -> Answer:
        if isinstance(self.health, TransportError):
            raise self.health
        return self.health

    def release(self) -> None:
        """Answer what was held back, and everything after it."""
        self._released.set()


class FailingStore(FileStore):
    """A volume on which `fail` may refuse an operation: it gets the operation and the key, and gives the error."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.fail: Callable[[str, str], StorageError | None] = lambda operation, key: None

    def _check(self, operation: str, key: str) -> None:
        if error := self.fail(operation, key):
            raise error

    def write(self, key: str, data: bytes, *, if_none_match: bool = False, if_match: str | None = None) -> ObjectInfo:
        self._check("write", key)
        info = super().write(key, data, if_none_match=if_none_match, if_match=if_match)
        self._check("answer", key)
        return info

    def write_file(self, key: str, path: Path) -> ObjectInfo:
        self._check("write", key)
        return super().write_file(key, path)

    def read(self, key: str) -> bytes:
        self._check("read", key)
        return super().read(key)


def refused(key: str) -> AccessDenied:
    """A refusal, which doesn't pass."""
    return AccessDenied("PutObject", key, "no", "s3:PutObject")


def away(key: str) -> StorageUnavailable:
    """What passes by itself."""
    return StorageUnavailable("PutObject", key, "away")


@dataclass
class Work:
    """A planned input of `lines` requests on a volume, and workers on it."""

    folder: Path
    lines: int
    lines_per_shard: int = 10
    concurrency: int = 4
    retries: int = 0
    padding: int = 0
    """Bytes by which each line is drawn out."""
    segment_seconds: float = 1000.0
    tells_open: bool = False
    """Whether the worker's state tells of open shards."""
    store: FailingStore = field(init=False)
    plan: PlanRecord = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "volume").mkdir(exist_ok=True)
        self.store = FailingStore(self.folder / "volume")
        lines = [self._line(number) for number in range(self.lines)]
        info = self.store.write(INPUT, b"".join(lines))
        shards, start = [], 0
        for first in range(0, self.lines, self.lines_per_shard):
            some = lines[first : first + self.lines_per_shard]
            end = start + sum(map(len, some))
            shards.append(Shard(start, end, first + 1, len(some)))
            start = end
        self.plan = PlanRecord(
            fingerprint="f",
            input=PlannedInput(self.store.uri(INPUT), info.etag, info.size),
            endpoint="/v1/test",
            model="m",
            lines=self.lines,
            lines_per_shard=self.lines_per_shard,
            conditional_put=True,
            shards=tuple(shards),
        )

    def _line(self, number: int) -> bytes:
        body = {"id": self.ids[number], "padding": "x" * self.padding}
        line = {"custom_id": self.ids[number], "method": "POST", "url": "/v1/test", "body": body}
        return json.dumps(line).encode() + b"\n"

    @property
    def ids(self) -> list[str]:
        return [f"id-{number}" for number in range(self.lines)]

    def runner(
        self,
        transport: ScriptedTransport,
        attempt: str = "first",
        index: int = 0,
        workers: int = 1,
        times: WatchTimes | None = None,
    ) -> Runner:
        stopping = asyncio.Event()
        sleep = sleep_unless(stopping)
        identity = WorkerIdentity(1, index, workers, attempt)
        policy = RequestPolicy(timedelta(seconds=60), self.retries, self.concurrency, None)
        lines = line_queue(self.concurrency)
        gate = Gate(Availability(times, has_untried=lambda: lines.left), FixedLimit(self.concurrency), lines)
        watch = Watch(transport, gate, ApiKey(None), self.plan.model)
        return Runner(
            plan=self.plan,
            layout=LAYOUT,
            output=self.store,
            source=ShardInput(self.store, INPUT, self.plan, 1 << 20, sleep),
            queue=ShardQueue(
                store=self.store,
                layout=LAYOUT,
                identity=identity,
                shards=len(self.plan.shards),
                exclusive=True,
            ),
            lines=lines,
            sender=Sender(transport, policy, ApiKey(None), gate, watch, sleep=sleep),
            progress=RunProgress(identity, self.state(), gate, tells_open=self.tells_open),
            identity=identity,
            spool=self.folder / "spool" / attempt,
            stopping=stopping,
            segment_seconds=self.segment_seconds,
            companions=(watch.run,),
        )

    def state(self) -> WorkerState | None:
        key = LAYOUT.worker(1, 0)
        return decode_record(self.store.read(key), WorkerState) if next(self.store.list(key), None) else None

    def segment_ids(self) -> list[str]:
        """The ids in all segments, as often as they stand there."""
        keys = [
            key for info in self.store.list(LAYOUT.segments) if LAYOUT.shard_of_segment(key := info.key) is not None
        ]
        return [read_finished_line(line).custom_id for key in keys for line in self.store.read(key).splitlines()]

    def records(self) -> dict[int, ShardRecord]:
        infos = list(self.store.list(LAYOUT.records))
        records = [decode_record(self.store.read(info.key), ShardRecord) for info in infos]
        return {record.shard: record for record in records}

    def results(self) -> list[str]:
        """The ids in the results and errors of all committed shards, shard by shard."""
        files = [file for record in self.records().values() for file in (record.results, record.errors) if file]
        return [read_finished_line(line).custom_id for file in files for line in self.store.read(file.key).splitlines()]


@asynccontextmanager
async def running(runner: Runner) -> AsyncIterator[asyncio.Task[object]]:
    """A worker at work in the background; it ends with the body, at the latest."""
    task: asyncio.Task[object] = asyncio.create_task(runner.run())
    try:
        async with asyncio.timeout(SECONDS):
            yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


async def until(condition: Callable[[], object]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - nothing tells of a change
            await asyncio.sleep(0.001)


async def settle(seconds: float = 0.05) -> None:
    """Give a worker the time to do what it should not do."""
    await asyncio.sleep(seconds)


async def finish(work: Work, attempt: str = "last") -> ScriptedTransport:
    """Let another worker do what is left."""
    transport = ScriptedTransport(answer_all)
    async with running(work.runner(transport, attempt)) as task:
        await task
    return transport

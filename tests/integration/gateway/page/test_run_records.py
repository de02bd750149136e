"""What the plot of a run is read from."""

from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest

from batchwright.batchfile.layout import OutputLayout
from batchwright.gateway.context import Gateway
from batchwright.gateway.page.run_records import MOST_READ, RunRecords
from fixtures.page_world import FINGERPRINT, PageWorld, running


class TestRunRecords:
    """What the plot is read from lies where the tenant may write."""

    def sampled(self, world: PageWorld, record: Any) -> Any:
        state = world.state(record)
        gateway: Gateway = world.gateway
        return RunRecords().sample(gateway.tenant("team-a"), record, state, gateway.clock())

    def test_shards_of_the_run_are_found(self, world: PageWorld) -> None:
        world.shards(batch := world.batch("a.jsonl", ago=300, status=running(9000, 5000)), 9, lines=1000)
        found = self.sampled(world, batch)
        assert (len(found.spans), found.every) == (9, 1)
        assert sum(span.lines for span in found.spans) == 9000

    def test_of_many_shards_some_stand_for_the_others(self, world: PageWorld) -> None:
        number = 2 * MOST_READ + 1
        world.shards(batch := world.batch("a.jsonl", ago=3600, status=running(9000, 5000)), number, lines=10, seconds=1)
        found = self.sampled(world, batch)
        assert (len(found.spans), found.every) == (161, 3)
        assert sum(span.lines for span in found.spans) == 161 * 30

    def test_what_no_worker_wrote_is_left_out(self, world: PageWorld) -> None:
        batch = world.batch("a.jsonl", ago=300, status=running(9000, 5000))
        world.shards(batch, 3)
        folder = world.gateway.tenant("team-a")
        layout = OutputLayout(folder.key(f"batch-{batch.id.removeprefix('batch_')}/")).work(FINGERPRINT)
        record = msgspec.json.decode(folder.store.read(layout.record(0)))
        far = (world.now + timedelta(days=4000)).isoformat()
        for shard, content in enumerate(
            [
                b"",
                b"\xff\xfe",
                b"[" * 60_000,
                msgspec.json.encode({**record, "run": 0}),
                msgspec.json.encode({**record, "lines": 10**15}),
                msgspec.json.encode({**record, "lines": -5}),
                msgspec.json.encode({**record, "finished_at": far}),
                msgspec.json.encode({**record, "started_at": "0001-01-01T00:00:00Z"}),
                msgspec.json.encode({**record, "started_at": "2026-01-01T00:00:00"}),
                msgspec.json.encode({**record, "attempt": "x" * 100_000}),
            ],
            start=3,
        ):
            folder.store.write(layout.record(shard), content)
        folder.store.write(f"{layout.records}somebody.json", b"{}")
        assert len(self.sampled(world, batch).spans) == 3

    @pytest.mark.parametrize("fingerprint", ["../../x", "", "ABC", "a/b", "." * 16])
    def test_a_fingerprint_leads_nowhere_else(self, world: PageWorld, fingerprint: str) -> None:
        batch = world.batch("a.jsonl", status=running(10, 5, fingerprint=fingerprint))
        assert self.sampled(world, batch).spans == ()

    def test_the_page_works_while_the_folder_cannot_be_read(self, world: PageWorld, client: httpx.Client) -> None:
        batch = world.batch("a.jsonl", ago=300, status=running(9000, 5000))
        world.shards(batch, 3)
        assert "Throughput" in client.get(f"/ui/batches/{batch.id}").text
        folder = world.gateway.tenant("team-a")
        layout = OutputLayout(folder.key(f"batch-{batch.id.removeprefix('batch_')}/")).work(FINGERPRINT)
        folder.store.delete([info.key for info in folder.store.list(layout.records)])
        answer = client.get(f"/ui/batches/{batch.id}")
        assert (answer.status_code, "Throughput" in answer.text) == (200, False)

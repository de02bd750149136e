"""What a page of the list reads beside the batches themselves."""

import threading
from dataclasses import dataclass, replace
from typing import Any

import httpx

from batchwright.gateway.page.batch_list import Views
from batchwright.gateway.records.file_record import FileRecord
from batchwright.gateway.records.record_store import RecordStore, Stored
from fixtures.gateway import ALICE
from fixtures.page_world import PageWorld


@dataclass
class Watched:
    """Records of files, of which two must be asked for at once."""

    files: RecordStore[FileRecord]
    meeting: threading.Barrier
    reads: int = 0

    def get(self, namespace: str, identity: str) -> Stored[FileRecord] | None:
        self.reads += 1
        self.meeting.wait(20)
        return self.files.get(namespace, identity)


def test_names_of_inputs_are_read_at_once_and_once(world: PageWorld) -> None:
    for number in range(4):
        world.batch(f"input-{number}.jsonl", ago=100 - number)
    files: Any = Watched(world.gateway.files, threading.Barrier(2))
    views = Views(replace(world.gateway, files=files))
    for _ in range(2):
        titles = [view.title for view in views.listed(ALICE, None).views]
        assert titles == ["input-3.jsonl", "input-2.jsonl", "input-1.jsonl", "input-0.jsonl"]
    assert files.reads == 4


def test_a_batch_is_shown_though_the_record_of_its_input_is_damaged(world: PageWorld, client: httpx.Client) -> None:
    other, batch = world.batch("other.jsonl"), world.batch("damaged.jsonl")
    gateway = world.gateway
    gateway.root.write(f"{gateway.root_prefix}files/{batch.namespace}/{batch.input_file_id}.json", b"{")

    listed = client.get("/ui/")
    assert listed.status_code == 200
    assert all(f"row-{one.id}" in listed.text for one in (other, batch))
    shown = client.get(f"/ui/batches/{batch.id}")
    assert shown.status_code == 200
    assert f"<h1>{batch.id}</h1>" in shown.text

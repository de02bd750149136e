"""Several processes that change one object of a volume: of all who name the same version, one wins."""

import fcntl
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from batchwright.storage import file_lock
from batchwright.storage.errors import PreconditionFailed, StorageUnavailable
from batchwright.storage.file import FileStore

WRITERS = 4
CHANGES = 150
KEY = "records/counter.json"
spawning = multiprocessing.get_context("spawn")


def count_up(root: Path, ready: Connection) -> None:
    """Add one to the object so many times, each time to the version that was read."""
    store = FileStore(root)
    ready.send(None)
    ready.recv()
    for _ in range(CHANGES):
        while True:
            found = store.fetch(KEY)
            try:
                store.write(KEY, str(int(found.data) + 1).encode(), if_match=found.info.etag)
            except PreconditionFailed:
                continue
            break


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    made = FileStore(tmp_path)
    made.write(KEY, b"0")
    return made


@pytest.fixture
def held(store: FileStore, tmp_path: Path) -> Iterator[int]:
    """The object's lock, as another writer has it who is about to replace the version."""
    descriptor = os.open(tmp_path / KEY, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


def test_no_change_of_several_processes_is_lost(store: FileStore, tmp_path: Path) -> None:
    pipes = [spawning.Pipe() for _ in range(WRITERS)]
    writers = [spawning.Process(target=count_up, args=(tmp_path, theirs), daemon=True) for _, theirs in pipes]
    for writer in writers:
        writer.start()
    for ours, _ in pipes:
        ours.recv()
    for ours, _ in pipes:
        ours.send(None)
    for writer in writers:
        writer.join(120)

    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    assert int(store.read(KEY)) == WRITERS * CHANGES
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["counter.json"], "nothing is left behind"


def test_who_waits_for_another_writer_loses_where_that_one_has_replaced_the_version(
    store: FileStore, tmp_path: Path, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, flock = threading.Event(), fcntl.flock

    def tried(file: int, operation: int) -> None:
        try:
            flock(file, operation)
        except BlockingIOError:
            waiting.set()
            raise

    etag = store.head(KEY).etag
    with ThreadPoolExecutor(1) as thread, monkeypatch.context() as watched:
        watched.setattr(file_lock.fcntl, "flock", tried)
        written = thread.submit(store.write, KEY, b"theirs", if_match=etag)
        assert waiting.wait(30)
        (tmp_path / "new").write_bytes(b"ours")
        (tmp_path / "new").replace(tmp_path / KEY)
        flock(held, fcntl.LOCK_UN)
        with pytest.raises(PreconditionFailed):
            written.result(30)

    assert store.read(KEY) == b"ours"


def test_a_writer_that_is_killed_holds_nobody_up(store: FileStore, tmp_path: Path) -> None:
    ours, theirs = spawning.Pipe()
    holder = spawning.Process(target=hold, args=(tmp_path / KEY, theirs), daemon=True)
    holder.start()
    assert ours.recv() == "holds"
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    holder.join(30)

    store.write(KEY, b"next", if_match=store.head(KEY).etag)
    assert store.read(KEY) == b"next"


def hold(path: Path, answer: Connection) -> None:
    """Take the lock and never give it back."""
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    answer.send("holds")
    signal.pause()


@pytest.mark.usefixtures("held")
def test_a_writer_waits_for_another_one_no_longer_than_a_bound(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchwright.storage.file.LOCK_SECONDS", 0.05)

    with pytest.raises(StorageUnavailable, match="another writer has held it"):
        store.write(KEY, b"1", if_match=store.head(KEY).etag)
    assert store.read(KEY) == b"0"


def test_without_locks_the_version_is_compared_all_the_same_and_a_warning_says_so(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(file_lock.errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(file_lock.fcntl, "flock", unsupported)
    before = store.head(KEY).etag
    store.write(KEY, b"1", if_match=before)

    with pytest.raises(PreconditionFailed):
        store.write(KEY, b"2", if_match=before)
    assert store.read(KEY) == b"1"
    assert "has no locks" in caplog.text


def test_an_object_that_may_only_be_read_can_be_replaced(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / KEY).chmod(0o444)
    store.write(KEY, b"1", if_match=store.head(KEY).etag)

    assert store.read(KEY) == b"1"

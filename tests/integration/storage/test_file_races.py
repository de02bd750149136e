"""A tenant who may write to the volume swaps folders and files for symbolic links, over and over, while the store works
there. Whatever comes of a call, nothing of what lies outside comes back, and nothing outside is touched.
"""

import ctypes
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from batchwright.storage.errors import StorageError
from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectRange

SECONDS = 1.0
MOST_SECONDS = 60.0
SWAPS = 100
INSIDE = b"inside"
SECRET = b"secret of somebody else"


_libc = ctypes.CDLL(None, use_errno=True)
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE: see renameat2(2)


def exchange(first: Path, second: Path) -> None:
    """Let each take the other's name, in one step."""
    if _libc.renameat2(_HERE, bytes(first), _HERE, bytes(second), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(first))


class Swapper:
    """Swaps what stands at a path for something else, and back, as quickly as it can."""

    def __init__(self, path: Path, make: Callable[[Path], object]) -> None:
        """make: makes the other thing at a path beside it, also after a write has replaced it"""
        self._path = path
        self._other = path.with_name("other")
        self._make = make
        self._stop = threading.Event()
        self.swaps = 0

    def run(self) -> None:
        """Until `stop`."""
        while not self._stop.is_set():
            if not os.path.lexists(self._other) or (self._other.is_file() and not self._other.is_symlink()):
                self._other.unlink(missing_ok=True)
                self._make(self._other)
            for _ in range(2):
                exchange(self._path, self._other)
                time.sleep(0)
            self.swaps += 1

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def running(swapper: Swapper) -> Iterator[None]:
    thread = threading.Thread(target=swapper.run)
    thread.start()
    try:
        yield
    finally:
        swapper.stop()
        thread.join(10)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "volume" / "tenant"
    (folder / "job").mkdir(parents=True)
    (folder / "job" / "object").write_bytes(INSIDE)
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "volume" / "other"
    folder.mkdir()
    (folder / "object").write_bytes(SECRET)
    (folder / "only-there").write_bytes(SECRET)
    return folder


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_nlink) for path in folder.iterdir()}


def upload(store: FileStore, key: str) -> None:
    upload = store.open_upload(key, spool=Path("/nowhere"))
    upload.add(INSIDE)
    upload.commit()


def joined(store: FileStore) -> bytes:
    size = store.head("job/object").size
    store.join("joined", [ObjectRange("job/object", 0, size)])
    return store.read("joined")


Call = Callable[[FileStore], Iterable[object]]

READS: dict[str, Call] = {
    "read": lambda store: [store.read("job/object")],
    "stream": lambda store: [b"".join(store.stream("job/object", chunk_size=2))],
    "head": lambda store: [store.head("job/object").size],
    "list": lambda store: itertools.chain(*((info.key, info.size) for info in store.list("job/"))),
    "list all": lambda store: itertools.chain(*((info.key, info.size) for info in store.list(""))),
    "join": lambda store: [joined(store)],
}
"""Each gives what it came to know."""

WRITES: dict[str, Call] = {
    "write": lambda store: [store.write("job/object", INSIDE).key],
    "write if absent": lambda store: [store.write("job/new", INSIDE, if_none_match=True).key],
    "write deeper": lambda store: [store.write("job/deeper/new", INSIDE).key],
    "upload": lambda store: [upload(store, "job/uploaded")],
    "delete": lambda store: store.delete(["job/new", "job/only-there", "job/uploaded", "job/deeper/new"]),
    "sweep": lambda store: [store.abort_uploads("job/", lambda key: True)],
}

FORBIDDEN = (SECRET, len(SECRET), "job/only-there")


def work_beside(swapper: Swapper, store: FileStore, calls: dict[str, Call]) -> None:
    """Make the calls in turn while things are swapped, until each has come through: or nothing would be tested."""
    done: set[str] = set()
    began = time.monotonic()
    with running(swapper):
        for name, call in itertools.cycle(calls.items()):
            seconds = time.monotonic() - began
            if seconds > SECONDS and swapper.swaps > SWAPS and done == set(calls):
                return
            assert seconds < MOST_SECONDS, (swapper.swaps, done)
            with suppress(StorageError):
                known = list(call(store))
                assert not [item for item in known if item in FORBIDDEN], name
                done.add(name)


@pytest.mark.parametrize("swapped", ["job", "job/object"])
@pytest.mark.parametrize("calls", [READS, WRITES], ids=["reads", "writes"])
def test_a_link_that_is_swapped_in_leads_nowhere(
    root: Path, outside: Path, swapped: str, calls: dict[str, Call], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    before = snapshot(outside)
    target = outside if swapped == "job" else outside / "object"
    swapper = Swapper(root / swapped, lambda path: path.symlink_to(target))
    work_beside(swapper, FileStore(root), calls)
    assert snapshot(outside) == before


def test_a_pipe_that_is_swapped_in_keeps_nobody_waiting(root: Path) -> None:
    work_beside(Swapper(root / "job" / "object", os.mkfifo), FileStore(root), READS)

"""What is particular to stores on a mounted volume; what all stores do is in the contract tests."""

import errno
import os
import subprocess
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from batchwright.storage import file_paths
from batchwright.storage.errors import (
    AccessDenied,
    BucketMissing,
    InvalidLocation,
    NotFound,
    ObjectChanged,
    PreconditionFailed,
    StorageError,
    StorageUnavailable,
    UploadMissing,
)
from batchwright.storage.file import FileStore
from batchwright.storage.file_errors import translate
from batchwright.storage.file_folders import OpenFolder
from batchwright.storage.file_paths import MAX_DEPTH, TEMPORARY_PREFIX
from batchwright.storage.protocol import Literal, ObjectRange


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


@pytest.fixture
def store(root: Path) -> FileStore:
    return FileStore(root)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class TestConfinement:
    @pytest.mark.parametrize(
        "key",
        ["../outside", "a/../../outside", "..", ".", "a/./b", "/etc/passwd", "a//b", "a/", "", "nul\0"],
    )
    @pytest.mark.parametrize("call", ["head", "read", "write", "delete", "join"])
    def test_keys_that_are_no_plain_paths_are_refused(self, store: FileStore, root: Path, key: str, call: str) -> None:
        (root.parent / "outside").write_bytes(b"secret")
        calls = {
            "head": lambda: store.head(key),
            "read": lambda: store.read(key),
            "write": lambda: store.write(key, b""),
            "join": lambda: store.join(key, []),
            "delete": lambda: store.delete([key]),
        }
        if call == "delete":
            (failure,) = store.delete([key])
            assert failure.key == key
        else:
            with pytest.raises(InvalidLocation):
                calls[call]()
        assert (root.parent / "outside").read_bytes() == b"secret"
        assert names(root) == []

    def test_a_link_to_a_file_outside_is_not_followed(self, store: FileStore, root: Path) -> None:
        outside = root.parent / "outside"
        outside.write_bytes(b"secret")
        (root / "link").symlink_to(outside)
        for call in (store.head, store.read, lambda key: list(store.stream(key))):
            with pytest.raises(AccessDenied, match="leads out of"):
                call("link")
        assert list(store.list("")) == []
        store.write("link", b"mine")
        assert outside.read_bytes() == b"secret"
        assert store.read("link") == b"mine"

    def test_a_link_to_a_folder_outside_is_not_followed(self, store: FileStore, root: Path) -> None:
        outside = root.parent / "elsewhere"
        outside.mkdir()
        (outside / "file").write_bytes(b"secret")
        (root / "link").symlink_to(outside)
        with pytest.raises(AccessDenied):
            store.read("link/file")
        with pytest.raises(AccessDenied):
            store.write("link/new", b"")
        with pytest.raises(AccessDenied):
            list(store.list("link/"))
        (failure,) = store.delete(["link/file"])
        assert "leads out of" in failure.reason
        assert names(outside) == ["file"]

    def test_links_inside_the_root_are_followed(self, store: FileStore, root: Path) -> None:
        """As in a mounted ConfigMap: in.jsonl -> ..data/in.jsonl, ..data -> ..version."""
        (root / "..version").mkdir()
        (root / "..version" / "in.jsonl").write_bytes(b"lines")
        (root / "..data").symlink_to("..version")
        (root / "in.jsonl").symlink_to("..data/in.jsonl")
        assert store.read("in.jsonl") == b"lines"
        assert "in.jsonl" in [info.key for info in store.list("")]

    def test_a_root_that_is_a_link_is_fine(self, store: FileStore, root: Path) -> None:
        store.write("object", b"content")
        (root.parent / "alias").symlink_to(root)
        assert FileStore(root.parent / "alias").read("object") == b"content"

    def test_a_relative_root_is_a_mistake_of_the_caller(self) -> None:
        with pytest.raises(ValueError, match="absolute"):
            FileStore(Path("relative"))

    def test_what_is_no_regular_file_is_no_object(self, store: FileStore, root: Path) -> None:
        os.mkfifo(root / "pipe")
        (root / "folder").mkdir()
        for key in ("pipe", "folder"):
            with pytest.raises(NotFound, match="not a regular file"):
                store.read(key)
        assert list(store.list("")) == []

    def test_what_nfs_keeps_of_a_replaced_file_is_no_object(self, store: FileStore, root: Path) -> None:
        (root / ".nfs0000000000000001").write_bytes(b"before")
        store.write("object", b"now")
        assert [info.key for info in store.list("")] == ["object"]


class TestMissingRoot:
    def test_a_volume_that_is_not_mounted_is_named(self, tmp_path: Path) -> None:
        store = FileStore(tmp_path / "nowhere")
        for call in (store.head, store.read, lambda key: list(store.list(key))):
            with pytest.raises(BucketMissing, match=r"nowhere.*mounted"):
                call("object")

    def test_the_first_write_makes_it(self, tmp_path: Path) -> None:
        store = FileStore(tmp_path / "new" / "folder")
        store.write("object", b"content")
        assert store.read("object") == b"content"


class TestAtomicity:
    def test_a_failed_write_leaves_the_old_object_and_no_rest(
        self, store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.write("object", b"old")

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageUnavailable, match="volume is full"):
            store.write("object", b"new")
        with pytest.raises(StorageUnavailable):
            store.join("object", [Literal(b"new")])
        with pytest.raises(StorageUnavailable):
            store.write("claim", b"new", if_none_match=True)
        assert names(root) == ["object"]
        assert store.read("object") == b"old"

    def test_a_failed_join_leaves_no_rest(self, store: FileStore, root: Path) -> None:
        store.write("piece", b"piece")
        with pytest.raises(NotFound):
            store.join("joined", [ObjectRange("piece", 0, 5), ObjectRange("missing", 0, 1)])
        assert names(root) == ["piece"]

    def test_a_lost_condition_leaves_no_rest(self, store: FileStore, root: Path) -> None:
        store.write("claim", b"first", if_none_match=True)
        with pytest.raises(PreconditionFailed):
            store.write("claim", b"second", if_none_match=True)
        with pytest.raises(PreconditionFailed):
            store.write("claim", b"third", if_match="other")
        assert names(root) == ["claim"]

    def test_rests_of_killed_processes_are_no_objects(self, store: FileStore, root: Path) -> None:
        (root / ".batchwright-tmp-0123").write_bytes(b"half")
        assert list(store.list("")) == []
        with pytest.raises(InvalidLocation):
            store.read(".batchwright-tmp-0123")

    def test_a_new_file_is_readable_like_any_other(self, store: FileStore, root: Path) -> None:
        store.write("object", b"content")
        (root / "plain").write_bytes(b"")
        assert (root / "object").stat().st_mode == (root / "plain").stat().st_mode

    def test_a_reader_keeps_the_object_that_it_opened(self, store: FileStore) -> None:
        store.write("object", b"a" * 100)
        stream = store.stream("object", chunk_size=10)
        first = next(stream)
        store.write("object", b"b" * 100)
        assert first + b"".join(stream) == b"a" * 100

    def test_a_file_that_is_changed_in_place_during_the_read_is_noticed(self, store: FileStore, root: Path) -> None:
        store.write("object", b"a" * 100)
        stream = store.stream("object", chunk_size=10)
        next(stream)
        with (root / "object").open("r+b") as changed:
            changed.truncate(50)
        with pytest.raises(ObjectChanged):
            list(stream)


class TestWithoutHardLinks:
    @pytest.fixture(autouse=True)
    def _no_links(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(source: str, target: str, **_: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)

    def test_only_the_first_writer_wins(self, store: FileStore, root: Path) -> None:
        info = store.write("claim", b"first", if_none_match=True)
        with pytest.raises(PreconditionFailed):
            store.write("claim", b"second", if_none_match=True)
        assert store.fetch("claim").info == info
        assert store.read("claim") == b"first"
        assert names(root) == ["claim"]

    def test_a_failed_write_leaves_nothing(self, store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        synced: list[int] = []

        def full_at_the_second(descriptor: int) -> None:
            synced.append(descriptor)
            if len(synced) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full_at_the_second)
        with pytest.raises(StorageUnavailable):
            store.write("claim", b"first", if_none_match=True)
        assert names(root) == []


class TestFolders:
    def test_empty_folders_go_with_their_last_object(self, store: FileStore, root: Path) -> None:
        for key in ("a/b/c/one", "a/b/two"):
            store.write(key, b"")
        store.delete(["a/b/c/one"])
        assert names(root) == ["a", "a/b", "a/b/two"]
        store.delete(["a/b/two"])
        assert names(root) == []
        assert root.is_dir()

    def test_writing_and_pruning_at_once_loses_nothing(self, store: FileStore) -> None:
        def write_and_delete(number: int) -> None:
            for turn in range(100):
                key = f"shared/folder/{number}-{turn}"
                store.write(key, b"x")
                assert store.read(key) == b"x"
                assert store.delete([key]) == ()

        failures: list[BaseException] = []

        def run(number: int) -> None:
            try:
                write_and_delete(number)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []

    def test_a_key_cannot_lead_through_a_file(self, store: FileStore) -> None:
        store.write("a", b"")
        with pytest.raises(StorageError, match="is a file"):
            store.write("a/b", b"")
        with pytest.raises(NotFound):
            store.read("a/b")

    def test_names_that_are_not_unicode_are_left_out(self, store: FileStore, root: Path) -> None:
        Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_bytes(b"")
        assert list(store.list("")) == []

    def test_links_to_folders_are_not_walked(self, store: FileStore, root: Path) -> None:
        store.write("folder/object", b"")
        (root / "folder" / "cycle").symlink_to(root)
        assert [info.key for info in store.list("")] == ["folder/object"]


def test_folders_without_end_hold_nobody_up(store: FileStore, root: Path) -> None:
    """More than a process may open, and more than a path may be long; made by somebody who can write to the volume."""
    store.write("/".join(["d"] * (MAX_DEPTH - 1) + ["last"]), b"")
    with pytest.raises(InvalidLocation, match="at most 100 names"):
        store.write("/".join(["d"] * MAX_DEPTH + ["too deep"]), b"")
    folder = os.open(root, os.O_RDONLY)
    for _ in range(3000):
        with suppress(FileExistsError):
            os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert [info.key[-4:] for info in store.list("")] == ["last"]
    store.abort_uploads("", lambda key: True)
    subprocess.run(["rm", "-rf", root], check=True, timeout=60)  # it's too deep for what removes temporary folders


@pytest.mark.parametrize(
    ("number", "operation", "kind", "words"),
    [
        (errno.ENOENT, "GetObject", NotFound, "mounted"),
        (errno.EACCES, "GetObject", AccessDenied, "needs read.*fsGroup"),
        (errno.EACCES, "PutObject", AccessDenied, "needs write.*fsGroup"),
        (errno.EROFS, "PutObject", AccessDenied, "read-only"),
        (errno.ENAMETOOLONG, "PutObject", InvalidLocation, "shorter"),
        (errno.ENOSPC, "PutObject", StorageUnavailable, "full"),
        (errno.EDQUOT, "PutObject", StorageUnavailable, "quota"),
        (errno.EIO, "GetObject", StorageUnavailable, "Input/output"),
        (errno.ESTALE, "GetObject", StorageUnavailable, "Stale"),
    ],
)
def test_errors_of_the_system_become_ours(number: int, operation: str, kind: type[StorageError], words: str) -> None:
    error = translate(OSError(number, os.strerror(number)), operation, "file:///data/x")
    assert type(error) is kind
    with pytest.raises(kind, match=words):
        raise error


def test_a_name_that_is_too_long_is_told(store: FileStore) -> None:
    with pytest.raises(InvalidLocation, match="shorter"):
        store.write("x" * 300, b"")


def test_the_uri_of_a_key_under_the_root_of_all_has_three_slashes() -> None:
    assert FileStore(Path("/")).uri("data/x") == "file:///data/x"
    assert FileStore(Path("/data")).uri("a b%#?") == "file:///data/a b%#?"


def test_races_with_pruning_are_bounded(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(os, "mkdir", lambda name, *_, **__: made.append(name))
    with pytest.raises(NotFound):
        store.write("folder/object", b"")
    assert made.count("folder") == file_paths.MAX_RACES


def test_what_killed_writers_left_is_removed_and_nothing_else(store: FileStore, root: Path) -> None:
    for key in ("out/job/results.jsonl", "out/job/deep/segment", "out/job-b/results.jsonl"):
        store.write(key, b"kept")
    for folder in ("out/job", "out/job/deep", "out/job-b"):
        for name, seconds in (("left", 3600), ("written", 60)):
            path = root / folder / f"{TEMPORARY_PREFIX}{name}"
            path.write_bytes(b"half")
            os.utime(path, (time.time() - seconds,) * 2)
    store.abort_uploads("out/job/", lambda key: True)
    left = {name.replace(TEMPORARY_PREFIX, "") for name in names(root) if TEMPORARY_PREFIX in name}
    assert left == {"out/job/written", "out/job/deep/written", "out/job-b/left", "out/job-b/written"}
    assert len(list(store.list(""))) == 3


@pytest.mark.parametrize(("hours", "left"), [(0.5, {"new"}), (1.5, {"new", "old"}), (-1.0, {"new"})])
def test_what_was_written_to_since_a_time_is_kept(store: FileStore, root: Path, hours: float, left: set[str]) -> None:
    """hours: how long ago that time is, where the older file was written to an hour ago"""
    for name, minutes in (("old", 60), ("new", 5)):
        path = root / f"{TEMPORARY_PREFIX}{name}"
        path.write_bytes(b"half")
        os.utime(path, (time.time() - 60 * minutes,) * 2)
    store.abort_uploads("", lambda key: True, begun_before=datetime.now(UTC) - timedelta(hours=hours))
    assert {name.removeprefix(TEMPORARY_PREFIX) for name in names(root)} == left


def test_an_upload_whose_temporary_file_was_removed_is_told(store: FileStore, root: Path) -> None:
    upload = store.open_upload("object", spool=root)
    upload.add(b"content")
    (left,) = root.iterdir()
    left.unlink()
    with pytest.raises(UploadMissing):
        upload.commit()
    assert names(root) == []


def test_an_upload_that_fails_leaves_no_rest(store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    upload = store.open_upload("folder/object", spool=root)
    upload.add(b"content")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageUnavailable, match="volume is full"):
        upload.commit()
    assert names(root) == ["folder"]
    with pytest.raises(ValueError, match="over"):
        upload.commit()


def test_what_a_listing_skips_is_not_looked_at(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("a/1", "a/2", "b/1", "b/2", "c"):
        store.write(key, b"")
    looked_at: list[str] = []
    status, scan = OpenFolder.status, OpenFolder.scan

    def counted_status(folder: OpenFolder, name: str) -> os.stat_result:
        looked_at.append(name)
        return status(folder, name)

    monkeypatch.setattr(OpenFolder, "status", counted_status)
    monkeypatch.setattr(OpenFolder, "scan", lambda folder: looked_at.append("a folder") or scan(folder))
    assert [info.key for info in store.list("", start_after="b/1")] == ["b/2", "c"]
    assert looked_at == ["a folder", "a folder", "2", "c"]


def test_removing_what_killed_writers_left_never_fails(root: Path) -> None:
    FileStore(root / "missing").abort_uploads("out/job/", lambda key: True)
    FileStore(root).abort_uploads("../elsewhere/", lambda key: True)

"""What every store must do, whatever it is made of. Runs over a real S3 server and over a folder."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchwright.storage.errors import NotFound, ObjectChanged, PreconditionFailed
from batchwright.storage.location import parse_location
from batchwright.storage.probe import (
    probe_conditional_put,
    probe_listable,
    probe_readable,
    probe_writable,
)
from batchwright.storage.protocol import Literal, ObjectRange, ObjectStore
from fixtures.objects import AWKWARD_KEYS, MIB, content


class TestReading:
    def test_what_was_written_is_read(self, store: ObjectStore) -> None:
        written = store.write("folder/object", b"content")
        assert store.read("folder/object") == b"content"
        assert store.head("folder/object") == written
        assert (written.key, written.size) == ("folder/object", 7)

    def test_fetch_gives_the_bytes_and_their_etag(self, store: ObjectStore) -> None:
        written = store.write("object", b"content")
        fetched = store.fetch("object")
        assert (fetched.data, fetched.info) == (b"content", written)

    @pytest.mark.parametrize("key", AWKWARD_KEYS)
    def test_keys_are_literal(self, store: ObjectStore, key: str) -> None:
        store.write(key, key.encode())
        assert store.read(key) == key.encode()
        assert [info.key for info in store.list("")] == [key]
        joined = store.join(f"{key}.joined", [ObjectRange(key, 0, 3), Literal(b"!")])
        assert store.read(joined.key) == key.encode()[:3] + b"!"
        location = parse_location(store.uri(key))
        assert location.uri == store.uri(key)
        assert store.delete([key]) == ()
        assert [info.key for info in store.list("")] == [f"{key}.joined"]

    def test_an_object_may_be_empty(self, store: ObjectStore) -> None:
        store.write("empty", b"")
        assert store.head("empty").size == 0
        assert store.read("empty") == b""
        assert list(store.stream("empty")) == []
        assert list(store.stream("empty", start=0, end=10)) == []

    @pytest.mark.parametrize("call", ["head", "read", "fetch", "stream"])
    def test_a_missing_object_is_told_with_its_uri(self, store: ObjectStore, call: str) -> None:
        store.write("other", b"")
        with pytest.raises(NotFound, match="does not exist") as caught:
            list(getattr(store, call)("missing"))
        assert caught.value.uri == store.uri("missing")

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (0, None, b"0123456789"),
            (0, 10, b"0123456789"),
            (3, 7, b"3456"),
            (7, None, b"789"),
            (9, 10, b"9"),
            (5, 5, b""),
            (7, 100, b"789"),
            (10, None, b""),
            (10, 20, b""),
            (50, 60, b""),
        ],
    )
    def test_a_range_is_half_open_and_cut_at_the_size(
        self, store: ObjectStore, start: int, end: int | None, expected: bytes
    ) -> None:
        store.write("object", b"0123456789")
        assert b"".join(store.stream("object", start=start, end=end)) == expected

    @pytest.mark.parametrize("chunk_size", [1, 1000, 65_536, 300_000, 2 * MIB])
    def test_chunks_have_the_size_that_was_asked_for(self, store: ObjectStore, chunk_size: int) -> None:
        size = 700_000 if chunk_size > 1 else 700
        data = content(size)
        store.write("object", data)
        chunks = list(store.stream("object", chunk_size=chunk_size))
        assert b"".join(chunks) == data
        assert {len(chunk) for chunk in chunks[:-1]} <= {chunk_size}
        assert 0 < len(chunks[-1]) <= chunk_size

    def test_a_read_against_another_version_is_refused(self, store: ObjectStore) -> None:
        first = store.write("object", b"first")
        store.write("object", b"second")
        with pytest.raises(ObjectChanged):
            list(store.stream("object", if_match=first.etag))

    def test_a_read_against_the_same_version_is_served(self, store: ObjectStore) -> None:
        info = store.write("object", b"first")
        assert list(store.stream("object", start=1, if_match=info.etag)) == [b"irst"]

    def test_a_stream_may_be_left_early(self, store: ObjectStore) -> None:
        store.write("object", content(3 * MIB))
        stream = store.stream("object", chunk_size=1000)
        assert len(next(stream)) == 1000
        stream.close()  # type: ignore[attr-defined]


class TestConditionalWriting:
    def test_only_the_first_writer_of_a_new_object_wins(self, store: ObjectStore) -> None:
        store.write("claim", b"first", if_none_match=True)
        with pytest.raises(PreconditionFailed):
            store.write("claim", b"second", if_none_match=True)
        assert store.read("claim") == b"first"

    def test_of_many_writers_at_once_exactly_one_wins(self, store: ObjectStore) -> None:
        for attempt in range(5):
            barrier = threading.Barrier(4)

            def claim(writer: int, key: str = f"claim-{attempt}", barrier: threading.Barrier = barrier) -> int | None:
                barrier.wait(10)
                try:
                    store.write(key, str(writer).encode(), if_none_match=True)
                except PreconditionFailed:
                    return None
                return writer

            with ThreadPoolExecutor(4) as pool:
                winners = [writer for writer in pool.map(claim, range(4)) if writer is not None]
            assert [str(winner).encode() for winner in winners] == [store.read(f"claim-{attempt}")]

    def test_a_replacement_needs_the_etag_that_it_replaces(self, store: ObjectStore) -> None:
        first = store.write("owner", b"first")
        second = store.write("owner", b"second", if_match=first.etag)
        with pytest.raises(PreconditionFailed):
            store.write("owner", b"third", if_match=first.etag)
        assert store.fetch("owner").info == second

    def test_an_object_that_is_gone_cannot_be_replaced(self, store: ObjectStore) -> None:
        first = store.write("owner", b"first")
        store.delete(["owner"])
        with pytest.raises(PreconditionFailed):
            store.write("owner", b"second", if_match=first.etag)

    def test_both_conditions_at_once_make_no_sense(self, store: ObjectStore) -> None:
        with pytest.raises(ValueError, match="exclude"):
            store.write("object", b"", if_none_match=True, if_match="x")

    def test_etags_tell_versions_of_the_same_size_apart(self, store: ObjectStore) -> None:
        etags = {store.write("object", bytes([65 + version])).etag for version in range(10)}
        assert len(etags) == 10


class TestListing:
    def test_keys_come_in_the_order_of_their_bytes(self, store: ObjectStore) -> None:
        keys = ["a-b", "a.b", "a/b", "a/b-c", "a/b.c/d", "a0", "A", "z", "é", "日"]
        for key in reversed(keys):
            store.write(key, b"x")
        assert [info.key for info in store.list("")] == sorted(keys, key=str.encode)

    @pytest.mark.parametrize(
        ("prefix", "expected"),
        [
            ("job/", ["job/1", "job/2/3"]),
            ("job", ["job-b", "job/1", "job/2/3"]),
            ("job/2", ["job/2/3"]),
            ("job/2/", ["job/2/3"]),
            ("job/2/3", ["job/2/3"]),
            ("job/2/3/4", []),
            ("nothing/", []),
        ],
    )
    def test_a_prefix_selects_by_the_start_of_the_key(
        self, store: ObjectStore, prefix: str, expected: Sequence[str]
    ) -> None:
        for key in ["job/1", "job/2/3", "job-b", "other"]:
            store.write(key, b"x")
        assert [info.key for info in store.list(prefix)] == expected

    def test_entries_are_those_of_head(self, store: ObjectStore) -> None:
        store.write("object", b"content")
        (entry,) = store.list("")
        head = store.head("object")
        assert (entry.key, entry.size, entry.etag) == (head.key, head.size, head.etag)

    def test_all_pages_are_listed(self, store: ObjectStore, tmp_path: Path) -> None:
        keys = [f"many/{number:04}" for number in range(1005)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: store.write(key, b""), keys))
        assert [info.key for info in store.list("many/")] == keys
        assert store.delete(keys) == ()
        assert list(store.list("many/")) == []

    @pytest.mark.parametrize(
        ("prefix", "start_after", "expected"),
        [
            ("", "", ["a-b", "a.b", "a/b", "a/b-c", "a/d/e", "a/d/f", "a0", "b", "é", "日"]),
            ("", "a/b", ["a/b-c", "a/d/e", "a/d/f", "a0", "b", "é", "日"]),
            ("", "a/", ["a/b", "a/b-c", "a/d/e", "a/d/f", "a0", "b", "é", "日"]),
            ("", "a/c", ["a/d/e", "a/d/f", "a0", "b", "é", "日"]),
            ("", "a/d", ["a/d/e", "a/d/f", "a0", "b", "é", "日"]),
            ("", "a/d/e", ["a/d/f", "a0", "b", "é", "日"]),
            ("", "a/d/ee", ["a/d/f", "a0", "b", "é", "日"]),
            ("", "a/~", ["a0", "b", "é", "日"]),
            ("", "z", ["é", "日"]),
            ("", "日", []),
            ("a/", "A", ["a/b", "a/b-c", "a/d/e", "a/d/f"]),
            ("a/", "a/b-c", ["a/d/e", "a/d/f"]),
            ("a/", "a/d/f", []),
            ("a/", "b", []),
            ("a/d/", "a/d/e", ["a/d/f"]),
            ("a/b", "a/b", ["a/b-c"]),
        ],
    )
    def test_a_listing_begins_after_a_key(
        self, store: ObjectStore, prefix: str, start_after: str, expected: Sequence[str]
    ) -> None:
        for key in ["a-b", "a.b", "a/b", "a/b-c", "a/d/e", "a/d/f", "a0", "b", "é", "日"]:
            store.write(key, b"x")
        assert [info.key for info in store.list(prefix, start_after=start_after)] == expected


class TestDeleting:
    def test_what_does_not_exist_counts_as_deleted(self, store: ObjectStore) -> None:
        store.write("object", b"")
        assert store.delete(["missing", "object", "no/such/folder"]) == ()
        assert list(store.list("")) == []

    def test_nothing_to_delete_is_fine(self, store: ObjectStore) -> None:
        assert store.delete([]) == ()


class TestJoining:
    def test_pieces_are_put_together_in_order(self, store: ObjectStore) -> None:
        store.write("a", b"0123456789")
        store.write("b", b"abcdef")
        pieces = [
            ObjectRange("b", 2, 4),
            Literal(b"\n"),
            ObjectRange("a", 0, 10),
            ObjectRange("a", 5, 5),
            ObjectRange("a", 0, 1),
        ]
        info = store.join("joined", pieces)
        assert store.read("joined") == b"cd\n01234567890"
        assert info == store.head("joined")

    def test_nothing_makes_an_empty_object(self, store: ObjectStore) -> None:
        assert store.join("joined", []).size == 0
        assert store.read("joined") == b""

    def test_large_and_small_pieces_mix(self, store: ObjectStore) -> None:
        big, small = content(13 * MIB + 17), content(70_001, seed=5)
        store.write("big", big)
        store.write("small", small)
        pieces = [
            ObjectRange("small", 0, len(small)),
            ObjectRange("big", 0, len(big)),
            Literal(b"between"),
            ObjectRange("small", 10, 20),
            ObjectRange("big", 1, len(big) - 1),
            Literal(b"end"),
        ]
        reported: list[int] = []
        info = store.join("joined", pieces, progress=reported.append)
        expected = small + big + b"between" + small[10:20] + big[1:-1] + b"end"
        assert b"".join(store.stream("joined")) == expected
        assert info.size == len(expected) == sum(reported)

    def test_a_join_can_be_run_again(self, store: ObjectStore) -> None:
        store.write("piece", b"again")
        for _ in range(2):
            store.join("joined", [ObjectRange("piece", 0, 5)])
            assert store.read("joined") == b"again"

    @pytest.mark.parametrize("size", [100, 17 * MIB])
    def test_a_piece_of_another_version_fails_and_leaves_the_old_object(self, store: ObjectStore, size: int) -> None:
        store.write("joined", b"old")
        store.write("piece", content(size))
        with pytest.raises(ObjectChanged):
            store.join("joined", [ObjectRange("piece", 0, size, etag="another")])
        assert store.read("joined") == b"old"

    @pytest.mark.parametrize("filler", [0, 17 * MIB])
    def test_a_piece_beyond_the_objects_end_fails(self, store: ObjectStore, filler: int) -> None:
        store.write("piece", b"short")
        with pytest.raises(ObjectChanged):
            store.join("joined", [Literal(bytes(filler)), ObjectRange("piece", 0, 6)])
        with pytest.raises(NotFound):
            store.head("joined")

    def test_a_missing_piece_is_named(self, store: ObjectStore) -> None:
        store.write("piece", content(17 * MIB))
        pieces = [ObjectRange("piece", 0, 17 * MIB), ObjectRange("missing", 0, 1)]
        with pytest.raises(NotFound) as caught:
            store.join("joined", pieces)
        assert caught.value.uri == store.uri("missing")

    def test_many_small_pieces(self, store: ObjectStore) -> None:
        store.write("pieces", content(3000))
        pieces = [ObjectRange("pieces", start, start + 10) for start in range(0, 3000, 10)]
        assert store.join("joined", pieces).size == 3000
        assert store.read("joined") == content(3000)


class TestWritingFiles:
    @pytest.mark.parametrize("size", [0, 1000, 20 * MIB + 3])
    def test_a_file_becomes_an_object(self, store: ObjectStore, tmp_path: Path, size: int) -> None:
        path = tmp_path / "spool"
        path.write_bytes(content(size))
        info = store.write_file("object", path)
        assert info == store.head("object")
        assert b"".join(store.stream("object")) == content(size)

    def test_a_missing_local_file_is_an_error_of_the_system(self, store: ObjectStore, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            store.write_file("object", tmp_path / "missing")


class TestProbing:
    def test_conditional_writes_are_honoured(self, store: ObjectStore) -> None:
        assert probe_conditional_put(store, "out/job") is True

    def test_probes_leave_nothing_behind(self, store: ObjectStore) -> None:
        probe_conditional_put(store, "out/job")
        assert probe_writable(store, "out/job/") == ()
        assert list(store.list("")) == []

    def test_a_missing_input_is_found(self, store: ObjectStore) -> None:
        store.write("other", b"")
        with pytest.raises(NotFound):
            probe_readable(store, "missing")
        probe_readable(store, "other")
        probe_listable(store, "out/")


def test_threads_share_a_store(store: ObjectStore) -> None:
    def work(number: int) -> bytes:
        key = f"object-{number}"
        store.write(key, content(200_000, seed=number))
        return b"".join(store.stream(key, chunk_size=64_000))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(24)))
    assert results == [content(200_000, seed=number) for number in range(24)]


def test_random_content_survives(store: ObjectStore) -> None:
    data = os.urandom(100_000)
    store.write("random", data)
    assert store.read("random") == data

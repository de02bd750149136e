"""What every store must do with an object that comes piece by piece. Over a real S3 server and over a folder."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from batchwright.storage.protocol import ObjectInfo, ObjectStore
from fixtures.objects import AWKWARD_KEYS, MIB, content


class TestUploading:
    """Objects whose bytes come one after the other."""

    def upload(self, store: ObjectStore, spool: Path, pieces: Iterable[bytes], key: str = "object") -> ObjectInfo:
        upload = store.open_upload(key, spool=spool)
        for piece in pieces:
            upload.add(piece)
        return upload.commit()

    @pytest.mark.parametrize(
        "sizes",
        [
            [],
            [0],
            [5],
            [1, 0, 70_000, 3],
            [8 * MIB],
            [8 * MIB, 1],
            [5 * MIB, 5 * MIB, 5 * MIB],
            [16 * MIB],
            [25 * MIB + 3],
        ],
        ids=lambda sizes: "+".join(map(str, sizes)) or "nothing",
    )
    def test_the_object_is_what_was_added(self, store: ObjectStore, tmp_path: Path, sizes: list[int]) -> None:
        pieces = [content(size, seed=seed) for seed, size in enumerate(sizes)]
        info = self.upload(store, tmp_path, pieces)
        assert info == store.head("object")
        assert b"".join(store.stream("object")) == b"".join(pieces)

    @pytest.mark.parametrize("key", AWKWARD_KEYS)
    def test_keys_are_literal(self, store: ObjectStore, tmp_path: Path, key: str) -> None:
        assert self.upload(store, tmp_path, [b"content"], key).key == key
        assert [info.key for info in store.list("")] == [key]

    @pytest.mark.parametrize("size", [5, 9 * MIB])
    def test_nothing_is_visible_before_the_commit(self, store: ObjectStore, tmp_path: Path, size: int) -> None:
        store.write("old", b"old")
        uploads = [store.open_upload(key, spool=tmp_path) for key in ("old", "new")]
        for upload in uploads:
            upload.add(content(size))
        assert store.read("old") == b"old"
        assert [info.key for info in store.list("")] == ["old"]
        for upload in uploads:
            upload.commit()
        assert [info.size for info in store.list("")] == [size, size]

    @pytest.mark.parametrize("size", [0, 5, 9 * MIB])
    def test_an_aborted_upload_leaves_nothing(self, store: ObjectStore, tmp_path: Path, size: int) -> None:
        store.write("object", b"old")
        upload = store.open_upload("object", spool=tmp_path)
        upload.add(content(size))
        for _ in range(2):
            upload.abort()
        assert store.read("object") == b"old"
        assert [info.key for info in store.list("")] == ["object"]
        for call in (upload.commit, lambda: upload.add(b"more")):
            with pytest.raises(ValueError, match="over"):
                call()

    def test_a_commit_stands_whatever_is_called_after_it(self, store: ObjectStore, tmp_path: Path) -> None:
        upload = store.open_upload("object", spool=tmp_path)
        upload.add(b"content")
        info = upload.commit()
        upload.abort()
        assert upload.commit() == info
        with pytest.raises(ValueError, match="over"):
            upload.add(b"more")
        assert store.read("object") == b"content"

    def test_many_uploads_at_once_keep_apart(self, store: ObjectStore, tmp_path: Path) -> None:
        uploads = [store.open_upload(f"object-{number}", spool=tmp_path) for number in range(20)]
        for turn in range(3):
            for number, upload in enumerate(uploads):
                upload.add(content(1000, seed=number + turn))
        for upload in uploads:
            upload.commit()
        for number in range(20):
            assert store.read(f"object-{number}") == b"".join(content(1000, seed=number + turn) for turn in range(3))

    def test_nothing_stays_in_the_spool_folder(self, store: ObjectStore, tmp_path: Path) -> None:
        spool = tmp_path / "spool"
        spool.mkdir()
        upload = store.open_upload("object", spool=spool)
        upload.add(content(9 * MIB))
        assert list(spool.iterdir()) == []

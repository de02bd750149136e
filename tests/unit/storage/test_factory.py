from pathlib import Path

import pytest

from batchwright.storage.errors import MissingCredentials
from batchwright.storage.factory import open_store
from batchwright.storage.file import FileStore
from batchwright.storage.location import parse_location
from batchwright.storage.s3 import S3Store
from batchwright.storage.settings import StorageSettings


@pytest.mark.parametrize(
    ("uri", "kind"),
    [("s3://bucket/in/a b.jsonl", S3Store), ("file:///data/in/a b.jsonl", FileStore), ("file:///x", FileStore)],
)
def test_the_scheme_chooses_the_store_and_keys_keep_their_uri(uri: str, kind: type) -> None:
    location = parse_location(uri)
    store = open_store(location)
    assert type(store) is kind
    assert store.uri(location.key) == uri


def test_a_secret_without_keys_is_found_before_anything_is_requested(tmp_path: Path) -> None:
    with pytest.raises(MissingCredentials):
        open_store(parse_location("s3://bucket/"), credentials_dir=tmp_path)


def test_a_volume_needs_no_credentials(tmp_path: Path) -> None:
    store = open_store(parse_location(f"file://{tmp_path}/out/"), StorageSettings(), credentials_dir=tmp_path)
    store.write("object", b"content")
    assert (tmp_path / "out" / "object").read_bytes() == b"content"

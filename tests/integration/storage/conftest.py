from pathlib import Path

import pytest

from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectStore


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    """An empty store of each kind: what holds for the protocol must hold for all of them."""
    if request.param == "s3":
        return request.getfixturevalue("s3_bucket").store()
    tmp_path: Path = request.getfixturevalue("tmp_path")
    return FileStore(tmp_path / "volume")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchwright.storage.file import FileStore
from batchwright.storage.protocol import ObjectStore
from batchwright.storage.s3 import S3Store
from fixtures.fault_proxy import FaultProxy
from fixtures.s3 import S3Bucket


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    """An empty store of each kind: what holds for the protocol must hold for all of them."""
    if request.param == "s3":
        return request.getfixturevalue("s3_bucket").store()
    tmp_path: Path = request.getfixturevalue("tmp_path")
    return FileStore(tmp_path / "volume")


@pytest.fixture
def pauses() -> list[float]:
    """What the store would have slept, in seconds."""
    return []


@pytest.fixture
def open_store(s3_bucket: S3Bucket, s3_proxy: FaultProxy, pauses: list[float]) -> Callable[..., S3Store]:
    """Opens an S3 store behind the proxy that injects faults."""

    def open_(kms_key_id: str | None = None, **settings: Any) -> S3Store:
        through_proxy = s3_bucket.settings_for(s3_proxy.endpoint_url, **settings)
        return s3_bucket.store(through_proxy, kms_key_id=kms_key_id, sleep=pauses.append)

    return open_

import secrets
from collections.abc import Iterator

import pytest

from fixtures.files_service import FilesService, files_service
from fixtures.s3 import S3Bucket, S3Server


@pytest.fixture(scope="session")
def on_s3(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilesService]:
    bucket = S3Bucket(s3_server, f"files-{secrets.token_hex(4)}", s3_server.client())
    bucket.client.create_bucket(Bucket=bucket.name)
    with files_service(tmp_path_factory.mktemp("files-s3"), bucket) as running:
        yield running


@pytest.fixture(scope="session")
def on_a_volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilesService]:
    with files_service(tmp_path_factory.mktemp("files-volume"), None) as running:
        yield running


@pytest.fixture(params=["on_s3", "on_a_volume"])
def service(request: pytest.FixtureRequest) -> Iterator[FilesService]:
    """A gateway on each kind of storage, empty."""
    running: FilesService = request.getfixturevalue(request.param)
    yield running
    running.reset()


@pytest.fixture
def s3_service(on_s3: FilesService) -> Iterator[FilesService]:
    """A gateway on a bucket, empty."""
    yield on_s3
    on_s3.reset()


@pytest.fixture
def volume_service(on_a_volume: FilesService) -> Iterator[FilesService]:
    """A gateway on a volume, empty: for what no storage has a part in."""
    yield on_a_volume
    on_a_volume.reset()

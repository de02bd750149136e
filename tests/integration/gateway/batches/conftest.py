"""A gateway for each test, or for all tests of a module that don't mind one another."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.batch_world import BatchWorld, batch_world
from fixtures.s3 import S3Bucket


@pytest.fixture
def world(s3_bucket: S3Bucket, tmp_path: Path) -> Iterator[BatchWorld]:
    """One with the settings' defaults."""
    with batch_world(s3_bucket, tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BatchWorld]:
    """One over a folder, for all tests of a module."""
    with batch_world(None, tmp_path_factory.mktemp("shared")) as started:
        yield started

"""A gateway for each test, or for all tests of a module that don't mind one another."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.path_routes import VOLUME, World, world_with
from fixtures.path_volume import settings, volume

__all__ = ["busy_world", "settings", "volume", "world"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One without batches."""
    with world_with(tmp_path, sharedVolume=VOLUME, defaultServer={"url": "http://default:8000"}) as world:
        yield world


@pytest.fixture(scope="module")
def busy_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for many tests, with the batches that others made."""
    folder = tmp_path_factory.mktemp("busy")
    with world_with(folder, sharedVolume=VOLUME, defaultServer={"url": "http://default:8000"}) as world:
        yield world

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fixtures.gateway import running_gateway
from fixtures.kubernetes_http import HttpApi
from fixtures.page_client import signed_in
from fixtures.page_world import PageWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PageWorld]:
    with HttpApi() as api:
        yield PageWorld.over(tmp_path, api)


@pytest.fixture
def client(world: PageWorld) -> Iterator[httpx.Client]:
    with running_gateway(world.gateway) as url, signed_in(url) as one:
        yield one

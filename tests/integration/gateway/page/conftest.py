from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fixtures.browser import Browser, chromium
from fixtures.gateway import running_gateway
from fixtures.kubernetes_http import HttpApi
from fixtures.page_client import signed_in
from fixtures.page_site import Site
from fixtures.page_world import PageWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PageWorld]:
    with HttpApi() as api:
        yield PageWorld.over(tmp_path, api)


@pytest.fixture
def client(world: PageWorld) -> Iterator[httpx.Client]:
    with running_gateway(world.gateway) as url, signed_in(url) as one:
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """While it is open, the thread has a running event loop: tests elsewhere could have none of their own."""
    with chromium() as one:
        yield one


@pytest.fixture
def site(tmp_path: Path, browser: Browser) -> Iterator[Site]:
    """No test may leave a word in the console: what the policy forbids would be told there."""
    browser.console.clear()
    with HttpApi() as api:
        world = PageWorld.over(tmp_path, api)
        with running_gateway(world.gateway) as url:
            yield Site(url, world, browser)
            browser.close_pages()
    assert browser.console == []

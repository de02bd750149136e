"""Both event loops for what depends on their clocks."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """One test runs in each, where it is about deadlines."""
    both = item.path.name == "test_deadlines.py"
    return {"asyncio": asyncio.new_event_loop} | ({"uvloop": uvloop.new_event_loop} if both else {})

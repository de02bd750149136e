"""Tests of the transport run on both event loops, whose errors differ; tests of the choice of an address run on one.

A module or a class says so by `one_event_loop = True` or False; the class goes first.
"""

import asyncio
from collections.abc import Callable

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    assert isinstance(item, pytest.Function)
    of_module = getattr(item.module, "one_event_loop", False)
    one = getattr(item.cls, "one_event_loop", of_module)
    return {"uvloop": uvloop.new_event_loop} | ({} if one else {"asyncio": asyncio.new_event_loop})

"""A real vLLM on this machine's CPU, with tiny random models: one server for each kind, for all tests of a session."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hack.vllm.installation import Installation, find_installation
from hack.vllm.serving import VllmServer, vllm_server

from vllm.flags import EMBEDDING_FLAGS, EMBEDDING_MODEL, KEY, generation_flags

START_ALLOWANCE = 900
"""Seconds that a test may take which has servers to start before it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(START_ALLOWANCE))


@pytest.fixture(scope="session")
def installation() -> Installation:
    """Where vLLM and its models are. A test without one is skipped."""
    found = find_installation()
    if found is None:
        pytest.skip("vLLM is not installed: make vllm")
    return found


@pytest.fixture(scope="session")
def vllm(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A server that generates text, with the flags of manifests/vllm as far as a CPU takes them."""
    log = tmp_path_factory.mktemp("vllm") / "log"
    with vllm_server(installation, *generation_flags(installation), log=log) as server:
        yield server


@pytest.fixture(scope="session")
def vllm_embedding(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A server that embeds, scores and ranks, for those who have the key."""
    log = tmp_path_factory.mktemp("vllm-embedding") / "log"
    key = {"VLLM_API_KEY": KEY}
    with vllm_server(installation, *EMBEDDING_FLAGS, model=EMBEDDING_MODEL, environment=key, log=log) as server:
        yield server

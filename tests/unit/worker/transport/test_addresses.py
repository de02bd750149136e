"""What the addresses of a name say about replicas, and when a name is looked up at all."""

import socket

import pytest

from batchwright.worker.transport.addresses import is_resolved_here, replica_addresses, says_that_there_are_none
from batchwright.worker.transport.settings import TransportSettings


@pytest.mark.parametrize(
    ("found", "replicas"),
    [
        pytest.param([], (), id="none"),
        pytest.param(["10.0.0.1"], (("10.0.0.1",),), id="one"),
        pytest.param(["10.0.0.1", "10.0.0.2"], (("10.0.0.1",), ("10.0.0.2",)), id="two replicas"),
        pytest.param(["::1", "127.0.0.1"], (("::1", "127.0.0.1"),), id="one replica over both families"),
        pytest.param(["10.0.0.1", "fd00::1"], (("10.0.0.1", "fd00::1"),), id="the same, IPv4 preferred"),
        pytest.param(
            ["fd00::1", "fd00::2", "10.0.0.1", "10.0.0.2"], (("fd00::1",), ("fd00::2",)), id="two over both families"
        ),
        pytest.param(["10.0.0.1", "10.0.0.1"], (("10.0.0.1",),), id="said twice"),
    ],
)
def test_each_replica_counts_once(found: list[str], replicas: tuple[tuple[str, ...], ...]) -> None:
    assert replica_addresses(found) == replicas


@pytest.mark.parametrize(
    ("found", "replicas"),
    [
        (["fd00::1", "fd00::2", "10.0.0.1"], (("10.0.0.1",),)),
        (["10.0.0.1", "10.0.0.2"], (("10.0.0.1",), ("10.0.0.2",))),
    ],
)
def test_the_second_family_is_taken_where_there_is_one(found: list[str], replicas: tuple[tuple[str, ...], ...]) -> None:
    assert replica_addresses(found, second_family=True) == replicas


@pytest.mark.parametrize(
    ("base_url", "resolved"),
    [
        ("http://vllm:8000", True),
        ("http://localhost:8000", True),
        ("http://127.0.0.1:8000", False),
        ("http://[fd00::1]:8000", False),
    ],
)
def test_names_are_looked_up_and_addresses_are_not(base_url: str, resolved: bool) -> None:
    assert is_resolved_here(TransportSettings(base_url, 1)) is resolved


@pytest.mark.parametrize(
    ("trusted", "no_proxy", "resolved"),
    [(False, "", True), (True, "", False), (True, "vllm", True)],
)
def test_behind_a_proxy_the_proxy_looks_up(
    trusted: bool, no_proxy: str, resolved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "no_proxy"):
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", no_proxy)
    settings = TransportSettings("http://vllm:8000", 1, trust_environment=trusted)
    assert is_resolved_here(settings) is resolved


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (socket.gaierror(socket.EAI_NONAME, "no such name"), True),
        (socket.gaierror(socket.EAI_AGAIN, "the name server is away"), False),
        (socket.gaierror(socket.EAI_FAIL, "the name server failed"), False),
        (TimeoutError(), False),
    ],
)
def test_no_address_and_nobody_to_ask_are_told_apart(error: OSError, answer: bool) -> None:
    assert says_that_there_are_none(error) is answer

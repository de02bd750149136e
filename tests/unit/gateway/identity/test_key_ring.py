"""The keys in the cluster: how often they are read, and what happens while they can't be."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from batchwright.gateway.identity import key_ring
from batchwright.gateway.identity.api_keys import RANDOM_BYTES, NewKey, encode_entry, new_key
from batchwright.gateway.identity.key_ring import FRESH_SECONDS, STALE_SECONDS, KeyRing
from batchwright.kube.errors import KubernetesError, Refused, Unavailable

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ALICE = new_key(bytes(RANDOM_BYTES), namespace="team-a", user="alice", admin=False, now=NOW)
BOB = new_key(bytes([1] * RANDOM_BYTES), namespace="team-b", user="bob", admin=False, now=NOW)


class Secret:
    """The Secret, as a test makes it; counts how often it is read."""

    def __init__(self, *keys: NewKey) -> None:
        self.reads = 0
        self.error: KubernetesError | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        self.entries: dict[str, bytes] | None = {}
        self.hold(*keys)

    def __str__(self) -> str:
        return "system/gateway-keys"

    def hold(self, *keys: NewKey) -> None:
        self.entries = {key.id: encode_entry(key.entry) for key in keys}

    def read(self) -> dict[str, bytes] | None:
        self.reads += 1
        self.meanwhile()
        if self.error is not None:
            raise self.error
        return self.entries


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_keys_are_kept_for_five_seconds(clock: Clock) -> None:
    secret = Secret(ALICE)
    ring = KeyRing(secret, clock=clock)
    assert ring.find(ALICE.text) == ALICE.entry
    clock.now += FRESH_SECONDS - 0.1
    assert ring.find(ALICE.text) == ALICE.entry
    assert ring.find(BOB.text) is None
    assert secret.reads == 1


def test_after_that_a_revoked_key_opens_nothing_and_a_new_one_does(clock: Clock) -> None:
    secret = Secret(ALICE)
    ring = KeyRing(secret, clock=clock)
    assert ring.find(ALICE.text) is not None
    secret.hold(BOB)
    clock.now += FRESH_SECONDS
    assert ring.find(ALICE.text) is None
    assert ring.find(BOB.text) == BOB.entry


def test_a_hundred_requests_at_once_make_one_read(clock: Clock) -> None:
    secret, requests = Secret(ALICE), 100
    ring, begun = KeyRing(secret, clock=clock), threading.Barrier(requests)

    def request() -> bool:
        begun.wait(30)
        return ring.find(ALICE.text) is not None

    with ThreadPoolExecutor(requests) as threads:
        assert all(found.result(30) for found in [threads.submit(request) for _ in range(requests)])
    assert secret.reads == 1


def test_while_the_api_is_away_the_last_good_keys_are_used_for_five_minutes(clock: Clock) -> None:
    secret = Secret(ALICE)
    ring = KeyRing(secret, clock=clock)
    ring.check()
    secret.error = Unavailable("away")
    clock.now += STALE_SECONDS - 1
    assert ring.find(ALICE.text) == ALICE.entry
    ring.check()
    clock.now += 1
    with pytest.raises(Unavailable, match="away"):
        ring.find(ALICE.text)
    with pytest.raises(Unavailable, match="away"):
        ring.check()


def test_an_api_that_is_away_is_asked_again_after_five_seconds_not_by_every_request(clock: Clock) -> None:
    secret = Secret(ALICE)
    secret.error = Unavailable("away")
    ring = KeyRing(secret, clock=clock)
    for _ in range(10):
        with pytest.raises(Unavailable):
            ring.find(ALICE.text)
    assert secret.reads == 1
    secret.error = None
    clock.now += FRESH_SECONDS
    assert ring.find(ALICE.text) == ALICE.entry


def test_a_request_does_not_wait_for_a_server_that_hangs(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ring, "_WAIT_SECONDS", 0.01)
    secret, reading, go_on = Secret(ALICE), threading.Event(), threading.Event()
    ring = KeyRing(secret, clock=clock)
    ring.check()
    clock.now += FRESH_SECONDS

    def hang() -> None:
        reading.set()
        assert go_on.wait(30)

    secret.meanwhile = hang
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(ring.find, ALICE.text)
        assert reading.wait(30)
        assert ring.find(ALICE.text) == ALICE.entry
        assert not first.done()
        go_on.set()
        assert first.result(30) == ALICE.entry


def test_without_the_secret_there_are_no_keys_and_the_log_says_so_once(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    secret = Secret(ALICE)
    ring = KeyRing(secret, clock=clock)
    ring.check()
    secret.entries = None
    for _ in range(3):
        clock.now += FRESH_SECONDS
        assert ring.find(ALICE.text) is None
    (line,) = caplog.messages
    assert "system/gateway-keys is not there" in line
    assert "keys create" in line


def test_a_damaged_entry_is_logged_by_its_id_alone_and_the_others_work(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    secret = Secret(ALICE)
    assert secret.entries is not None
    secret.entries["0123456789ab"] = b'{"hash": "f00d", "user": "mallory"}'
    ring = KeyRing(secret, clock=clock)
    for _ in range(3):
        clock.now += FRESH_SECONDS
        assert ring.find(ALICE.text) == ALICE.entry
    (line,) = caplog.messages
    assert "0123456789ab" in line
    assert "f00d" not in line
    assert "mallory" not in line


def test_a_refusal_names_the_right_that_is_missing(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret()
    secret.error = Refused("forbidden", status=403)
    with pytest.raises(Refused):
        KeyRing(secret, clock=clock).check()
    assert "Role must allow `get`" in caplog.text


def test_no_key_is_ever_logged(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = Secret(ALICE)
    secret.error = Unavailable("away")
    with pytest.raises(Unavailable):
        KeyRing(secret, clock=clock).find(ALICE.text)
    assert ALICE.text[-43:] not in caplog.text
    assert ALICE.entry.hash not in caplog.text

"""Calls that are made again while a store is away."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from batchwright.storage import patience
from batchwright.storage.errors import AccessDenied, CredentialsRevoked, StorageError, StorageUnavailable, UploadMissing
from batchwright.storage.patience import Patience

AWAY = StorageUnavailable("GetObject", "s3://b/k", "503")
REFUSED = AccessDenied("GetObject", "s3://b/k", "no")


class Clock:
    """Moves by ten seconds at each look."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 10
        return self.seconds


class Calls:
    """Ends as the outcomes say, one call after the other."""

    def __init__(self, *outcomes: StorageError | str, at_each: Callable[[], object] = lambda: None) -> None:
        self._outcomes: Iterator[StorageError | str] = iter(outcomes)
        self._at_each = at_each
        self.made = 0

    def __call__(self) -> str:
        self.made += 1
        self._at_each()
        outcome = next(self._outcomes)
        if isinstance(outcome, StorageError):
            raise outcome
        return outcome


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.001)


def test_a_call_is_made_again_until_it_gets_through() -> None:
    calls = Calls(AWAY, AWAY, AWAY, "content")
    assert Patience(1000).call(calls) == "content"


@pytest.mark.parametrize(("seconds", "error", "made"), [(1000, REFUSED, 1), (0, AWAY, 1), (35, AWAY, 4)])
def test_it_ends_where_waiting_is_of_no_use_or_has_been_long_enough(
    seconds: float, error: StorageError, made: int
) -> None:
    calls = Calls(*[error] * 10)
    with pytest.raises(type(error)):
        Patience(seconds, Clock()).call(calls)
    assert calls.made == made


def test_a_call_that_gets_through_renews_the_patience_for_all() -> None:
    shared = Patience(35, Clock())
    for _ in range(5):
        assert shared.call(Calls(AWAY, "content")) == "content"
    beside = Calls(*[AWAY] * 5, "content", at_each=lambda: shared.call(lambda: "another"))
    assert shared.call(beside) == "content"


def test_an_error_that_the_call_alone_cannot_mend_is_raised_at_once() -> None:
    calls = Calls(UploadMissing("UploadPart", "s3://b/k"), "content")
    with pytest.raises(UploadMissing):
        Patience(1000).call(calls, unless=UploadMissing)
    assert Patience(1000).call(Calls(UploadMissing("UploadPart", "s3://b/k"), "content")) == "content"


def test_that_credentials_are_waited_for_is_not_said_again_by_each_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    revoked = CredentialsRevoked("GetObject", "s3://b/k", "InvalidAccessKeyId")
    assert Patience(1000).call(Calls(revoked, revoked, "content")) == "content"
    assert caplog.records == []
    Patience(1000).call(Calls(AWAY, "content"))
    assert "storage is away" in caplog.text


def test_when_it_is_told_to_stop_it_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE", 3600.0)
    stopped = threading.Event()
    stopped.set()
    calls = Calls(AWAY, "content")
    with pytest.raises(StorageUnavailable):
        Patience(1e6).call(calls, stopped=stopped)
    assert calls.made == 1


def test_it_tells_what_is_waited_out_and_no_longer_than_that() -> None:
    seen: list[StorageError | None] = []
    shared = Patience(1000)
    shared.call(Calls(AWAY, "content", at_each=lambda: seen.append(shared.failure)))
    assert seen == [None, AWAY]
    assert shared.failure is None

"""What the merge tells of its progress."""

import pytest

from batchwright.storage import patience as patience_module
from batchwright.storage.errors import CredentialsRevoked, StorageError, StorageUnavailable
from batchwright.storage.patience import Patience
from batchwright.worker.merge_stage import Progress


@pytest.mark.parametrize(
    ("told", "joined"),
    [
        ([], 0),
        ([(0, 10)], 0),
        ([(0, 10), (4, 10), (10, 10)], 10),
        # joined again after a failure
        ([(7, 10), (0, 10)], 7),
        ([(7, 10), (0, 10), (9, 10)], 9),
        # counted twice on the way
        ([(7, 10), (14, 10)], 10),
    ],
)
def test_the_bytes_joined_never_fall_and_are_never_more_than_all(told: list[tuple[int, int]], joined: int) -> None:
    progress = Progress(2, Patience())
    for done, total in told:
        progress.update(done, total)
    report = progress.report()
    assert (report.run, report.bytes_joined, report.message) == (2, joined, "")


@pytest.mark.parametrize(
    ("closed", "message"),
    [((0, 3), "Closing unfinished shards: 0 of 3"), ((2, 3), "Closing unfinished shards: 2 of 3"), ((3, 3), "")],
)
def test_it_says_how_many_unfinished_shards_are_closed(closed: tuple[int, int], message: str) -> None:
    progress = Progress(1, Patience())
    progress.close(*closed)
    assert progress.report().message == message


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (StorageUnavailable("UploadPart", "s3://b/k", "503"), "UploadPart s3://b/k: the store is not available (503)"),
        (
            CredentialsRevoked("UploadPart", "s3://b/k", "InvalidAccessKeyId"),
            "UploadPart s3://b/k: the credentials are no longer accepted (InvalidAccessKeyId)",
        ),
    ],
)
def test_it_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch, failure: StorageError, message: str) -> None:
    monkeypatch.setattr(patience_module, "FIRST_PAUSE", 0.001)
    patience, failures = Patience(60.0), iter([failure])
    progress, told = Progress(1, patience), []

    def call() -> None:
        told.append(progress.report().message)
        for one in failures:
            raise one

    patience.call(call)
    assert told == ["", f"Waiting for the storage: {message}"]
    assert progress.report().message == ""

"""What goes together with a file."""

from datetime import UTC, datetime

import pytest

from batchwright.gateway.records.file_record import FileRecord, keys_of

UPLOAD = f"file-{'7' * 32}"
FOLDER = f"batch-{'7' * 32}"


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        (UPLOAD, (UPLOAD,)),
        (f"{FOLDER}/results.jsonl", (f"{FOLDER}/results.jsonl",)),
        (f"{FOLDER}/errors.jsonl", (f"{FOLDER}/retry.jsonl", f"{FOLDER}/errors.jsonl")),
    ],
)
def test_the_lines_to_send_again_belong_to_the_error_file(key: str, keys: tuple[str, ...]) -> None:
    record = FileRecord(UPLOAD, "team-a", key, 1, datetime(2026, 3, 1, tzinfo=UTC), "x.jsonl", "batch_output")
    assert keys_of(record) == keys

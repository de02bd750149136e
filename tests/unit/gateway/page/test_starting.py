"""Names of files of lines that are tried again."""

import pytest

from batchwright.gateway.page.starting import retry_name


@pytest.mark.parametrize(
    ("name", "retried"),
    [
        ("a.jsonl", "a.retry.jsonl"),
        ("a.retry.jsonl", "a.retry-2.jsonl"),
        ("a.retry-2.jsonl", "a.retry-3.jsonl"),
        ("a.retry-9.jsonl", "a.retry-10.jsonl"),
        ("a.retry-x.jsonl", "a.retry-x.retry.jsonl"),
        ("upload", "upload.retry.jsonl"),
        (".jsonl", ".retry.jsonl"),
        ("ä" * 250 + ".jsonl", "ä" * 243 + ".retry.jsonl"),
    ],
)
def test_each_retry_has_a_name_of_its_own(name: str, retried: str) -> None:
    assert retry_name(name) == retried

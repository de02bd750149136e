"""The API key follows its file, and survives a moment without one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from batchwright.api.conditions import Reason
from batchwright.worker.api_key import ApiKey
from batchwright.worker.failures import StageFailed


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_without_a_file_no_header_is_sent() -> None:
    assert ApiKey(None).headers() == {}


def test_the_key_is_sent_as_a_bearer_token_without_white_space(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("  sk-1\n")
    assert ApiKey(tmp_path / "key").headers() == {"Authorization": "Bearer sk-1"}


def test_a_rotated_key_is_taken_up(tmp_path: Path) -> None:
    file, clock = tmp_path / "key", Clock()
    file.write_text("old")
    key = ApiKey(file, clock)
    assert key.headers() == {"Authorization": "Bearer old"}
    file.write_text("new")
    clock.now += 1.0
    assert key.headers() == {"Authorization": "Bearer new"}


@pytest.mark.parametrize(
    "spoil", [Path.unlink, lambda file: file.write_text(""), lambda file: file.write_bytes(b"\xff\n\x01")]
)
def test_a_key_that_vanishes_leaves_the_last_good_one(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    file, clock = tmp_path / "key", Clock()
    file.write_text("good")
    key = ApiKey(file, clock)
    key.headers()
    spoil(file)
    clock.now += 1.0
    assert key.headers() == {"Authorization": "Bearer good"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"a\nb", "no HTTP header"),
        (b"\xff", "no HTTP"),
    ],
)
def test_a_key_that_cannot_be_used_at_all_is_told_without_showing_it(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(StageFailed, match=why) as failure:
        ApiKey(file).headers()
    assert failure.value.report.reason is Reason.INVALID_SPEC
    assert failure.value.report.final
    assert "spec.server.apiKeySecretRef" in failure.value.report.message

"""Lines that come in any order leave in input order."""

import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.batchfile.shard_record import ERRORS, RESULTS, RETRY
from batchwright.worker.run import spool as module
from batchwright.worker.run.spool import HELD_BYTES, Spool


def content(spool: Spool, kind: str) -> list[bytes] | None:
    file = spool.ordered(kind)
    if file is None:
        return None
    data = file.path.read_bytes()
    assert (file.bytes, file.lines) == (len(data), data.count(b"\n"))
    return data.splitlines()


@given(
    outcomes=st.lists(st.tuples(st.booleans(), st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")))),
    seed=st.integers(),
)
def test_every_line_leaves_once_in_input_order(
    tmp_path_factory: pytest.TempPathFactory, outcomes: list[tuple[bool, bytes]], seed: int
) -> None:
    spool = Spool(tmp_path_factory.mktemp("spool"), len(outcomes))
    finishing = list(enumerate(outcomes))
    random.Random(seed).shuffle(finishing)
    for position, (succeeded, line) in finishing:
        spool.assign(position, spool.append(line), succeeded=succeeded)
        if not succeeded:
            spool.append_retry(position, b"input of " + line)
    failed = [line for succeeded, line in outcomes if not succeeded]
    expected = {
        RESULTS: [line for succeeded, line in outcomes if succeeded],
        ERRORS: failed,
        RETRY: [b"input of " + line for line in failed],
    }
    for kind, lines in expected.items():
        file = spool.ordered(kind)
        assert (file.path.read_bytes() if file else b"") == b"".join(line + b"\n" for line in lines)
        assert (file.lines if file else 0) == len(lines)
    spool.discard()


def test_a_kind_without_lines_has_no_file(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 2)
    spool.assign(1, spool.append(b"done"), succeeded=True)
    assert content(spool, RESULTS) == [b"done"]
    assert content(spool, ERRORS) is None
    assert content(spool, RETRY) is None


def test_a_line_that_was_never_assigned_stays_out(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 1)
    spool.append(b"of an earlier attempt, and done again")
    spool.assign(0, spool.append(b"kept"), succeeded=True)
    assert content(spool, RESULTS) == [b"kept"]


@pytest.mark.parametrize("read_at_once", [0, 1000])
def test_long_lines_are_copied_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_at_once: int) -> None:
    monkeypatch.setattr(module, "COPY_BYTES", 7)
    monkeypatch.setattr(module, "READ_AT_ONCE_BYTES", read_at_once)
    spool = Spool(tmp_path / "spool", 2)
    lines = [b"a" * 50, b"b" * 49]
    spool.assign(1, spool.append(lines[1]), succeeded=True)
    spool.assign(0, spool.append(lines[0]), succeeded=True)
    assert content(spool, RESULTS) == lines


@given(lines=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b""))), most=st.integers(1, 40))
def test_segments_hold_whole_lines_and_together_all_of_them(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], most: int
) -> None:
    spool = Spool(tmp_path_factory.mktemp("spool"), len(lines))
    for line in lines:
        spool.append(line)
    taken = b""
    while block := spool.whole_lines(len(taken), most):
        assert block.endswith(b"\n")
        assert len(block) <= most or block.count(b"\n") == 1 or len(block) <= 2 * max(map(len, lines)) + 2
        taken += block
    assert taken == b"".join(line + b"\n" for line in lines)
    spool.discard()


def test_what_has_no_end_is_no_line(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 1)
    spool.append(b"x" * HELD_BYTES)
    (tmp_path / "spool" / "finished").write_bytes(b"the disk lost the rest")
    assert spool.whole_lines(0, 4) == b""


def test_what_an_earlier_process_left_in_the_folder_is_not_read(tmp_path: Path) -> None:
    for name in ("finished", "retry-unordered", RESULTS):
        (tmp_path / name).write_bytes(b"old\n")
    spool = Spool(tmp_path, 1)
    assert spool.whole_lines(0, 100) == b""
    assert spool.ordered(RESULTS) is None


def test_a_full_disk_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path / "spool", 2)
    large = b"x" * HELD_BYTES
    spool.assign(0, spool.append(b"first"), succeeded=True)
    real = os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) > 3:
            return real(descriptor, bytes(data[:3]), offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        spool.append(large)
    with pytest.raises(OSError, match="No space left"):
        spool.whole_lines(0, spool.size)
    monkeypatch.undo()
    spool.assign(1, spool.append(b"third"), succeeded=True)
    assert spool.whole_lines(0, spool.size) == b"first\n" + large + b"\nthird\n"
    assert content(spool, RESULTS) == [b"first", b"third"]


def test_discard_gives_the_disk_back_and_may_be_repeated(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 1)
    spool.assign(0, spool.append(b"line"), succeeded=True)
    spool.ordered(RESULTS)
    spool.discard()
    spool.discard()
    assert not (tmp_path / "spool").exists()

"""Ids of files and batches: their form, their order, what is made of them."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.gateway import ids

NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
RANDOM = st.binary(min_size=10, max_size=10)


def test_ids_have_their_forms() -> None:
    assert re.fullmatch(r"file-[0-9a-f]{32}", ids.new_file_id(NOW))
    assert re.fullmatch(r"batch_[0-9a-f]{32}", ids.new_batch_id(NOW))


def test_no_two_ids_of_one_moment_are_the_same() -> None:
    assert len({ids.new_file_id(NOW) for _ in range(1000)}) == 1000


@given(MOMENTS, MOMENTS, RANDOM, RANDOM)
def test_the_newer_one_comes_first(one: datetime, other: datetime, mine: bytes, theirs: bytes) -> None:
    older, newer = sorted((one, other))
    if newer - older >= timedelta(milliseconds=1):
        assert ids.new_batch_id(newer, mine) < ids.new_batch_id(older, theirs)


@given(MOMENTS, RANDOM)
def test_an_id_tells_when_it_was_made(moment: datetime, random: bytes) -> None:
    for made in (ids.new_file_id(moment, random), ids.new_batch_id(moment, random)):
        assert abs(ids.created_at(made) - moment) <= timedelta(milliseconds=1)


@given(MOMENTS, RANDOM)
def test_a_batch_names_its_batchjob(moment: datetime, random: bytes) -> None:
    batch = ids.new_batch_id(moment, random)
    name = ids.batchjob_name(batch)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= 63
    assert name.removeprefix("batch-") == batch.removeprefix("batch_")


FOREIGN = [
    "",
    "..",
    "../x",
    "0" * 32,
    "file-" + "0" * 31,
    "file-" + "0" * 33,
    "file-" + "F" * 32,
    "file-" + "0" * 32 + "\n",
]


@pytest.mark.parametrize("text", [*FOREIGN, "batch_" + "0" * 32])
def test_anything_else_is_no_file(text: str) -> None:
    assert not ids.is_file_id(text)


@pytest.mark.parametrize("text", [*FOREIGN, "file-" + "0" * 32])
def test_anything_else_is_no_batch_and_has_no_batchjob(text: str) -> None:
    assert not ids.is_batch_id(text)
    with pytest.raises(ValueError, match="not a batch id"):
        ids.batchjob_name(text)


@given(MOMENTS, MOMENTS, RANDOM)
def test_whoever_archives_a_batch_comes_to_the_same_file_ids(made: datetime, ended: datetime, random: bytes) -> None:
    batch = ids.new_batch_id(made, random)
    first, second = ids.output_file_id(batch, "output", ended), ids.output_file_id(batch, "errors", ended)
    assert first == ids.output_file_id(batch, "output", ended)
    assert first != second
    assert ids.is_file_id(first)
    assert ids.is_file_id(second)
    assert abs(ids.created_at(first) - ended) <= timedelta(milliseconds=1)


@given(MOMENTS, RANDOM, RANDOM)
def test_files_of_two_batches_differ(moment: datetime, mine: bytes, theirs: bytes) -> None:
    if mine.hex()[1:] != theirs.hex()[1:]:
        one, other = (ids.new_batch_id(moment, random) for random in (mine, theirs))
        assert ids.output_file_id(one, "output", moment) != ids.output_file_id(other, "output", moment)

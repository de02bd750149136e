"""Keys of work objects."""

import pytest

from batchwright.batchfile.layout import OutputLayout

LAYOUT = OutputLayout("out/nightly/")
WORK = LAYOUT.work("0123456789abcdef")
PREFIX = "out/nightly/.batchwright/0123456789abcdef/"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (LAYOUT.published("results.jsonl"), "out/nightly/results.jsonl"),
        (LAYOUT.owner, "out/nightly/.batchwright/owner.json"),
        (LAYOUT.validation_errors, "out/nightly/.batchwright/validation-errors.jsonl"),
        (LAYOUT.probes, "out/nightly/.batchwright/probes/"),
        (WORK.plan, PREFIX + "plan.json"),
        (WORK.summary, PREFIX + "summary.json"),
        (WORK.claim(1, 7), PREFIX + "claims/1/000007"),
        (WORK.record(7), PREFIX + "records/000007.json"),
        (WORK.progress, PREFIX + "progress.json"),
        (WORK.joined, PREFIX + "records/joined.json"),
        (WORK.segment(7, "x", 12), PREFIX + "segments/000007/x-000012.jsonl"),
        (WORK.opening(7, 2, "x"), PREFIX + "segments/000007/opened-000002-x.json"),
        (WORK.origin, PREFIX + "origin.json"),
        (WORK.earlier_file("results"), PREFIX + "earlier/results.jsonl"),
        (WORK.earlier_part(7), PREFIX + "segments/000007/earlier.json"),
        (WORK.shard_file(7, "x", "results"), PREFIX + "shards/000007/x-results.jsonl"),
        (WORK.worker(1, 7), PREFIX + "workers/1/7.json"),
    ],
)
def test_keys_of_a_format_are_fixed(key: str, expected: str) -> None:
    assert key == expected


@pytest.mark.parametrize("shard", [0, 7, 9999, 123_456_789])
def test_a_shard_is_found_in_its_keys(shard: int) -> None:
    assert WORK.shard_of_claim(WORK.claim(2, shard), 2) == shard
    assert WORK.shard_of_record(WORK.record(shard)) == shard
    assert WORK.shard_of_record(WORK.joined) is None
    assert WORK.shard_of_segment(WORK.segment(shard, "x-1", 3)) == shard
    assert WORK.shard_of_file(WORK.shard_file(shard, "x", "errors")) == shard
    assert WORK.shard_of_opening(WORK.opening(shard, 3, "x-1")) == shard
    assert WORK.shard_of_earlier_part(WORK.earlier_part(shard)) == shard


@pytest.mark.parametrize("worker", [(1, 0), (12, 999)])
def test_run_and_index_are_found_in_the_key_of_a_state(worker: tuple[int, int]) -> None:
    assert WORK.run_and_index_of_worker(WORK.worker(*worker)) == worker


@pytest.mark.parametrize("name", ["1/", "1/x.json", "1/01.json", "1/2.json.tmp", "1/2/3.json", "-1/2.json"])
def test_another_key_is_no_workers(name: str) -> None:
    assert WORK.run_and_index_of_worker(f"{WORK.workers}{name}") is None
    assert WORK.run_and_index_of_worker(name) is None


def test_openings_sort_by_their_numbers_and_are_no_segments() -> None:
    keys = [WORK.opening(7, number, attempt) for number, attempt in ((1, "z"), (2, "b"), (10, "a"))]
    assert keys == sorted(keys)
    assert [WORK.number_of_opening(key) for key in keys] == [1, 2, 10]
    assert WORK.shard_of_segment(keys[0]) is None
    assert WORK.shard_of_opening(WORK.segment(7, "opened", 1)) is None


def test_an_earlier_part_is_neither_segment_nor_opening() -> None:
    assert WORK.shard_of_segment(WORK.earlier_part(7)) is None
    assert WORK.shard_of_opening(WORK.earlier_part(7)) is None
    assert WORK.shard_of_earlier_part(WORK.segment(7, "earlier.json", 1)) is None


def test_keys_of_shards_sort_as_the_shards_do() -> None:
    keys = [WORK.record(shard) for shard in range(0, 10_000, 11)]
    assert keys == sorted(keys)


FOREIGN = ["", "x", "000007.bak", "7", "00000007", "٠٠٠٠٠٧", "000007 ", "-00007", "000007\n", ".DS_Store"]


@pytest.mark.parametrize("name", FOREIGN)
def test_any_other_key_is_no_shards(name: str) -> None:
    assert WORK.shard_of_claim(WORK.claims(1) + name, 1) is None
    assert WORK.shard_of_record(f"{WORK.records}{name}") is None
    assert WORK.shard_of_segment(f"{WORK.segments}{name}/") is None
    assert WORK.shard_of_segment(f"{WORK.segments}000007/{name}") is None
    assert WORK.shard_of_opening(f"{WORK.segments}000007/{name}") is None
    assert WORK.shard_of_file(f"{WORK.shard_files}000007/{name}") is None


def test_a_key_of_another_prefix_is_no_shards() -> None:
    other = OutputLayout("out/other/").work("0123456789abcdef")
    assert WORK.shard_of_record(other.record(7)) is None
    assert WORK.shard_of_claim(WORK.claim(2, 7), 1) is None
    assert WORK.shard_of_segment(WORK.shard_file(7, "x", "results")) is None

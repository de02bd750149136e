"""Keys of work objects."""

import pytest

from batchwright.batchfile.layout import OutputLayout, shard_of

LAYOUT = OutputLayout("out/nightly/")
WORK = LAYOUT.work("0123456789abcdef")
PREFIX = "out/nightly/.batchwright/0123456789abcdef/"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (LAYOUT.published("results.jsonl"), "out/nightly/results.jsonl"),
        (LAYOUT.validation_errors, "out/nightly/.batchwright/validation-errors.jsonl"),
        (LAYOUT.probes, "out/nightly/.batchwright/probes/"),
        (WORK.plan, PREFIX + "plan.json"),
        (WORK.summary, PREFIX + "summary.json"),
        (WORK.claim(1, 7), PREFIX + "claims/1/000007"),
        (WORK.record(7), PREFIX + "records/000007.json"),
        (WORK.segment(7, "x", 12), PREFIX + "segments/000007/x-000012.jsonl"),
        (WORK.shard_file(7, "x", "results"), PREFIX + "shards/000007/x-results.jsonl"),
        (WORK.worker(1, 7), PREFIX + "workers/1/7.json"),
    ],
)
def test_keys_of_a_format_are_fixed(key: str, expected: str) -> None:
    assert key == expected


@pytest.mark.parametrize("shard", [0, 7, 9999, 123_456_789])
def test_a_shard_is_found_in_its_keys(shard: int) -> None:
    assert shard_of(WORK.claim(2, shard), WORK.claims(2)) == shard
    assert shard_of(WORK.record(shard), WORK.records) == shard
    assert shard_of(WORK.segment(shard, "x-1", 3), WORK.segments) == shard
    assert shard_of(WORK.shard_file(shard, "x", "errors"), WORK.shard_files) == shard


def test_keys_of_shards_sort_as_the_shards_do() -> None:
    keys = [WORK.record(shard) for shard in range(0, 10_000, 11)]
    assert keys == sorted(keys)


@pytest.mark.parametrize("key", [PREFIX + "records/x.json", PREFIX + "records/", "out/other/records/000007.json"])
def test_any_other_key_is_no_shards(key: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal|is not under"):
        shard_of(key, WORK.records)

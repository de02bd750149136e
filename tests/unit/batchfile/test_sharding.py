"""How many lines a shard has.

Unset: the number nearest to 1,000 within 500 to 2,000 that makes the number of shards a multiple of parallelism; where
none exists, an equal part for every worker; more only to stay within 10,000 shards.
"""

import pytest

from batchwright.api.batchjob import MAX_SHARDS
from batchwright.batchfile.sharding import ceil_divide, choose_lines_per_shard

TABLE = [
    # lines, parallelism, lines per shard, shards
    (1, 1, 1000, 1),
    (1000, 1, 1000, 1),
    (1001, 1, 1000, 2),
    (5000, 1, 1000, 5),
    (5000, 5, 1000, 5),
    (5000, 8, 714, 8),
    (5000, 2, 999, 6),
    (8000, 8, 1000, 8),
    (8001, 8, 1001, 8),
    (16_001, 8, 1001, 16),
    (50_000, 8, 1042, 48),
    (50_000, 64, 793, 64),
    (150_000, 100, 753, 200),
    # at the edge of 500
    (3507, 8, 500, 8),
    (3500, 8, 438, 8),
    (2000, 1, 1000, 2),
    (100, 1, 1000, 1),
    # none exists: an equal part for every worker, of whom some get none
    (1, 8, 1, 1),
    (10, 8, 2, 5),
    (100, 8, 13, 8),
    (150_000, 1000, 150, 1000),
    (499_000, 1000, 499, 1000),
    # many lines
    (1_000_000, 1000, 1000, 1000),
    (10_000_000, 8, 1000, 10_000),
    (10_000_000, 1000, 1000, 10_000),
    (20_000_000, 8, 2000, 10_000),
    (20_000_000, 1000, 2000, 10_000),
    (20_000_000, 7, 2001, 9996),
    (100_000_000, 1000, 10_000, 10_000),
]


@pytest.mark.parametrize(("lines", "parallelism", "lines_per_shard", "shards"), TABLE)
def test_unset_it_is_chosen(lines: int, parallelism: int, lines_per_shard: int, shards: int) -> None:
    assert choose_lines_per_shard(lines, parallelism) == lines_per_shard
    assert ceil_divide(lines, lines_per_shard) == shards


@pytest.mark.parametrize(
    ("lines", "wanted", "lines_per_shard"),
    [
        (1000, 10, 10),
        (1000, 5000, 5000),
        (10_000, 1, 1),
        (10_001, 1, 2),
        (1_000_000, 1, 100),
        (20_000_000, 1000, 2000),
        (20_000_000, 2001, 2001),
    ],
)
def test_what_is_wanted_is_taken_within_the_number_of_shards(lines: int, wanted: int, lines_per_shard: int) -> None:
    assert choose_lines_per_shard(lines, 8, wanted) == lines_per_shard
    assert ceil_divide(lines, lines_per_shard) <= MAX_SHARDS


def test_an_input_without_lines_is_no_input() -> None:
    with pytest.raises(ValueError, match="has no shards"):
        choose_lines_per_shard(0, 8)

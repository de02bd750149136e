"""How many lines a shard has. All but the last have as many: smaller ones at the end of a job were measured, and don't
end it sooner (docs/performance.md)."""

from batchwright.api.batchjob import MAX_SHARDS

PREFERRED_LINES = 1000
MIN_LINES = 500
MAX_LINES = 2000


def choose_lines_per_shard(lines: int, parallelism: int, wanted: int | None = None) -> int:
    """Lines of each shard but the last.

    What the user wants is taken, except that no input makes more than MAX_SHARDS shards. Unset: the number nearest to
    1,000 within 500 to 2,000 that makes the number of shards a multiple of parallelism, so that no worker idles at the
    end; more than 2,000 only to stay within MAX_SHARDS. Where none exists, an equal part for every worker.
    """
    if lines < 1:
        raise ValueError("an input without lines has no shards")
    fewest = ceil_divide(lines, MAX_SHARDS)
    if wanted is not None:
        return max(wanted, fewest)
    fitting = (
        size
        for size in range(max(MIN_LINES, fewest), max(MAX_LINES, 2 * fewest) + 1)
        if ceil_divide(lines, size) % parallelism == 0
    )
    nearest = min(fitting, key=lambda size: (abs(size - PREFERRED_LINES), size), default=None)
    return nearest or max(ceil_divide(lines, parallelism), fewest)


def ceil_divide(dividend: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-dividend // divisor)

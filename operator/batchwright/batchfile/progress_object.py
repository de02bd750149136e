"""The progress object, which `spec.output.names.progress` names: how far a run is, and how fast it was at its end.

Its fields are those of the path-based services of research centres, whose clients read them.
"""

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from batchwright.batchfile.counts import ProgressCounts
from batchwright.batchfile.plan_record import FORMAT_VERSION
from batchwright.batchfile.shard_record import Totals

_DECIMALS: Final = 3


class ProgressRecord(Struct, frozen=True, tag_field="record", tag="progress"):
    """Which worker writes the progress object, and the counts that it has told: whoever goes on tells no smaller ones.

    It stands among the work objects, so that counts of other work at the same name are never taken for one's own.
    """

    run: int
    index: int
    attempt: str
    at: datetime
    """When a worker was last at work."""
    counts: ProgressCounts = ProgressCounts()
    version: int = FORMAT_VERSION


def counts_of(totals: Totals) -> ProgressCounts:
    """Totals, as far as a progress object has them. Tokens that no answer reported are none."""
    return ProgressCounts(totals.completed + totals.failed, totals.usage.total_tokens or 0, totals.completed)


def progress_object(counts: ProgressCounts) -> bytes:
    """The object during the run."""
    return msgspec.json.encode(_so_far(counts))


def final_progress_object(counts: ProgressCounts, *, seconds: float, reused_tokens: int) -> bytes:
    """The object at the end. `seconds` is how long the run was; of `reused_tokens` it had no part."""
    metrics = {
        "response_time": rounded(seconds),
        "throughput_tokens_per_second": throughput(counts.total_tokens - reused_tokens, seconds),
        "total_tokens": counts.total_tokens,
        "num_responses": counts.num_responses,
        "lines_processed": counts.lines_processed,
    }
    return msgspec.json.encode({**_so_far(counts), "metrics": metrics})


def rounded(value: float) -> float:
    """To thousandths: less means nothing, and the numbers stay readable."""
    return round(value, _DECIMALS)


def throughput(tokens: int, seconds: float) -> float:
    """Tokens a second; 0 for a run that took no time, since it sent nothing."""
    return rounded(max(0, tokens) / seconds) if seconds > 0 else 0.0


def _so_far(counts: ProgressCounts) -> dict[str, int]:
    return {
        "lines_processed": counts.lines_processed,
        "total_tokens_so_far": counts.total_tokens,
        "num_responses_so_far": counts.num_responses,
    }

"""What a worker says of its progress: cumulative over the pods of its index."""

from typing import Any

from batchwright.api import status
from batchwright.api.reports import Progress
from batchwright.batchfile.counts import ProgressCounts, Usage
from batchwright.batchfile.progress_object import counts_of
from batchwright.batchfile.shard_record import Totals, WorkerState
from batchwright.worker.run.claims import WorkerIdentity
from batchwright.worker.run.open_shard import OpenShard
from batchwright.worker.run.tally import add_totals
from batchwright.worker.server.gate import Gate


class RunProgress:
    """Counts of committed shards, of this pod and those before it, and of the shards that are open."""

    def __init__(
        self, identity: WorkerIdentity, earlier: WorkerState | None, gate: Gate, *, tells_open: bool = False
    ) -> None:
        """`gate`: what is said of the model server. `tells_open`: the state tells of open shards, too."""
        self._me = identity
        self._gate = gate
        self._committed = earlier.totals if earlier else Totals()
        self._shards_completed = earlier.shards_completed if earlier else 0
        self._left = dict(earlier.left) if earlier else {}
        self.open: dict[int, OpenShard] = {}
        self._kept: dict[int, ProgressCounts] | None = {} if tells_open else None

    def committed(self, shard: int, totals: Totals | None) -> None:
        """A shard has its record. Without totals it is another worker's, who counts it."""
        self.open.pop(shard, None)
        self._left.pop(shard, None)
        if self._kept is not None:
            self._kept.pop(shard, None)
        if totals is not None:
            self._committed = add_totals(self._committed, totals)
            self._shards_completed += 1

    @property
    def tells_open(self) -> bool:
        """Whether the state tells of open shards."""
        return self._kept is not None

    def kept(self, shard: int, totals: Totals) -> None:
        """These counts of an open shard stand in its segments. Those that don't may be lost, and are told nobody."""
        if self._kept is not None and shard in self.open:
            self._kept[shard] = counts_of(totals)

    @property
    def server_away(self) -> bool:
        """Whether the model server is away."""
        return self._gate.outage is not None

    def state(self, *, leaving: bool = False) -> WorkerState:
        """What a successor goes on from: committed shards alone, since segments tell of the others.

        `leaving`: what is open is left in good order now. It counts as left, too, while the model server is away, since
        then no answer to it kills the worker. What earlier attempts left stays noted until it is committed.
        """
        left = dict(self._left)
        if leaving or self.server_away:
            left |= {number: self._me.attempt for number, shard in self.open.items() if shard.opened}
        kept = sum(self._kept.values(), start=ProgressCounts()) if self._kept is not None else None
        return WorkerState(self._me.run, self._me.index, self._shards_completed, self._committed, left, kept)

    def report(self) -> Progress:
        """Counts by now."""
        totals = self._committed
        for shard in self.open.values():
            totals = add_totals(totals, shard.worked)
        return Progress(
            index=self._me.index,
            run=self._me.run,
            completed=totals.completed,
            failed=totals.failed,
            shards_completed=self._shards_completed,
            shards_active=len(self.open),
            usage=usage_status(totals.usage),
            finish_reasons=totals.finish_reasons,
            concurrency=self._gate.limit.limit,
            **_server(self._gate),
        )


def _server(gate: Gate) -> dict[str, Any]:
    outage = gate.outage
    if outage is None:
        return {}
    return {
        "server_available": False,
        "server_reason": outage.reason,
        "server_since": outage.since,
        "server_message": outage.message,
    }


def usage_status(usage: Usage) -> status.Usage:
    """Token counts as the status has them."""
    return status.Usage(**{name: getattr(usage, name) for name in Usage.__struct_fields__})

"""The sweep over all BatchJobs: those whose time is over are deleted, whatever becomes of one of them."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from batchwright.controller.health import Health
from batchwright.controller.loop import Loops
from batchwright.controller.settings import Settings
from batchwright.controller.sweeper import Sweeper
from batchwright.kube import errors
from batchwright.kube.batchjobs import BatchJobs
from builders import NOW, ago
from fixtures.kubernetes_api import RAW


class Calls:
    """The loops, as far as the sweeper knows them: calls are made at once."""

    active = frozenset[str]()

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


class Cluster:
    """BatchJobs that have finished; deleting one may fail."""

    def __init__(self, **ttls: int) -> None:
        self.found = {name: finished(name, ttl) for name, ttl in ttls.items()}
        self.fails: dict[str, errors.KubernetesError] = {}
        self.asked: list[str] = []

    def list(self) -> list[dict[str, Any]]:
        return [*self.found.values()]

    def delete(self, namespace: str, name: str, uid: str) -> None:
        assert (namespace, uid) == ("demo", f"uid-{name}")
        self.asked.append(name)
        if name in self.fails:
            raise self.fails[name]
        del self.found[name]


def finished(name: str, ttl: int) -> dict[str, Any]:
    ended = {
        "type": "Complete",
        "status": "True",
        "reason": "Completed",
        "message": "",
        "lastTransitionTime": ago(minutes=1).isoformat(),
        "observedGeneration": 1,
    }
    metadata = RAW["metadata"] | {"name": name, "uid": f"uid-{name}", "namespace": "demo"}
    spec = RAW["spec"] | {"ttlSecondsAfterFinished": ttl}
    return RAW | {"metadata": metadata, "spec": spec, "status": {"phase": "completed", "conditions": [ended]}}


def sweeper(cluster: Cluster) -> Sweeper:
    loops, batchjobs = cast("Loops", Calls()), cast("BatchJobs", cluster)
    return Sweeper(batchjobs, loops, Health(60), Settings(resync_interval=timedelta(hours=1)), clock=lambda: NOW)


def sweep(tried: Sweeper) -> None:
    async def once() -> None:
        await tried.sweep()
        await tried.delete_due()

    asyncio.run(once())


def test_those_whose_time_is_over_are_deleted_and_no_others() -> None:
    cluster = Cluster(over=60, later=61)
    sweep(sweeper(cluster))
    assert [*cluster.found] == ["later"]


@pytest.mark.parametrize("status", [403, 500], ids=["refused", "its webhook can't be called"])
def test_one_that_may_not_be_deleted_holds_up_no_other_and_is_tried_at_the_next_sweep(status: int) -> None:
    cluster = Cluster(kept=1, free=1)
    cluster.fails["kept"] = errors.error_of(status, b"a policy keeps it")
    tried = sweeper(cluster)
    sweep(tried)
    assert [*cluster.found] == ["kept"]
    asyncio.run(tried.delete_due())
    assert cluster.asked.count("kept") == 1
    sweep(tried)
    assert cluster.asked.count("kept") == 2


def test_without_an_api_server_nothing_is_tried_until_the_next_sweep() -> None:
    cluster = Cluster(one=1, two=1)
    cluster.fails = dict.fromkeys(("one", "two"), errors.Unavailable("no answer"))
    tried = sweeper(cluster)

    async def run() -> None:
        running = asyncio.create_task(tried.run())
        await asyncio.sleep(1.5)  # longer than the shortest pause
        running.cancel()

    asyncio.run(run())
    assert cluster.asked == ["one"]

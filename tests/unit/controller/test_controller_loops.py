"""The loops of the BatchJobs, and whether they live."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from batchwright.api.status import BatchJobStatus, RequestCounts
from batchwright.controller import metrics
from batchwright.controller.apply import Applier
from batchwright.controller.core import new_status
from batchwright.controller.gather import Gatherer
from batchwright.controller.health import Health
from batchwright.controller.loop import Loops
from batchwright.controller.memory import Memory
from batchwright.controller.poll import Poller
from batchwright.controller.settings import Settings
from batchwright.kube import errors
from builders import IDENTITY, NOW
from fixtures.kubernetes_api import RAW, Api, raw_child


class TestHealth:
    def health(self) -> tuple[Health, list[float]]:
        clock = [1000.0]
        return Health(60, clock=lambda: clock[0]), clock

    def test_a_loop_that_does_not_come_back_is_a_problem(self) -> None:
        health, clock = self.health()
        health.swept([], [])
        health.loop_waits("u", 60)
        clock[0] += 230
        assert health.problem() is None
        clock[0] += 20
        assert "loops hang" in (health.problem() or "")
        health.loop_ended("u")
        assert health.problem() is None

    def test_active_batchjobs_without_a_loop_are_a_problem(self) -> None:
        health, _ = self.health()
        for _ in range(2):
            health.swept(["u"], [])
        assert health.problem() is None
        health.swept(["u"], [])
        assert "watch is dead" in (health.problem() or "")
        health.swept(["u"], ["u"])
        assert health.problem() is None

    def test_it_is_ready_while_the_api_answers(self) -> None:
        health, clock = self.health()
        assert not health.ready()
        health.swept([], [])
        assert health.ready()
        clock[0] += 200
        assert not health.ready()
        assert health.problem() is None
        clock[0] += 400
        assert "could not be listed" in (health.problem() or "")

    def test_who_waits_for_the_lease_is_well_while_it_can_read_it(self) -> None:
        health, clock = self.health()
        health.waits_for_lease()
        assert not health.ready()
        health.looked()
        assert health.ready()
        clock[0] += 70
        assert not health.ready()
        assert health.problem() is None
        clock[0] += 420
        assert "Lease could not be read" in (health.problem() or "")
        health.looked()
        assert health.problem() is None

    def test_who_got_the_lease_has_as_long_as_at_the_start_and_stays_ready(self) -> None:
        health, clock = self.health()
        health.waits_for_lease()
        clock[0] += 10_000
        health.looked()
        health.works()
        assert health.ready()
        assert health.problem() is None
        clock[0] += 500
        assert "could not be listed" in (health.problem() or "")
        health.swept([], [])
        assert health.ready()


class Stop:
    """A flag that a loop ends on."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def is_set(self) -> bool:
        return self.event.is_set()

    def wait(self) -> Any:
        return self.event.wait()


class TestLoop:
    def loops(self, api: Any) -> Loops:
        settings = Settings(concurrency=2)
        return Loops(
            gatherer=Gatherer(api, api, settings),
            applier=Applier(api, api),
            events=api,
            poller=Poller(settings),
            health=Health(60),
            settings=settings,
            cluster="c",
        )

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def test_a_new_batchjob_gets_its_children_and_its_status(self) -> None:
        api = Api(patch_status=RAW)
        loops, stop = self.loops(api), Stop()
        task = asyncio.create_task(loops.run("demo", "nightly", IDENTITY.uid, stop))
        await self.until(lambda: api.called("patch_status"))
        assert api.called("create_config_map")
        assert api.called("create_job")
        assert loops.active == {IDENTITY.uid}
        stop.event.set()
        await task
        assert loops.active == frozenset()
        loops.close()

    @pytest.mark.parametrize(
        "error", [errors.Unavailable("no answer"), errors.Refused("forbidden", status=403), KeyError("a bug")]
    )
    async def test_whatever_goes_wrong_is_tried_again(self, error: Exception) -> None:
        api = Api(get=error, patch_status=RAW)
        loops, stop = self.loops(api), Stop()
        failed = metrics.RECONCILE_ERRORS._value.get()
        task = asyncio.create_task(loops.run("demo", "nightly", IDENTITY.uid, stop))
        await self.until(lambda: metrics.RECONCILE_ERRORS._value.get() > failed)
        api.answers["get"] = RAW
        loops.wake(IDENTITY.uid)
        await self.until(lambda: api.called("patch_status"))
        stop.event.set()
        await task
        loops.close()

    async def test_a_status_is_written_over_the_version_that_was_read(self) -> None:
        """Each write makes a new version: the next one, from the same reading, goes over that."""
        versions = [{**RAW, "metadata": {**RAW["metadata"], "resourceVersion": version}} for version in ("7", "8")]
        api = Api(get=versions[0], patch_status=versions[1])
        loops, memory = self.loops(api), Memory()
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        api.answers["get"] = versions[1]
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        assert [version for _, _, _, version, _ in api.called("patch_status")] == ["7", "8"]
        loops.close()

    async def test_everything_is_read_anew_at_the_resync_interval(self) -> None:
        clock = [NOW]
        run = {"batchwright.dev/stage": "run", "batchwright.dev/run": "1"}
        started = {"name": "worker", "state": {"running": {"startedAt": NOW.isoformat()}}}
        status = new_status.as_written(BatchJobStatus(fingerprint="f", request_counts=RequestCounts(total=1)))
        api = Api(
            get={**RAW, "status": status},
            patch_status={**RAW, "status": status},
            jobs=[raw_child("job", NOW, metadata={"uid": "uid-job", "labels": run})],
            pods=[
                raw_child(
                    "pod",
                    NOW,
                    metadata={"labels": run},
                    status={"phase": "Running", "containerStatuses": [started]},
                )
            ],
        )
        loops = self.loops(api)
        loops._clock = lambda: clock[0]
        memory = Memory()
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        ((_, _, manifest),) = api.called("create_config_map")
        api.answers["config_map"] = {**manifest, "metadata": {**manifest["metadata"], "uid": "c"}}
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        settled = len(api.called("jobs"))
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        assert len(api.called("jobs")) == settled
        clock[0] += timedelta(minutes=1)
        await loops._guarded_pass("demo", "nightly", IDENTITY.uid, memory)
        assert len(api.called("jobs")) == settled + 1
        loops.close()

    async def test_a_loop_that_hangs_in_its_first_pass_is_a_problem(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [1000.0]
        loops, stop, entered = self.loops(Api()), Stop(), asyncio.Event()
        health = loops._health = Health(60, clock=lambda: clock[0])
        health.swept([], [])

        async def hang(*_: Any) -> float:
            entered.set()
            await asyncio.Event().wait()
            return 0

        monkeypatch.setattr(loops, "_guarded_pass", hang)
        task = asyncio.create_task(loops.run("demo", "nightly", IDENTITY.uid, stop))
        await asyncio.wait_for(entered.wait(), 20)
        assert health.problem() is None
        clock[0] += 200
        assert "loops hang" in (health.problem() or "")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert health.problem() is None
        loops.close()

    async def test_only_a_change_of_the_spec_wakes_the_loop(self) -> None:
        api = Api(patch_status=RAW)
        loops, stop = self.loops(api), Stop()
        task = asyncio.create_task(loops.run("demo", "nightly", IDENTITY.uid, stop))
        await self.until(lambda: api.called("patch_status"))
        memory = loops._memories[IDENTITY.uid]
        loops.wake_for_spec(IDENTITY.uid, 1, deleting=False)
        assert not memory.wake.is_set()
        loops.wake_for_spec(IDENTITY.uid, 2, deleting=False)
        assert memory.wake.is_set()
        stop.event.set()
        await task
        loops.close()

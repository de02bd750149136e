"""What a kill hits, who loses something by it, and when that works again."""

import pytest

from chaos.observation import Pod, Snapshot
from chaos.script import Target
from chaos.victims import Victim, find_victim, losers, works_again
from fixtures.chaos import job, kill, pod, script, seen

OPERATOR = pod("operator", Target.OPERATOR)
STORAGE, SERVER = pod("s3", Target.STORAGE), pod("server", Target.MODEL_SERVER)
FIRST, SECOND = pod("job-0"), pod("job-1", index="1")
FAR = pod("job-2", index="2", node="node-2")
ALL = (STORAGE, SERVER, OPERATOR, SECOND, FIRST, FAR)


def names(victim: Victim | None) -> tuple[str, ...]:
    return tuple(sorted(one.name for one in victim.pods)) if victim else ()


@pytest.mark.parametrize(
    ("target", "draw", "hit"),
    [
        (Target.OPERATOR, 0.9, ("operator",)),
        (Target.STORAGE, 0.0, ("s3",)),
        (Target.MODEL_SERVER, 0.0, ("server",)),
        (Target.WORKER, 0.0, ("job-0",)),
        (Target.WORKER, 0.5, ("job-1",)),
        (Target.WORKER, 0.99, ("job-2",)),
        (Target.NODE, 0.99, ("job-2",)),
    ],
)
def test_the_draw_decides_among_pods_of_the_kind(target: Target, draw: float, hit: tuple[str, ...]) -> None:
    assert names(find_victim(kill(target, draw=draw), seen(*ALL))) == hit


@pytest.mark.parametrize(
    "there",
    [
        (),
        (OPERATOR,),
        (pod(running=False),),
        (pod(container=""),),
    ],
)
def test_there_may_be_nothing_to_kill(there: tuple[Pod, ...]) -> None:
    assert find_victim(kill(Target.WORKER), seen(*there)) is None


def test_the_nodes_of_storage_and_model_server_are_spared() -> None:
    assert find_victim(kill(Target.NODE), seen(STORAGE, SERVER, FIRST, SECOND)) is None


def test_a_worker_is_killed_twice_at_most() -> None:
    assert names(find_victim(kill(), seen(FIRST, SECOND), [FIRST.role, SECOND.role, FIRST.role])) == ("job-1",)


def test_the_api_server_is_always_there() -> None:
    assert find_victim(kill(Target.API_SERVER), seen()) is not None


@pytest.mark.parametrize(
    ("target", "pods", "loses"),
    [
        (Target.WORKER, (FIRST,), {"job": 1}),
        (Target.WORKER, (pod(stage="plan", index=""),), {}),
        (
            Target.NODE,
            (FIRST, SECOND, pod(job="other"), OPERATOR, pod(stage="merge", index="")),
            {"job": 2, "other": 1},
        ),
        (Target.MODEL_SERVER, (SERVER,), {"job": 2}),
        (Target.STORAGE, (STORAGE,), {}),
        (Target.OPERATOR, (OPERATOR,), {}),
        (Target.API_SERVER, (), {}),
    ],
)
def test_workers_of_the_run_lose_something(target: Target, pods: tuple[Pod, ...], loses: dict[str, int]) -> None:
    there = seen(*pods, jobs=[job(), job("ended", "completed")])
    scripts = [script(), script(name="ended"), script(name="to-come")]
    assert losers(kill(target), Victim("it", pods), there, scripts) == loses


AGAIN = pod("job-0-again", container="another")
RUNNING = job()


@pytest.mark.parametrize(
    ("now", "again"),
    [
        (seen(FIRST, jobs=[RUNNING]), False),
        (seen(jobs=[RUNNING]), False),
        (seen(pod("job-0-again", container="another", ready=False), jobs=[RUNNING]), False),
        (seen(pod("job-1-again", container="another", index="1"), jobs=[RUNNING]), False),
        (seen(AGAIN, jobs=[RUNNING]), True),
        (seen(jobs=[]), None),
        (seen(jobs=[job(phase="finalizing")]), None),
        (seen(jobs=[job(suspended=True)]), None),
        (seen(jobs=[job(deleting=True)]), None),
    ],
)
def test_a_worker_works_again_when_another_pod_of_its_index_is_ready(now: Snapshot, again: bool | None) -> None:
    assert works_again(kill(Target.WORKER), Victim("it", (FIRST,)), now) is again


def test_a_node_is_made_up_for_when_all_its_workers_are_elsewhere() -> None:
    lost = Victim("node-2", (FIRST, SECOND, OPERATOR), "node-2")
    assert works_again(kill(Target.NODE), lost, seen(AGAIN, jobs=[RUNNING])) is False
    other = pod("job-1-again", container="yet another", index="1")
    assert works_again(kill(Target.NODE), lost, seen(AGAIN, other, jobs=[RUNNING])) is True


def test_a_container_that_was_killed_works_again_when_another_one_is_ready() -> None:
    stricken = Victim("s3", (STORAGE,))
    restarted = pod("s3", Target.STORAGE, container="another")
    assert works_again(kill(Target.STORAGE), stricken, seen(STORAGE)) is False
    assert works_again(kill(Target.STORAGE), stricken, seen(restarted)) is True

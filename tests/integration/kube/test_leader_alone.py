"""A leader and an API server that does not answer, or whose answers are lost, over real HTTP."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchwright.election.candidate import Timing
from batchwright.election.leadership import LOST_EXIT_CODE
from fixtures.candidates import PATIENCE, Candidate, kubeconfig_for
from fixtures.cluster import eventually
from fixtures.kubernetes_http import Answer, Fault, Hang, HttpApi, LoseAnswer, Refuse

TIMING = Timing(duration=5, renew_deadline=3, retry_period=0.2)
UNHURRIED = Timing(duration=60, renew_deadline=40, retry_period=0.2)
"""For failures that must not be its end, however busy the machine is."""
FOR_EVER = 10_000


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with HttpApi() as api:
        yield api


@pytest.fixture
def timing() -> Timing:
    return TIMING


@pytest.fixture
def leader(api: HttpApi, timing: Timing, tmp_path: Path) -> Iterator[Candidate]:
    """A process that leads."""
    candidate = Candidate.start(kubeconfig_for(api, tmp_path), "system", "lease", timing, tmp_path / "led")
    try:
        candidate.wait_until_it_leads()
        yield candidate
    finally:
        candidate.kill()


@pytest.mark.parametrize("fault", [Hang(), Answer(403, "Forbidden")])
def test_a_leader_that_can_not_renew_ends_itself(api: HttpApi, leader: Candidate, fault: Fault) -> None:
    for method in ("GET", "PATCH"):
        api.fail(method, "/leases", fault, times=FOR_EVER)
    assert leader.process.wait(PATIENCE) == LOST_EXIT_CODE


@pytest.mark.parametrize("timing", [UNHURRIED])
def test_a_few_failures_and_lost_answers_end_nobody(api: HttpApi, leader: Candidate) -> None:
    for fault in (Answer(503, "ServiceUnavailable"), LoseAnswer(), Answer(409, "Conflict"), Refuse()):
        api.fail("PATCH", "/leases", fault)
    eventually(lambda: _renewed(api, 8), seconds=PATIENCE)
    leader.wait_until_it_leads()
    assert leader.end(signal.SIGTERM) == 0
    (lease,) = api.objects.values()
    assert not lease["spec"].get("holderIdentity")


def _renewed(api: HttpApi, times: int) -> None:
    assert len(api.called("PATCH", "/leases")) > times

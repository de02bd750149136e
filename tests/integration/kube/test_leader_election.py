"""The election against a real API server: processes that are stopped, killed and frozen. They never lead together."""

import signal
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from batchwright.election.candidate import Timing
from batchwright.election.leadership import LOST_EXIT_CODE
from batchwright.election.lease import Lease, parse_lease
from batchwright.kube import errors
from batchwright.kube.connection import Connection
from batchwright.kube.leases import LeaseObject
from fixtures.candidates import PATIENCE, Candidate
from fixtures.cluster import Cluster

pytestmark = pytest.mark.cluster

SHORT = Timing(duration=5, renew_deadline=3, retry_period=0.5)
LONG = Timing(duration=300, renew_deadline=200, retry_period=0.5)
"""Nobody waits for the end of that: a takeover within a test's patience comes from a Lease that was given back."""
SPEC = {"holderIdentity": "me", "leaseDurationSeconds": 15}


@dataclass
class Election:
    """One Lease and its candidates."""

    cluster: Cluster
    namespace: str
    folder: Path
    name: str = field(default_factory=lambda: f"lease-{uuid.uuid4().hex[:8]}")
    candidates: list[Candidate] = field(default_factory=list)

    def join(self, timing: Timing) -> Candidate:
        output = self.folder / str(len(self.candidates))
        candidate = Candidate.start(self.cluster.kubeconfig, self.namespace, self.name, timing, output)
        self.candidates.append(candidate)
        return candidate

    def lease(self) -> Lease:
        raw = LeaseObject(Connection(self.cluster.api_client), self.namespace, self.name).read()
        assert raw is not None
        return parse_lease(raw)

    def assert_one_after_the_other(self) -> None:
        terms = sorted((min(led), max(led)) for candidate in self.candidates if (led := candidate.led_at()))
        for (_, ended), (began, _) in pairwise(terms):
            assert ended < began


@pytest.fixture
def election(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Election]:
    election = Election(cluster, namespace, tmp_path)
    yield election
    for candidate in election.candidates:
        candidate.kill()


def test_a_leader_that_is_stopped_gives_the_lease_back_and_another_follows(election: Election) -> None:
    first = election.join(LONG)
    first.wait_until_it_leads()
    second = election.join(LONG)
    assert first.end(signal.SIGTERM) == 0
    second.wait_until_it_leads()
    assert second.end(signal.SIGTERM) == 0
    election.assert_one_after_the_other()
    assert (election.lease().holder, election.lease().transitions) == ("", 1)


def test_a_leader_that_is_killed_or_frozen_is_followed_and_a_frozen_one_does_not_go_on(election: Election) -> None:
    first = election.join(SHORT)
    first.wait_until_it_leads()
    second = election.join(SHORT)
    first.send(signal.SIGSTOP)
    second.wait_until_it_leads()
    third = election.join(SHORT)
    assert first.end(signal.SIGCONT) == LOST_EXIT_CODE
    second.end(signal.SIGKILL)
    third.wait_until_it_leads()
    election.assert_one_after_the_other()


def test_a_lease_that_somebody_took_by_force_ends_the_leader(election: Election) -> None:
    first = election.join(LONG)
    first.wait_until_it_leads()
    election.cluster.kubectl(
        *("--namespace", election.namespace, "patch", "lease", election.name, "--type=merge"),
        '--patch={"spec": {"holderIdentity": "somebody"}}',
    )
    assert first.process.wait(PATIENCE) == LOST_EXIT_CODE


class TestStore:
    """What the rules count on, from the API server itself."""

    @pytest.fixture
    def store(self, election: Election) -> LeaseObject:
        return LeaseObject(Connection(election.cluster.api_client), election.namespace, election.name)

    def test_it_is_created_once(self, store: LeaseObject) -> None:
        store.create(SPEC)
        with pytest.raises(errors.AlreadyExists):
            store.create(SPEC)

    def test_a_version_is_replaced_once(self, store: LeaseObject) -> None:
        version = parse_lease(store.create(SPEC)).version
        after = parse_lease(store.replace(version, {"holderIdentity": None})).version
        assert after != version
        for spec in (SPEC, {"holderIdentity": "other"}):
            with pytest.raises(errors.Conflict):
                store.replace(version, spec)
        assert parse_lease(store.read() or {}).holder == ""

    @pytest.mark.parametrize("act", ["replace", "create"])
    def test_what_is_not_there_is_said(self, store: LeaseObject, act: str) -> None:
        calls: dict[str, Callable[[], object]] = {
            "replace": lambda: store.replace("1", SPEC),
            "create": lambda: LeaseObject(store._connection, "no-such-namespace", store.name).create(SPEC),
        }
        with pytest.raises(errors.NotFound):
            calls[act]()

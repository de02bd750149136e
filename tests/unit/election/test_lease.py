"""The Lease as it is read and written."""

from datetime import UTC, datetime

import pytest

from batchwright.election.lease import Lease, parse_lease, written

NOW = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)


def raw(**spec: object) -> dict[str, object]:
    return {"metadata": {"resourceVersion": "7"}, "spec": spec}


@pytest.mark.parametrize(
    ("lease", "read"),
    [
        (
            raw(holderIdentity="a", leaseDurationSeconds=15, leaseTransitions=2, acquireTime="t", renewTime="u"),
            Lease("a", 15, 2, "t", "7"),
        ),
        (raw(leaseDurationSeconds=1), Lease("", 1, version="7")),
        (raw(holderIdentity=None), Lease("", version="7")),
        ({"metadata": {"resourceVersion": "7"}}, Lease("", version="7")),
    ],
)
def test_a_lease_is_read_whoever_wrote_it(lease: dict[str, object], read: Lease) -> None:
    assert parse_lease(lease) == read


def test_a_claim_is_written_with_its_time() -> None:
    assert written(Lease("a", 15, 2), NOW) == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 2,
        "acquireTime": "2026-03-01T12:00:00.000005Z",
        "renewTime": "2026-03-01T12:00:00.000005Z",
    }


def test_a_renewal_keeps_the_time_of_the_claim() -> None:
    assert written(Lease("a", 15, 2, "then"), NOW)["acquireTime"] == "then"


def test_a_lease_given_back_has_no_holder_and_a_duration_that_the_api_server_takes() -> None:
    spec = written(Lease("", 0, 2), NOW)
    assert spec["holderIdentity"] is None
    assert spec["leaseDurationSeconds"] == 1

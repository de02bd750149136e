"""How often a tenant may ask."""

import pytest

from batchwright.gateway.errors import ApiError
from batchwright.gateway.identity.rate import RateLimits
from batchwright.gateway.principal import Principal
from batchwright.gateway.settings import TenantLimits

ALICE = Principal("alice", "team-a")
BOB = Principal("bob", "team-b")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def limits_of(clock: Clock, *, per_minute: int | None, burst: int | None = None, tenants: int = 10) -> RateLimits:
    limits = TenantLimits(requests_per_minute=per_minute, burst=burst)
    return RateLimits(lambda _: limits, clock=clock, tenants=tenants)


def taken(limits: RateLimits, principal: Principal, most: int) -> int:
    """How many requests of `most` go through."""
    for count in range(most):
        try:
            limits.check(principal)
        except ApiError:
            return count
    return most


def test_a_burst_goes_through_and_then_so_many_a_minute() -> None:
    clock = Clock()
    limits = limits_of(clock, per_minute=60, burst=5)
    assert taken(limits, ALICE, 100) == 5
    clock.now = 3
    assert taken(limits, ALICE, 100) == 3
    clock.now = 3600
    assert taken(limits, ALICE, 100) == 5


def test_the_burst_is_a_minutes_requests_where_none_is_named() -> None:
    assert taken(limits_of(Clock(), per_minute=30), ALICE, 100) == 30


def test_too_many_is_429_and_says_when_to_come_again() -> None:
    clock = Clock()
    limits = limits_of(clock, per_minute=20, burst=1)
    limits.check(ALICE)
    clock.now = 0.5
    with pytest.raises(ApiError) as error:
        limits.check(ALICE)
    assert (error.value.status, error.value.code, error.value.kind) == (429, "rate_limit_exceeded", "rate_limit_error")
    assert error.value.headers == {"retry-after": "3"}
    assert "20 requests a minute" in error.value.message
    clock.now += 3
    limits.check(ALICE)


def test_tenants_do_not_use_up_each_others_requests() -> None:
    limits = limits_of(Clock(), per_minute=1, burst=1)
    limits.check(ALICE)
    limits.check(BOB)


def test_users_of_one_tenant_share_its_requests() -> None:
    limits = limits_of(Clock(), per_minute=1, burst=1)
    limits.check(ALICE)
    with pytest.raises(ApiError):
        limits.check(Principal("carol", "team-a"))


def test_without_a_limit_nothing_is_counted() -> None:
    assert taken(limits_of(Clock(), per_minute=None), ALICE, 1000) == 1000


def test_an_administrator_who_chose_no_namespace_has_no_limit() -> None:
    assert taken(limits_of(Clock(), per_minute=1, burst=1), Principal("root", None, admin=True), 100) == 100


def test_of_too_many_tenants_the_one_that_asked_longest_ago_is_forgotten() -> None:
    limits = limits_of(Clock(), per_minute=1, burst=1, tenants=2)
    third = Principal("dan", "team-d")
    for principal in (ALICE, BOB, third):
        limits.check(principal)
    assert taken(limits, BOB, 1) == 0
    assert taken(limits, ALICE, 1) == 1

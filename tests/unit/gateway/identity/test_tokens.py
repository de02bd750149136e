"""Kubernetes tokens: how often the API server is asked, and what is kept of them."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import FrameType

import pytest

from batchwright.gateway.errors import ApiError
from batchwright.gateway.identity import tokens
from batchwright.gateway.identity.tokens import (
    ACCOUNT_AT_ONCE,
    OWNER_SECONDS,
    REFUSAL_SECONDS,
    REMEMBERED_SECONDS,
    RIGHT_SECONDS,
    RIGHTS_AT_ONCE,
    STRANGERS_AT_ONCE,
    STRANGERS_PER_SECOND,
    Tokens,
    own_namespace,
)
from batchwright.kube.access_reviews import TokenOwner
from batchwright.kube.errors import Unavailable
from fixtures.tokens import jwt

TOKEN, OTHER = jwt("alice"), jwt("bob")
ALICE = TokenOwner("alice", "u1", ("staff",))
BOB = TokenOwner("bob", "u2")


class Reviews:
    """An API server that knows who is let in; notes what it was asked."""

    def __init__(self, owners: dict[str, TokenOwner] | None = None) -> None:
        self.owners = dict(owners or {})
        self.allowed: set[tuple[str, str, str]] = set()
        self.asked: list[tuple[str, ...]] = []
        self.away = False

    def owner(self, token: str) -> TokenOwner | None:
        self._ask("owner")
        return self.owners.get(token)

    def allows(self, owner: TokenOwner, verb: str, namespace: str) -> bool:
        self._ask(owner.username, verb, namespace)
        return (owner.username, verb, namespace) in self.allowed

    def _ask(self, *question: str) -> None:
        self.asked.append(question)
        if self.away:
            raise Unavailable("away")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reviews() -> Reviews:
    return Reviews({TOKEN: ALICE})


def test_whose_a_token_is_is_asked_once_a_minute(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    for clock.now in (0.0, 30.0, OWNER_SECONDS - 0.1):
        assert known.owner(TOKEN) == ALICE
    assert len(reviews.asked) == 1
    reviews.owners.clear()
    clock.now = OWNER_SECONDS
    assert known.owner(TOKEN) is None


def test_an_unknown_token_is_asked_for_again_sooner(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    assert known.owner(OTHER) is None
    clock.now = REFUSAL_SECONDS - 0.1
    reviews.owners[OTHER] = BOB
    assert known.owner(OTHER) is None
    clock.now = REFUSAL_SECONDS
    assert known.owner(OTHER) == BOB
    assert len(reviews.asked) == 2


def test_rights_are_asked_for_once_in_half_a_minute_for_each_verb_and_namespace(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    reviews.allowed = {("alice", "get", "team-a")}
    for clock.now in (0.0, RIGHT_SECONDS - 0.1):
        assert known.allows(ALICE, "get", "team-a")
    assert reviews.asked == [("alice", "get", "team-a")]
    assert not known.allows(ALICE, "delete", "team-a")
    assert not known.allows(ALICE, "get", "team-b")
    assert not known.allows(BOB, "get", "team-a")
    reviews.allowed.clear()
    clock.now = RIGHT_SECONDS
    assert not known.allows(ALICE, "get", "team-a")


def test_who_has_just_been_allowed_waits_ten_seconds_at_most(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    assert not known.allows(ALICE, "create", "team-a")
    reviews.allowed = {("alice", "create", "team-a")}
    clock.now = REFUSAL_SECONDS
    assert known.allows(ALICE, "create", "team-a")


def test_the_same_name_in_other_groups_is_somebody_else(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    known.allows(ALICE, "get", "team-a")
    known.allows(TokenOwner("alice", "u1", ("admins",)), "get", "team-a")
    assert len(reviews.asked) == 2


def test_no_answer_is_kept_as_no_answer(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    reviews.away = True
    with pytest.raises(Unavailable):
        known.owner(TOKEN)
    with pytest.raises(Unavailable):
        known.allows(ALICE, "get", "team-a")
    reviews.away = False
    assert known.owner(TOKEN) == ALICE


def test_made_up_tokens_do_not_push_good_ones_out(
    reviews: Reviews, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "KEPT", 4)
    known = Tokens(reviews, clock=clock)
    known.owner(TOKEN)
    for number in range(20):
        known.owner(jwt(f"made-up-{number}"))
    asked = len(reviews.asked)
    assert known.owner(TOKEN) == ALICE
    assert len(reviews.asked) == asked


def test_a_token_is_not_kept(clock: Clock) -> None:
    known, token = Tokens(Reviews(), clock=clock), jwt(f"secret-{clock.now}")
    known.owner(token)
    assert not [one for one in gc.get_referrers(token) if one is not globals() and not isinstance(one, FrameType)]


def made_up(count: int, known: Tokens) -> int:
    """Send so many tokens that nobody made; how many of them were refused as too many."""
    refusals = []
    for number in range(count):
        try:
            assert known.owner(jwt(f"made-up-{number}")) is None
        except ApiError as error:
            refusals.append((error.status, error.code, error.headers["retry-after"]))
    assert set(refusals) <= {(429, "rate_limit_exceeded", "1")}
    return len(refusals)


def test_a_flood_of_made_up_tokens_reaches_the_api_server_at_a_bounded_rate(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    assert made_up(1000, known) == 1000 - STRANGERS_AT_ONCE
    assert len(reviews.asked) == STRANGERS_AT_ONCE
    clock.now = 20 * REFUSAL_SECONDS
    assert made_up(1000, known) == 1000 - STRANGERS_AT_ONCE, "what has filled up meanwhile is no more than at first"
    clock.now += 1
    assert made_up(1000, known) == 1000 - STRANGERS_AT_ONCE - STRANGERS_PER_SECOND


def test_in_a_flood_a_token_that_was_let_in_before_is_asked_about_first(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    assert known.owner(TOKEN) == ALICE
    made_up(1000, known)
    for clock.now in (OWNER_SECONDS, 2 * OWNER_SECONDS):
        made_up(1000, known)
        for number in range(2 * int(ACCOUNT_AT_ONCE)):
            with suppress(ApiError):
                known.owner(jwt("alice", signature=f"forged-{number}"))
        asked = len(reviews.asked)
        assert known.owner(TOKEN) == ALICE
        assert len(reviews.asked) == asked + 1, "it was asked about anew"


def test_in_a_flood_a_new_token_of_an_account_that_was_let_in_before_is_asked_about(
    reviews: Reviews, clock: Clock
) -> None:
    known = Tokens(reviews, clock=clock)
    known.owner(TOKEN)
    made_up(1000, known)
    renewed = [jwt("alice", jti=str(number)) for number in range(int(ACCOUNT_AT_ONCE) + 1)]
    reviews.owners |= dict.fromkeys(renewed, ALICE)
    assert {known.owner(token) for token in renewed[:-1]} == {ALICE}
    with pytest.raises(ApiError, match="doesn't know yet"):
        known.owner(renewed[-1])


@pytest.mark.parametrize(
    "token",
    [jwt("bob"), jwt("alice", iss="https://elsewhere"), jwt("alice", iss=None), jwt("", iss=None)],
    ids=["another account", "the name at another issuer", "the name alone", "nobody"],
)
def test_in_a_flood_an_account_that_was_never_let_in_waits(reviews: Reviews, clock: Clock, token: str) -> None:
    known = Tokens(reviews, clock=clock)
    known.owner(TOKEN)
    made_up(1000, known)
    with pytest.raises(ApiError, match="doesn't know yet"):
        known.owner(token)
    clock.now = 1 / STRANGERS_PER_SECOND
    reviews.owners[token] = BOB
    assert known.owner(token) == BOB


def test_a_claim_to_be_an_account_opens_nothing(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    known.owner(TOKEN)
    assert known.owner(jwt("alice", signature="forged")) is None


def test_who_was_let_in_a_day_ago_is_a_stranger_again(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    known.owner(TOKEN)
    clock.now = REMEMBERED_SECONDS
    made_up(1000, known)
    with pytest.raises(ApiError, match="doesn't know yet"):
        known.owner(TOKEN)


def test_many_requests_with_one_new_token_are_one_question(reviews: Reviews, clock: Clock) -> None:
    known, begun, second = Tokens(reviews, clock=clock), threading.Barrier(100), threading.Event()
    answer = reviews.owner

    def slow(token: str) -> TokenOwner | None:
        if reviews.asked:
            second.set()
        found = answer(token)
        second.wait(0.3)  # whoever isn't held has come by then
        return found

    def ask() -> TokenOwner | None:
        begun.wait(30)
        return known.owner(TOKEN)

    reviews.owner = slow  # type: ignore[method-assign]
    with ThreadPoolExecutor(100) as threads:
        asking = [threads.submit(ask) for _ in range(100)]
        assert {one.result(30) for one in asking} == {ALICE}
    assert len(reviews.asked) == 1


def test_an_answer_that_takes_long_holds_nobody_else(reviews: Reviews, clock: Clock) -> None:
    known, asked, over = Tokens(reviews, clock=clock), threading.Event(), threading.Event()
    answer = reviews.owner

    def slow(token: str) -> TokenOwner | None:
        if token == OTHER:
            asked.set()
            over.wait(30)
        return answer(token)

    reviews.owner = slow  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as threads:
        hanging = threads.submit(known.owner, OTHER)
        assert asked.wait(30)
        assert known.owner(TOKEN) == ALICE
        over.set()
        assert hanging.result(30) is None


def test_who_may_come_in_cannot_flood_the_api_server_with_namespaces(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    reviews.allowed = {("alice", "get", "team-a"), ("bob", "get", "team-a")}
    assert known.allows(ALICE, "get", "team-a")
    for number in range(int(RIGHTS_AT_ONCE) - 1):
        assert not known.allows(ALICE, "get", f"made-up-{number}")
    with pytest.raises(ApiError) as error:
        known.allows(ALICE, "get", "made-up")
    assert error.value.status == 429
    assert known.allows(ALICE, "get", "team-a")
    assert known.allows(BOB, "get", "team-a")


OWN = {
    "system:serviceaccount:team-a:default": "team-a",
    "system:serviceaccount:team-a": None,
    "system:serviceaccount:team-a:x:y": None,
    "system:node:team-a": None,
    "alice": None,
    "x:system:serviceaccount:team-a:default": None,
}


@pytest.mark.parametrize(("username", "expected"), OWN.items())
def test_a_service_account_has_a_namespace_of_its_own(username: str, expected: str | None) -> None:
    assert own_namespace(TokenOwner(username)) == expected

"""Kubernetes tokens: how often the API server is asked, and what is kept of them."""

import gc
from types import FrameType

import pytest

from batchwright.gateway.identity import tokens
from batchwright.gateway.identity.tokens import (
    OWNER_SECONDS,
    REFUSAL_SECONDS,
    RIGHT_SECONDS,
    Tokens,
    looks_like_jwt,
    own_namespace,
)
from batchwright.kube.access_reviews import TokenOwner
from batchwright.kube.errors import Unavailable

TOKEN = "header.claims.signature-" + "x" * 20
ALICE = TokenOwner("alice", "u1", ("staff",))
BOB = TokenOwner("bob", "u2")


class Reviews:
    """An API server that knows who is let in; notes what it was asked."""

    def __init__(self, **owners: TokenOwner) -> None:
        self.owners = {name.replace("_", "."): owner for name, owner in owners.items()}
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
    return Reviews(a_b_c=ALICE)


def test_whose_a_token_is_is_asked_once_a_minute(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    for clock.now in (0.0, 30.0, OWNER_SECONDS - 0.1):
        assert known.owner("a.b.c") == ALICE
    assert len(reviews.asked) == 1
    reviews.owners.clear()
    clock.now = OWNER_SECONDS
    assert known.owner("a.b.c") is None


def test_an_unknown_token_is_asked_for_again_sooner(reviews: Reviews, clock: Clock) -> None:
    known = Tokens(reviews, clock=clock)
    assert known.owner("d.e.f") is None
    clock.now = REFUSAL_SECONDS - 0.1
    reviews.owners["d.e.f"] = BOB
    assert known.owner("d.e.f") is None
    clock.now = REFUSAL_SECONDS
    assert known.owner("d.e.f") == BOB
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
        known.owner("a.b.c")
    with pytest.raises(Unavailable):
        known.allows(ALICE, "get", "team-a")
    reviews.away = False
    assert known.owner("a.b.c") == ALICE


def test_made_up_tokens_do_not_push_good_ones_out(
    reviews: Reviews, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "KEPT", 4)
    known = Tokens(reviews, clock=clock)
    known.owner("a.b.c")
    for number in range(20):
        known.owner(f"made.up.{number}")
    asked = len(reviews.asked)
    assert known.owner("a.b.c") == ALICE
    assert len(reviews.asked) == asked


def test_a_token_is_not_kept(clock: Clock) -> None:
    known, token = Tokens(Reviews(), clock=clock), f"secret.token.{clock.now}"
    known.owner(token)
    assert not [one for one in gc.get_referrers(token) if one is not globals() and not isinstance(one, FrameType)]


FORMS = {
    "a.b.c": True,
    TOKEN: True,
    "": False,
    "sk-1234567890": False,
    "a.b": False,
    "a.b.c.d": False,
    "a..c": False,
    "a.b.c\n": False,
    "a.b c.d": False,
    "é.b.c": False,
    "a.b." + "c" * 20_000: False,
}


@pytest.mark.parametrize(("text", "expected"), FORMS.items(), ids=[form[:20] for form in FORMS])
def test_only_what_looks_like_a_token_is_shown_to_the_api_server(text: str, expected: bool) -> None:
    assert looks_like_jwt(text) is expected


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

"""Tokens of a real cluster: whose they are, and what its rights allow them."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from batchwright.gateway.errors import ApiError
from batchwright.gateway.identity.authentication import KeysAndTokens
from batchwright.gateway.identity.key_ring import SECRET, KeyRing
from batchwright.gateway.identity.tokens import ACCOUNT_AT_ONCE, OWNER_SECONDS, STRANGERS_AT_ONCE, Tokens
from batchwright.gateway.principal import Principal, Verb
from batchwright.kube.access_reviews import AccessReviews, TokenOwner
from batchwright.kube.connection import Connection
from batchwright.kube.secrets import SecretObject
from fixtures.cluster import Cluster
from fixtures.gateway import gateway_on, running_gateway
from fixtures.kubernetes_http import HttpApi
from fixtures.tokens import jwt

pytestmark = pytest.mark.cluster

VERBS: tuple[Verb, ...] = ("get", "list", "create", "patch", "delete")


@dataclass(frozen=True)
class Tenants:
    """Two namespaces. The service account `reader` of the first may read BatchJobs there, and create them in the
    second.
    """

    cluster: Cluster
    own: str
    other: str

    def token(self, *options: str) -> str:
        """A token of `reader`."""
        return self.cluster.kubectl("create", "token", "reader", "--namespace", self.own, *options).strip()


@pytest.fixture(scope="module")
def tenants(cluster: Cluster) -> Iterator[Tenants]:
    own, other = (cluster.make_namespace("test-tokens") for _ in range(2))
    cluster.kubectl("create", "serviceaccount", "reader", "--namespace", own)
    for namespace, verbs in ((own, "get,list"), (other, "create")):
        where = ("--namespace", namespace)
        cluster.kubectl("create", "role", "batches", f"--verb={verbs}", "--resource=batchjobs.batchwright.dev", *where)
        cluster.kubectl("create", "rolebinding", "batches", "--role=batches", f"--serviceaccount={own}:reader", *where)
    yield Tenants(cluster, own, other)
    for namespace in (own, other):
        cluster.delete_namespace(namespace)


@pytest.fixture
def users(tenants: Tenants) -> KeysAndTokens:
    connection = Connection(tenants.cluster.api_client)
    return KeysAndTokens(KeyRing(SecretObject(connection, tenants.own, SECRET)), Tokens(AccessReviews(connection)))


def headers(token: str, project: str | None = None) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", **({"openai-project": project} if project else {})}


def allowed(users: KeysAndTokens, sent: dict[str, str]) -> set[Verb]:
    """The verbs that the sender may do."""
    principal = users.authenticate(sent)
    return {verb for verb in VERBS if _may(users, principal, verb)}


def _may(users: KeysAndTokens, principal: Principal, verb: Verb) -> bool:
    try:
        users.authorize(principal, verb)
    except ApiError:
        return False
    return True


def test_a_service_account_is_known_and_asks_for_its_own_namespace(tenants: Tenants, users: KeysAndTokens) -> None:
    found = users.authenticate(headers(tenants.token()))
    assert found.user == f"system:serviceaccount:{tenants.own}:reader"
    assert (found.namespace, found.admin, found.via) == (tenants.own, False, "token")


def test_it_may_do_what_the_clusters_rights_allow_and_nothing_else(tenants: Tenants, users: KeysAndTokens) -> None:
    token = tenants.token()
    assert allowed(users, headers(token)) == {"get", "list"}
    assert allowed(users, headers(token, tenants.other)) == {"create"}
    assert allowed(users, headers(token, "kube-system")) == set()


def test_rights_that_a_group_has_count(tenants: Tenants, users: KeysAndTokens) -> None:
    group = f"--group=system:serviceaccounts:{tenants.own}"
    where = ("--namespace", tenants.other)
    tenants.cluster.kubectl(
        "create", "role", "deletion", "--verb=delete", "--resource=batchjobs.batchwright.dev", *where
    )
    tenants.cluster.kubectl("create", "rolebinding", "deletion", "--role=deletion", group, *where)
    try:
        assert "delete" in allowed(users, headers(tenants.token(), tenants.other))
    finally:
        tenants.cluster.kubectl("delete", "rolebinding", "deletion", *where)


def test_a_token_for_another_audience_is_not_taken(tenants: Tenants, users: KeysAndTokens) -> None:
    with pytest.raises(ApiError) as error:
        users.authenticate(headers(tenants.token("--audience=somebody-else")))
    assert error.value.status == 401


def test_a_token_that_was_tampered_with_is_not_taken(tenants: Tenants, users: KeysAndTokens) -> None:
    head, claims, signature = tenants.token().split(".")
    for forged in (f"{head}.{claims}.{signature[::-1]}", f"{head}.{claims[:-8]}AAAAAAAA.{signature}"):
        with pytest.raises(ApiError) as error:
            users.authenticate(headers(forged))
        assert error.value.status == 401


class CountedReviews(AccessReviews):
    """Notes how often the API server is asked whose a token is."""

    asked = 0

    def owner(self, token: str) -> TokenOwner | None:
        self.asked += 1
        return super().owner(token)


@dataclass
class Door:
    """A gateway that takes this cluster's tokens, on a clock that stands still unless the test moves it."""

    reviews: CountedReviews
    client: httpx.Client
    now: float = 0.0

    def knock(self, token: str) -> int:
        """The status of a request."""
        return self.client.get("/v1/files", headers=headers(token)).status_code


@contextmanager
def door(tenants: Tenants, folder: Path) -> Iterator[Door]:
    connection = Connection(tenants.cluster.api_client)
    found = Door(CountedReviews(connection), httpx.Client())
    tokens = Tokens(found.reviews, clock=lambda: found.now)
    ring = KeyRing(SecretObject(connection, tenants.own, SECRET))
    with HttpApi() as api:
        (folder / "batches" / tenants.own).mkdir(parents=True)
        gateway = gateway_on(f"file://{folder}/batches/", api, folder)
        with (
            running_gateway(replace(gateway, authenticator=KeysAndTokens(ring, tokens))) as url,
            httpx.Client(base_url=url, timeout=60, trust_env=False) as found.client,
        ):
            yield found


def test_a_flood_of_made_up_tokens_does_not_reach_the_api_server_and_keeps_nobody_out(
    tenants: Tenants, tmp_path: Path
) -> None:
    token, renewed = tenants.token(), tenants.token()
    _, claims, signature = token.split(".")
    account = f"system:serviceaccount:{tenants.own}:reader"
    ended = [jwt(account, exp=1_700_000_000 + number) for number in range(100)]
    no_tokens = [f"{number}.{claims}.{signature}" for number in range(100)]
    made_up = [jwt(f"{account}-{number}") for number in range(300)]
    with door(tenants, tmp_path) as gateway:
        assert gateway.knock(token) == 200

        with ThreadPoolExecutor(8) as threads:
            for kind in (ended, no_tokens):
                assert set(threads.map(gateway.knock, kind)) == {401}
            assert gateway.reviews.asked == 1, "what can be no token is refused here"
            answers = Counter(threads.map(gateway.knock, made_up))
        assert answers == {401: STRANGERS_AT_ONCE - 1, 429: 301 - STRANGERS_AT_ONCE}
        assert gateway.reviews.asked == STRANGERS_AT_ONCE

        assert gateway.knock(token) == 200
        assert gateway.reviews.asked == STRANGERS_AT_ONCE, "it is known yet"
        assert gateway.knock(renewed) == 200, "another token of an account that was let in"
        gateway.now = OWNER_SECONDS
        for stranger in made_up:
            gateway.knock(stranger)
        assert gateway.knock(token) == 200, "it was asked about anew"
        forged = [jwt(account, jti=str(number)) for number in range(100)]
        asked = gateway.reviews.asked
        assert Counter(map(gateway.knock, forged))[401] <= ACCOUNT_AT_ONCE
        assert gateway.reviews.asked <= asked + ACCOUNT_AT_ONCE

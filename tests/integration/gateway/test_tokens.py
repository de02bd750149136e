"""Tokens of a real cluster: whose they are, and what its rights allow them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from batchwright.gateway.errors import ApiError
from batchwright.gateway.identity.authentication import KeysAndTokens
from batchwright.gateway.identity.key_ring import SECRET, KeyRing
from batchwright.gateway.identity.tokens import Tokens
from batchwright.gateway.principal import Principal, Verb
from batchwright.kube.access_reviews import AccessReviews
from batchwright.kube.connection import Connection
from batchwright.kube.secrets import SecretObject
from fixtures.cluster import Cluster

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

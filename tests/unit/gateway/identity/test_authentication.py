"""Who sends a request, for which namespace, and what they may do."""

from datetime import UTC, datetime

import pytest

from batchwright.gateway.errors import ApiError
from batchwright.gateway.identity.api_keys import RANDOM_BYTES, NewKey, encode_entry, new_key
from batchwright.gateway.identity.authentication import KeysAndTokens
from batchwright.gateway.identity.key_ring import KeyRing
from batchwright.gateway.identity.tokens import Tokens
from batchwright.gateway.principal import Principal, Verb
from batchwright.kube.access_reviews import TokenOwner
from batchwright.kube.errors import KubernetesError, Unavailable
from fixtures.tokens import jwt

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ALICE = new_key(bytes(RANDOM_BYTES), namespace="team-a", user="alice", admin=False, now=NOW)
ROOT = new_key(bytes([1] * RANDOM_BYTES), namespace=None, user="root", admin=True, now=NOW)
STRANGER = new_key(bytes([2] * RANDOM_BYTES), namespace="team-a", user="mallory", admin=False, now=NOW)
PERSON, POD = jwt("carol"), jwt("system:serviceaccount:team-b:runner")
VERBS: tuple[Verb, ...] = ("get", "list", "create", "patch", "delete")


class Cluster:
    """The Secret of keys and the API server's judgement in one."""

    def __init__(self) -> None:
        self.error: KubernetesError | None = None
        self.reviewed: list[str] = []

    def read(self) -> dict[str, bytes] | None:
        self._fail()
        return {key.id: encode_entry(key.entry) for key in (ALICE, ROOT)}

    def owner(self, token: str) -> TokenOwner | None:
        self._fail()
        self.reviewed.append(token)
        return {
            PERSON: TokenOwner("carol@example.org", groups=("staff",)),
            POD: TokenOwner("system:serviceaccount:team-b:runner"),
        }.get(token)

    def allows(self, owner: TokenOwner, verb: str, namespace: str) -> bool:
        self._fail()
        return (owner.username, verb, namespace) == ("carol@example.org", "get", "team-c")

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def users(cluster: Cluster) -> KeysAndTokens:
    return KeysAndTokens(KeyRing(cluster), Tokens(cluster))


def headers(secret: str | NewKey | None = None, project: str | None = None) -> dict[str, str]:
    text = secret.text if isinstance(secret, NewKey) else secret
    sent = {"authorization": None if text is None else f"Bearer {text}", "openai-project": project}
    return {name: value for name, value in sent.items() if value is not None}


def refusal(users: KeysAndTokens, sent: dict[str, str]) -> ApiError:
    with pytest.raises(ApiError) as error:
        users.authenticate(sent)
    return error.value


KNOWN = {
    "a key": (headers(ALICE), ("alice", "team-a", False, "api-key")),
    "a key that names its own namespace": (headers(ALICE, "team-a"), ("alice", "team-a", False, "api-key")),
    "a key and an empty namespace": (headers(ALICE, " "), ("alice", "team-a", False, "api-key")),
    "an administrator": (headers(ROOT), ("root", None, True, "api-key")),
    "an administrator who chose": (headers(ROOT, "team-b"), ("root", "team-b", True, "api-key")),
    "a person with a token": (headers(PERSON, "team-c"), ("carol@example.org", "team-c", False, "token")),
    "a service account": (headers(POD), ("system:serviceaccount:team-b:runner", "team-b", False, "token")),
    "a service account elsewhere": (
        headers(POD, "team-c"),
        ("system:serviceaccount:team-b:runner", "team-c", False, "token"),
    ),
}


@pytest.mark.parametrize(("sent", "expected"), KNOWN.values(), ids=list(KNOWN))
def test_who_is_known(users: KeysAndTokens, sent: dict[str, str], expected: tuple[object, ...]) -> None:
    found = users.authenticate(sent)
    assert (found.user, found.namespace, found.admin, found.via) == expected


ODDITIES = ["Bearer {}", "bearer {}", "BEARER {}", "  Bearer   {}  ", "Bearer\t{}"]


@pytest.mark.parametrize("form", ODDITIES)
def test_the_header_is_read_as_clients_write_it(users: KeysAndTokens, form: str) -> None:
    assert users.authenticate({"authorization": form.format(ALICE.text)}).user == "alice"


NOBODY = {
    "no header": {},
    "an empty one": {"authorization": ""},
    "no key": {"authorization": "Bearer "},
    "another scheme": {"authorization": f"Basic {ALICE.text}"},
    "no scheme": {"authorization": ALICE.text},
    "two keys": {"authorization": f"Bearer {ALICE.text} {ALICE.text}"},
    "a key that was never made": headers(STRANGER),
    "another service's key": headers("sk-proj-1234567890"),
    "a token that the cluster doesn't know": headers(jwt("dave")),
    "a token that has ended": headers(jwt("carol", exp=1_700_000_000)),
}


@pytest.mark.parametrize("sent", NOBODY.values(), ids=list(NOBODY))
def test_who_is_unknown_gets_401_and_nothing_of_the_key_is_repeated(users: KeysAndTokens, sent: dict[str, str]) -> None:
    error = refusal(users, sent)
    assert (error.status, error.code) == (401, "invalid_api_key")
    assert error.headers["www-authenticate"] == "Bearer"
    assert STRANGER.text not in error.message


def test_what_is_no_token_never_reaches_the_api_server(users: KeysAndTokens, cluster: Cluster) -> None:
    ended = jwt("carol", exp=1_700_000_000)
    for secret in ("sk-proj-1234567890", ALICE.text, STRANGER.text, "hunter2", "a.b.c", ended):
        with pytest.raises(ApiError):
            users.authenticate(headers(secret, "team-x"))
    assert cluster.reviewed == []


@pytest.mark.parametrize("secret", [ALICE, ROOT, PERSON, POD, None], ids=["key", "admin", "person", "pod", "nobody"])
@pytest.mark.parametrize(
    "project",
    [
        "..",
        "../team-b",
        "team-a/../team-b",
        "team-b%2f..",
        ".gateway",
        "Team-B",
        "team_b",
        "-b",
        "b-",
        "b" * 64,
        "a\nb",
    ],
)
def test_what_can_be_no_namespace_is_refused_before_anything_else(
    users: KeysAndTokens, cluster: Cluster, secret: str | NewKey | None, project: str
) -> None:
    error = refusal(users, headers(secret, project))
    assert (error.status, error.param) == (400, "OpenAI-Project")
    assert cluster.reviewed == []


def test_a_key_is_for_its_own_namespace_alone(users: KeysAndTokens) -> None:
    error = refusal(users, headers(ALICE, "team-b"))
    assert (error.status, error.code) == (403, "permission_denied")
    assert "not yours" in error.message


def test_a_person_with_a_token_must_name_a_namespace(users: KeysAndTokens) -> None:
    error = refusal(users, headers(PERSON))
    assert (error.status, error.param) == (400, "OpenAI-Project")
    assert "`OpenAI-Project`" in error.message


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("sent", [headers(ALICE), headers(ROOT), headers(ROOT, "team-b")])
def test_a_key_allows_everything_where_it_is_for(users: KeysAndTokens, verb: Verb, sent: dict[str, str]) -> None:
    users.authorize(users.authenticate(sent), verb)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("namespace", ["team-b", "team-c"])
def test_a_token_allows_what_the_cluster_allows(users: KeysAndTokens, verb: Verb, namespace: str) -> None:
    person = users.authenticate(headers(PERSON, namespace))
    if (verb, namespace) == ("get", "team-c"):
        users.authorize(person, verb)
        return
    with pytest.raises(ApiError) as error:
        users.authorize(person, verb)
    assert error.value.status == 403
    assert f"may not {verb} batchjobs.batchwright.dev" in error.value.message


def test_an_api_server_that_is_away_is_no_refusal(users: KeysAndTokens, cluster: Cluster) -> None:
    cluster.error = Unavailable("away")
    for secret in (ALICE, PERSON):
        with pytest.raises(Unavailable):
            users.authenticate(headers(secret, "team-a"))
    with pytest.raises(Unavailable):
        users.check()


def test_a_principal_does_not_print_the_owner_of_its_token(users: KeysAndTokens) -> None:
    found: Principal = users.authenticate(headers(PERSON, "team-c"))
    assert "staff" not in repr(found)

"""`batchwright-gateway keys` against a real API server, and the ring that reads what it writes."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchwright.gateway.identity.key_ring import SECRET, KeyRing
from batchwright.kube.connection import Connection
from batchwright.kube.secrets import SecretObject
from fixtures.cluster import Cluster

pytestmark = pytest.mark.cluster
Keys = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def keys(cluster: Cluster, namespace: str) -> Keys:
    """Runs the command as an administrator does, for a gateway in the test's namespace."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "batchwright.gateway.main", "keys", *words, "--gateway-namespace", namespace]
        environment = {"KUBECONFIG": str(cluster.kubeconfig)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def ring(cluster: Cluster, namespace: str) -> Callable[[], KeyRing]:
    """A gateway that has just started."""
    return lambda: KeyRing(SecretObject(Connection(cluster.api_client), namespace, SECRET))


def test_keys_of_administrators_who_make_them_at_once_all_work_until_they_are_revoked(
    cluster: Cluster, namespace: str, keys: Keys, ring: Callable[[], KeyRing]
) -> None:
    assert ring().find("bw-0123456789ab-" + "A" * 43) is None

    users = ["alice", "bob", "carol"]
    with ThreadPoolExecutor(len(users)) as threads:
        made = list(threads.map(lambda user: keys("create", "--namespace", namespace, "--user", user), users))
    assert [one.returncode for one in made] == [0, 0, 0], [one.stderr for one in made]
    texts = [one.stdout.strip() for one in made]
    entries = [ring().find(text) for text in texts]
    assert [entry and (entry.user, entry.namespace, entry.admin) for entry in entries] == [
        (user, namespace, False) for user in users
    ]

    listed = keys("list").stdout
    stored = cluster.kubectl("get", "secret", SECRET, "--namespace", namespace, "--output", "yaml")
    for user, text in zip(users, texts, strict=True):
        assert user in listed
        assert text.split("-")[1] in listed
        assert text[-43:] not in listed + stored

    assert keys("revoke", texts[0].split("-")[1]).returncode == 0
    assert [ring().find(text) is not None for text in texts] == [False, True, True]


def test_an_administrators_key_is_for_all_namespaces(keys: Keys, ring: Callable[[], KeyRing]) -> None:
    made = keys("create", "--admin", "--user", "root")
    entry = ring().find(made.stdout.strip())
    assert entry is not None
    assert entry.admin
    assert entry.namespace is None


def test_a_tenant_without_a_namespace_gets_no_key(keys: Keys) -> None:
    made = keys("create", "--namespace", "no-such-namespace", "--user", "alice")
    assert made.returncode == 1
    assert made.stdout == ""
    assert "create it first" in made.stderr


def test_an_unknown_context_is_named(keys: Keys) -> None:
    made = keys("list", "--context", "no-such-context")
    assert made.returncode == 1
    assert "no-such-context" in made.stderr
    assert "Traceback" not in made.stderr

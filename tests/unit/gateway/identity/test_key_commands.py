"""`batchwright-gateway keys`: what it writes and prints, against an API server over HTTP."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from batchwright.gateway.identity import key_commands
from batchwright.gateway.identity.api_keys import KeyEntry, decode_entries, find_key
from batchwright.gateway.identity.key_commands import table
from batchwright.kube.connection import Connection
from batchwright.kube.secrets import SecretObject
from fixtures.kubernetes_http import Answer, HttpApi, Refuse

PATH = "/api/v1/namespaces/batchwright-system/secrets/gateway-keys"
Run = Callable[..., int]


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with HttpApi() as server:
        server.put("/api/v1/namespaces/team-a", {"metadata": {"name": "team-a"}})
        yield server


@pytest.fixture
def run(api: HttpApi) -> Run:
    def keys(*words: str) -> int:
        return key_commands.main(words, lambda _: api.connection())

    return keys


def stored(api: HttpApi) -> dict[str, KeyEntry]:
    found = SecretObject(api.connection(), "batchwright-system", "gateway-keys").read()
    entries, damaged = decode_entries(found or {})
    assert not damaged
    return entries


def test_create_prints_the_key_alone_on_standard_output_and_keeps_its_hash(
    api: HttpApi, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("create", "--namespace", "team-a", "--user", "alice") == 0
    printed = capsys.readouterr()
    assert re.fullmatch(r"bw-[0-9a-f]{12}-[A-Za-z0-9_-]{43}\n", printed.out)
    entry = find_key(stored(api), printed.out.strip())
    assert entry is not None
    assert (entry.namespace, entry.user, entry.admin) == ("team-a", "alice", False)
    assert abs(datetime.now(UTC) - entry.created_at) < timedelta(minutes=5)
    assert printed.out.strip() not in printed.err
    assert printed.out.strip() not in json.dumps(api.objects[PATH])


def test_create_makes_a_key_for_all_namespaces(api: HttpApi, run: Run) -> None:
    assert run("create", "--admin", "--user", "root") == 0
    (entry,) = stored(api).values()
    assert entry.admin
    assert entry.namespace is None


def test_create_leaves_the_others_alone(api: HttpApi, run: Run) -> None:
    api.put(PATH, {"metadata": {"name": "gateway-keys"}, "data": {"note": base64.b64encode(b"by hand").decode()}})
    run("create", "--namespace", "team-a", "--user", "alice")
    assert api.objects[PATH]["data"]["note"] == base64.b64encode(b"by hand").decode()
    assert len(api.objects[PATH]["data"]) == 2


def test_the_secret_is_in_the_namespace_that_is_named(api: HttpApi, run: Run) -> None:
    assert run("create", "--admin", "--user", "root", "--gateway-namespace", "elsewhere") == 0
    assert "/api/v1/namespaces/elsewhere/secrets/gateway-keys" in api.objects


def test_a_context_is_handed_to_the_connection(api: HttpApi) -> None:
    contexts: list[str | None] = []

    def connect(context: str | None) -> Connection:
        contexts.append(context)
        return api.connection()

    key_commands.main(["list", "--context", "production"], connect)
    key_commands.main(["list"], connect)
    assert contexts == ["production", None]


def test_revoke_removes_one_key(api: HttpApi, run: Run) -> None:
    run("create", "--namespace", "team-a", "--user", "alice")
    run("create", "--namespace", "team-a", "--user", "bob")
    alice = next(identity for identity, entry in stored(api).items() if entry.user == "alice")
    assert run("revoke", alice) == 0
    assert [entry.user for entry in stored(api).values()] == ["bob"]


def test_list_shows_who_has_a_key_and_nothing_that_opens_anything(
    api: HttpApi, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run("create", "--namespace", "team-a", "--user", "alice")
    run("create", "--admin", "--user", "root")
    created = capsys.readouterr().out.split()
    assert run("list") == 0
    shown = capsys.readouterr().out
    for text, (identity, entry) in zip(created, stored(api).items(), strict=True):
        assert identity in shown
        assert entry.hash not in shown
        assert text[-43:] not in shown
    assert shown.splitlines()[0].split() == ["ID", "USER", "NAMESPACE", "ADMIN", "CREATED"]


def test_the_list_is_in_columns_the_oldest_first() -> None:
    entries = {
        "b" * 12: KeyEntry("0" * 64, "team-a", "alice", False, datetime(2026, 3, 2, 12, tzinfo=UTC)),
        "a" * 12: KeyEntry("0" * 64, None, "root", True, datetime(2026, 3, 1, 12, tzinfo=UTC)),
    }
    assert table(entries) == [
        "ID            USER   NAMESPACE  ADMIN  CREATED",
        "aaaaaaaaaaaa  root   -          yes    2026-03-01T12:00:00Z",
        "bbbbbbbbbbbb  alice  team-a     no     2026-03-02T12:00:00Z",
    ]


def test_list_names_entries_that_are_no_keys_and_revoke_removes_them(
    api: HttpApi, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    api.put(PATH, {"metadata": {"name": "gateway-keys"}, "data": {"note": base64.b64encode(b"by hand").decode()}})
    assert run("list") == 0
    assert "no keys, and ignored: note" in capsys.readouterr().err
    assert run("revoke", "note") == 0
    assert api.objects[PATH]["data"] == {}


def test_without_a_secret_the_list_is_empty(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


FAILURES = {
    "no namespace": (("create", "--user", "alice"), "belongs to a namespace"),
    "both": (("create", "--user", "root", "--admin", "--namespace", "team-a"), "leave it out"),
    "a namespace that can't be": (("create", "--user", "alice", "--namespace", "../x"), "can't be the name"),
    "a namespace that is missing": (("create", "--user", "alice", "--namespace", "team-z"), "create it first"),
    "a gateway's namespace that can't be": (("list", "--gateway-namespace", "a/b"), "--gateway-namespace 'a/b'"),
    "an unknown key": (("revoke", "0123456789ab"), "`keys list` shows"),
}


@pytest.mark.parametrize(("words", "message"), FAILURES.values(), ids=list(FAILURES))
def test_what_cannot_be_done_is_said_with_a_remedy(
    api: HttpApi, run: Run, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert run(*words) == 1
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    assert not api.called("PATCH", "/secrets")


def test_a_namespace_of_the_gateway_that_is_missing_is_said(
    api: HttpApi, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    api.fail("POST", "/secrets", Answer(404, "NotFound"))
    assert run("create", "--admin", "--user", "root") == 1
    assert "install the gateway first" in capsys.readouterr().err


def test_who_may_not_is_told_which_right_it_takes(api: HttpApi, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.fail("*", "/secrets", Answer(403, "Forbidden", "secrets is forbidden"))
    assert run("create", "--admin", "--user", "root") == 1
    printed = capsys.readouterr()
    assert "secrets is forbidden" in printed.err
    assert "get, create and patch Secrets in batchwright-system" in printed.err
    assert printed.out == ""


def test_who_may_not_look_at_namespaces_can_make_keys(api: HttpApi, run: Run) -> None:
    api.fail("GET", "/namespaces/team-a", Answer(403, "Forbidden"))
    assert run("create", "--namespace", "team-a", "--user", "alice") == 0


def test_a_key_that_may_not_be_stored_is_not_printed(
    api: HttpApi, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    api.fail("PATCH", "/secrets", Refuse())
    assert run("create", "--admin", "--user", "root") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no answer from the API server" in printed.err


def test_wrong_usage_is_exit_code_2(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run("destroy")
    assert end.value.code == 2
    assert "batchwright-gateway keys" in capsys.readouterr().err

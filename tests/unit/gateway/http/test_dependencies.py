"""Who is let in, by headers and by the page's cookie alike."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import Request

from batchwright.gateway import errors
from batchwright.gateway.errors import ApiError
from batchwright.gateway.http.dependencies import admit
from batchwright.gateway.principal import Principal, Verb
from fixtures.gateway import BOB, KnownUsers, gateway_on
from fixtures.kubernetes_http import HttpApi


class NobodyMay(KnownUsers):
    """Knows everybody, and lets nobody do anything."""

    def authorize(self, principal: Principal, verb: Verb) -> None:
        raise errors.forbidden("not yours")


class Counted:
    """A rate limiter that counts."""

    def __init__(self) -> None:
        self.requests = 0

    def check(self, principal: Principal) -> None:
        self.requests += 1


@pytest.fixture
def api() -> Iterator[HttpApi]:
    with HttpApi() as server:
        yield server


def test_who_names_a_namespace_that_is_not_theirs_uses_up_none_of_its_requests(api: HttpApi, tmp_path: Path) -> None:
    rate, request = Counted(), Request({"type": "http"})
    gateway = replace(gateway_on(f"file://{tmp_path}/b/", api, tmp_path, users=NobodyMay(BOB)), rate=rate)
    with pytest.raises(ApiError, match="not yours"):
        admit(gateway, request, BOB, "list")
    assert rate.requests == 0
    assert request.state.principal is BOB  # for the audit log


def test_who_is_let_in_is_counted(api: HttpApi, tmp_path: Path) -> None:
    rate, request = Counted(), Request({"type": "http"})
    gateway = replace(gateway_on(f"file://{tmp_path}/b/", api, tmp_path), rate=rate)
    assert admit(gateway, request, BOB, "list") is BOB
    assert rate.requests == 1

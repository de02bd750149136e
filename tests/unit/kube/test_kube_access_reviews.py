"""TokenReview and SubjectAccessReview: what is asked, and how answers are read."""

from typing import Any

import pytest

from batchwright.kube.access_reviews import AccessReviews, TokenOwner
from batchwright.kube.connection import Connection

USER = {
    "username": "alice",
    "uid": "u1",
    "groups": ["staff", "system:authenticated"],
    "extra": {"scopes": ["a", "b"], "pod": ["p"]},
}
OWNER = TokenOwner("alice", "u1", ("staff", "system:authenticated"), (("pod", ("p",)), ("scopes", ("a", "b"))))


class ApiServer:
    """Answers with a status, and notes what was asked."""

    def __init__(self, status: object) -> None:
        self.status = status
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((path, body))
        return {**body, "status": self.status}

    @property
    def reviews(self) -> AccessReviews:
        connection: Connection = self  # type: ignore[assignment]
        return AccessReviews(connection)


def test_a_token_is_reviewed_for_the_api_servers_own_audience() -> None:
    server = ApiServer({"authenticated": True, "user": USER})
    assert server.reviews.owner("a.b.c") == OWNER
    ((path, body),) = server.asked
    assert path == "/apis/authentication.k8s.io/v1/tokenreviews"
    assert body["spec"] == {"token": "a.b.c"}


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"authenticated": False, "error": "expired"},
        {"user": USER},
        {"authenticated": "true", "user": USER},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
    ],
)
def test_a_token_that_is_not_plainly_known_is_nobodys(status: object) -> None:
    assert ApiServer(status).reviews.owner("a.b.c") is None


def test_the_question_names_all_that_an_authorizer_may_ask_for() -> None:
    server = ApiServer({"allowed": True})
    assert server.reviews.allows(OWNER, "create", "team-a")
    ((path, body),) = server.asked
    assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert body["spec"] == {
        "user": "alice",
        "uid": "u1",
        "groups": ["staff", "system:authenticated"],
        "extra": {"scopes": ["a", "b"], "pod": ["p"]},
        "resourceAttributes": {
            "group": "batchwright.dev",
            "resource": "batchjobs",
            "verb": "create",
            "namespace": "team-a",
        },
    }


@pytest.mark.parametrize(
    "status", [None, {}, {"allowed": False}, {"allowed": "true"}, {"allowed": True, "denied": True}]
)
def test_what_is_not_plainly_allowed_is_not(status: object) -> None:
    assert not ApiServer(status).reviews.allows(OWNER, "get", "team-a")

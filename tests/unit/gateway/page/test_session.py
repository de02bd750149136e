"""What a browser keeps of who has signed in."""

import pytest
from fastapi import Request, Response

from batchwright.gateway.errors import ApiError
from batchwright.gateway.page import session
from batchwright.gateway.settings import Settings


def request(cookie: str = "", scheme: str = "http", **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in {"cookie": cookie, **headers}.items()]
    return Request(
        {"type": "http", "scheme": scheme, "method": "GET", "path": "/", "query_string": b"", "headers": raw}
    )


def settings(root_path: str = "") -> Settings:
    return Settings.model_validate({"batchPath": "s3://bucket/", "rootPath": root_path})


@pytest.mark.parametrize(
    ("typed", "key"),
    [("bw-1-x", "bw-1-x"), ("  bw-1-x\n", "bw-1-x"), ("Bearer bw-1-x", "bw-1-x"), ("a.b_c~+/=-", "a.b_c~+/=-")],
)
def test_a_key_is_taken_as_people_paste_it(typed: str, key: str) -> None:
    assert session.entered(typed, "").headers == {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize("typed", ["", "   ", "two words", "semi;colon", 'quo"te', "ключ", "a\r\nb", "x" * 3801])
def test_what_can_be_no_key_is_refused(typed: str) -> None:
    with pytest.raises(ApiError) as refused:
        session.entered(typed, "")
    assert refused.value.status == 400
    assert "x" * 100 not in refused.value.message


@pytest.mark.parametrize("namespace", ["Team", "a b", "-a", "a-", "../x", "a" * 64, "a\n"])
def test_what_can_be_no_namespace_is_refused(namespace: str) -> None:
    with pytest.raises(ApiError):
        session.namespace_entered(namespace)


@pytest.mark.parametrize(
    ("scheme", "headers", "root_path", "expected"),
    [
        ("http", {}, "", "HttpOnly; Path=/; SameSite=strict"),
        ("https", {}, "", "HttpOnly; Path=/; SameSite=strict; Secure"),
        ("http", {"x_forwarded_proto": "https"}, "/batch", "HttpOnly; Path=/batch; SameSite=strict; Secure"),
        ("http", {"x_forwarded_proto": "https, http"}, "", "HttpOnly; Path=/; SameSite=strict; Secure"),
        ("https", {"x_forwarded_proto": "nonsense"}, "", "HttpOnly; Path=/; SameSite=strict; Secure"),
    ],
)
def test_no_script_and_no_other_site_gets_the_cookie(
    scheme: str, headers: dict[str, str], root_path: str, expected: str
) -> None:
    answer = Response()
    session.start(request(scheme=scheme, **headers), answer, settings(root_path), session.Session("bw-1-x", "team-a"))
    cookies = answer.headers.getlist("set-cookie")
    assert cookies == [f"batchwright_key=bw-1-x; {expected}", f"batchwright_namespace=team-a; {expected}"]


def test_a_session_is_what_the_cookies_say() -> None:
    assert session.session_of(request("batchwright_key=bw-1-x; batchwright_namespace=team-a")) == session.Session(
        "bw-1-x", "team-a"
    )
    assert session.session_of(request("batchwright_key=bw-1-x; batchwright_namespace=No%20one")) == session.Session(
        "bw-1-x"
    )
    assert session.session_of(request("batchwright_key=two words")) is None
    assert session.session_of(request()) is None


def test_a_key_comes_back_from_a_cookie_as_it_was() -> None:
    key = "eyJ.a_b-c~+/="
    answer = Response()
    session.start(request(), answer, settings(), session.Session(key))
    sent = answer.headers.getlist("set-cookie")[0].partition(";")[0]
    assert session.session_of(request(sent)) == session.Session(key)


def test_signing_out_takes_both_cookies() -> None:
    answer = Response()
    session.end(answer, settings("/batch"))
    cookies = answer.headers.getlist("set-cookie")
    assert [cookie.partition("=")[0] for cookie in cookies] == ["batchwright_key", "batchwright_namespace"]
    assert all("Max-Age=0" in cookie and "Path=/batch" in cookie for cookie in cookies)

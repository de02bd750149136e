"""What is accepted as the address of a server, and how a path is put to it."""

from typing import Any

import pytest

from batchwright.worker.transport import TransportSettings


def settings(base_url: str = "http://vllm:8000", **changes: Any) -> TransportSettings:
    return TransportSettings(base_url, **{"max_connections": 64, **changes})


@pytest.mark.parametrize(
    ("base_url", "path", "url"),
    [
        ("http://vllm:8000", "/v1/models", "http://vllm:8000/v1/models"),
        ("http://vllm:8000/", "/v1/models", "http://vllm:8000/v1/models"),
        ("http://vllm:8000/v1", "/v1/models", "http://vllm:8000/v1/models"),
        ("http://vllm:8000/v1/", "/v1/models", "http://vllm:8000/v1/models"),
        ("http://vllm:8000/v1", "/health", "http://vllm:8000/v1/health"),
        ("https://host/team/llm", "/v1/models", "https://host/team/llm/v1/models"),
        ("https://host/team/v1x", "/v1/models", "https://host/team/v1x/v1/models"),
        ("http://[::1]:8000", "/v1/models", "http://[::1]:8000/v1/models"),
    ],
)
def test_a_path_follows_the_base_url_and_v1_counts_once(base_url: str, path: str, url: str) -> None:
    assert settings(base_url).url(path) == url


@pytest.mark.parametrize("path", ["v1/models", "", "/a b", "/ü", "/a\r\nHost: x"])
def test_a_path_that_would_break_the_request_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="starts with a slash and is encoded"):
        settings().url(path)


@pytest.mark.parametrize(
    ("base_url", "origin"),
    [
        ("http://vllm:8000/prefix", "vllm:8000"),
        ("http://vllm", "vllm:80"),
        ("https://vllm", "vllm:443"),
        ("http://[::1]:8000", "[::1]:8000"),
    ],
)
def test_the_origin_names_host_and_port(base_url: str, origin: str) -> None:
    assert settings(base_url).origin == origin


@pytest.mark.parametrize(
    ("base_url", "message"),
    [
        ("", "http:// or https://"),
        ("vllm:8000", "http:// or https://"),
        ("ftp://vllm", "http:// or https://"),
        ("http://", "with a host"),
        ("http://:8000", "with a host"),
        ("http://vllm:port", "bad host or port"),
        ("http://vllm:0", "bad host or port"),
        ("http://vllm:99999", "bad host or port"),
        ("http://[::1", "bad host or port"),
        ("http://two words", "must encode"),
        ("http://vllm/ü", "must encode"),
        ("http://vllm\r\nHost: x", "must encode"),
        ("http://-vllm", "bad host or port"),
        ("http://a..b", "bad host or port"),
        ("http://" + "a" * 64 + ".example", "bad host or port"),
        ("http://vllm?x=1", "query"),
        ("http://vllm#part", "fragment"),
    ],
)
def test_what_is_no_server_is_refused(base_url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings(base_url)


def test_credentials_in_the_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="credentials") as caught:
        settings("http://user:s3cret@vllm")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_connections": 0}, "max_connections"),
        ({"max_answer_bytes": 0}, "max_answer_bytes"),
        ({"keepalive_seconds": 0}, "keepalive_seconds"),
        ({"connect_seconds": -1}, "connect_seconds"),
        ({"headers": {"Bad Name": "x"}}, "'Bad Name' is not the name of a header"),
        ({"headers": {"": "x"}}, "not the name of a header"),
        ({"headers": {"X-Key": "s3cret\r\n"}}, "X-Key holds a line break"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        settings(**changes)
    assert "s3cret" not in str(caught.value)


def test_headers_are_not_shown() -> None:
    assert "s3cret" not in repr(settings(headers={"X-Key": "s3cret"}))

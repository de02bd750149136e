"""The real server and the stub, asked the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from vllm.shapes.comparison import differences, unmeant

ITS_OWN_HEADERS = frozenset({"server", "date", "content-length", "connection", "keep-alive"})
"""Headers of the HTTP server's own, which no client goes by."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; `body` is None where it is no JSON."""

    status: int
    media_type: str
    headers: frozenset[str]
    """Names, without those of ITS_OWN_HEADERS."""
    request_id: str | None
    body: Any
    text: str

    @classmethod
    def read(cls, response: httpx.Response) -> "Answer":
        try:
            body = response.json()
        except ValueError:
            body = None
        return cls(
            response.status_code,
            response.headers.get("content-type", "").partition(";")[0],
            frozenset(name.lower() for name in response.headers) - ITS_OWN_HEADERS,
            response.headers.get("x-request-id"),
            body,
            response.text,
        )


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and where the stub's answer is meant to be another one."""

    body: Any = None
    """JSON; bytes are sent as they are."""
    path: str = ""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    meant: Mapping[str, str] = field(default_factory=dict)
    """Reasons, by the path of the answer that differs."""
    short: bool = True
    """Whether it is part of the short form."""


def named(cases: Mapping[str, Case]) -> list[Any]:
    """The cases' names as parameters of a test."""
    return [pytest.param(name, marks=[pytest.mark.vllm_short] if case.short else []) for name, case in cases.items()]


@dataclass(frozen=True, slots=True)
class Pair:
    """Both answers to a request."""

    real: Answer
    stub: Answer

    def assert_alike(self, meant: Mapping[str, str]) -> None:
        """They are the same but for texts, numbers and what is meant."""
        real, stub = self.real, self.stub
        assert real.body is not None, real.text
        assert (stub.status, stub.media_type) == (real.status, real.media_type), f"real {real.text}\nstub {stub.text}"
        assert stub.headers == real.headers, f"real {sorted(real.headers)}, stub {sorted(stub.headers)}"
        found = unmeant(differences(real.body, stub.body), meant)
        assert not found, "\n".join(map(str, found))


@dataclass(frozen=True, slots=True)
class Both:
    """Asks both."""

    real: httpx.Client
    stub: httpx.Client

    def ask(self, case: Case, path: str = "") -> Pair:
        """Send the case's request to the case's path, else to `path`."""
        return Pair(*(_ask(client, case, path) for client in (self.real, self.stub)))


def _ask(client: httpx.Client, case: Case, path: str) -> Answer:
    content = case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode()
    headers = {"Content-Type": "application/json", "X-Request-Id": "shape-1", **case.headers}
    response = client.request(
        case.method, case.path or path, content=None if case.body is None else content, headers=headers
    )
    return Answer.read(response)

"""Bodies that are no uploads have a bound in size and time."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from batchwright.gateway.http import body_limit
from batchwright.gateway.http.body_limit import BODY_BYTES, BodyLimit


class Application:
    """Reads a whole body, as the framework does for JSON."""

    def __init__(self) -> None:
        self.body = b""
        self.after: Message | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            self.body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.after = await receive()


async def read(
    *pieces: bytes, path: str = "/v1/batches", length: int | None = None, pause: float = 0.0, then: float = 0.0
) -> Application:
    """What an application gets of a body that comes in pieces, and then of the end of the connection."""

    async def coming() -> AsyncIterator[Message]:
        for number, piece in enumerate(pieces, 1):
            await asyncio.sleep(pause)
            yield {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
        await asyncio.sleep(then)
        yield {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        """Nobody answers here."""

    messages, application = coming(), Application()
    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "path": path, "headers": headers}
    await BodyLimit(application)(scope, messages.__anext__, send)
    return application


async def test_a_small_body_comes_through_as_it_is() -> None:
    application = await read(b"{", b"}", length=2)
    assert application.body == b"{}"
    assert application.after == {"type": "http.disconnect"}


async def test_the_largest_body_comes_through() -> None:
    assert len((await read(b"x" * BODY_BYTES, length=BODY_BYTES)).body) == BODY_BYTES


@pytest.mark.parametrize("length", [None, BODY_BYTES, 0])
async def test_a_larger_one_is_refused_whatever_was_announced(length: int | None) -> None:
    with pytest.raises(HTTPException) as error:
        await read(b"x" * BODY_BYTES, b"x", length=length)
    assert error.value.status_code == 413
    assert str(BODY_BYTES) in error.value.detail


async def test_one_that_is_announced_larger_is_refused_before_it_comes() -> None:
    with pytest.raises(HTTPException) as error:
        await read(length=BODY_BYTES + 1)
    assert error.value.status_code == 413


@pytest.mark.parametrize("path", ["/v1/files", "/v1/files/", "/batch/v1/files", "/ui/batches"])
async def test_uploads_have_bounds_of_their_own(path: str) -> None:
    application = await read(b"x" * BODY_BYTES, b"x", path=path, length=BODY_BYTES + 1)
    assert len(application.body) == BODY_BYTES + 1


@pytest.mark.parametrize("path", ["/v1/files/file-1", "/v1/batches", "/xv1/files2", "/resource_server/a/b/v1/batches"])
async def test_no_other_path_counts_as_an_upload(path: str) -> None:
    with pytest.raises(HTTPException):
        await read(path=path, length=BODY_BYTES + 1)


async def test_one_that_dribbles_in_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "BODY_SECONDS", 0.05)
    with pytest.raises(HTTPException) as error:
        await read(*[b"x"] * 1000, pause=0.01)
    assert error.value.status_code == 408


async def test_a_client_may_wait_for_its_answer_as_long_as_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "BODY_SECONDS", 0.01)
    assert (await read(b"{}", then=0.05)).after == {"type": "http.disconnect"}

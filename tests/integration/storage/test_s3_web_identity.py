"""Credentials of the worker's service account: the SDK exchanges its token at a security token service."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from batchwright.storage.errors import InvalidCredentials
from batchwright.storage.s3 import S3Store
from batchwright.storage.s3_client import S3Clients
from fixtures.s3 import Account, S3Bucket

_GRANTED = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{account.access_key}</AccessKeyId>
<SecretAccessKey>{account.secret_key}</SecretAccessKey><SessionToken></SessionToken>
<Expiration>{expiration:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""

_REFUSED = """<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>
<Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>"""


class TokenService:
    """Gives an account's keys for any token, for so many seconds; without an account it refuses.

    The session token is empty, since the S3 server behind knows only keys of its own.
    """

    def __init__(self, account: Account | None, seconds: int) -> None:
        self.account = account
        self.seconds = seconds
        self.tokens: list[str] = []

    def answer(self, form: str) -> tuple[int, bytes]:
        self.tokens += parse_qs(form)["WebIdentityToken"]
        if self.account is None:
            return 403, _REFUSED.encode()
        expiration = datetime.now(UTC) + timedelta(seconds=self.seconds)
        return 200, _GRANTED.format(account=self.account, expiration=expiration).encode()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first")
    return path


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, token_file: Path) -> Iterator[Callable[[TokenService], TokenService]]:
    """Let the environment name a token service, as Amazon's webhook does in a pod."""
    servers: list[ThreadingHTTPServer] = []

    def start(service: TokenService) -> TokenService:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, body = service.answer(form)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_address[1]}")
        return service

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/worker")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token_file))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_service_accounts_token_is_exchanged_once_for_many_requests(
    s3_bucket: S3Bucket, serve: Callable[[TokenService], TokenService]
) -> None:
    s3_bucket.put("object", b"content")
    service = serve(TokenService(s3_bucket.server.root, seconds=3600))
    store = S3Store(s3_bucket.name, S3Clients(s3_bucket.settings))
    for _ in range(3):
        assert store.read("object") == b"content"
    assert service.tokens == ["first"]


def test_credentials_that_expire_are_renewed_with_the_token_as_it_then_is(
    s3_bucket: S3Bucket, serve: Callable[[TokenService], TokenService], token_file: Path
) -> None:
    s3_bucket.put("object", b"content")
    service = serve(TokenService(s3_bucket.server.root, seconds=60))  # always about to expire
    store = S3Store(s3_bucket.name, S3Clients(s3_bucket.settings))
    store.read("object")
    token_file.write_text("rotated")
    assert store.read("object") == b"content"
    assert service.tokens[-1] == "rotated"


def test_a_role_that_may_not_be_assumed_is_no_matter_of_the_bucket(
    s3_bucket: S3Bucket, serve: Callable[[TokenService], TokenService]
) -> None:
    serve(TokenService(None, seconds=60))
    store = S3Store(s3_bucket.name, S3Clients(s3_bucket.settings))
    with pytest.raises(InvalidCredentials, match=r"sts:AssumeRoleWithWebIdentity.*service account"):
        store.read("object")

"""The gateway's process: how it starts, what it says, how it ends; and its bounds on connections."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import yaml
from fastapi import FastAPI

from batchwright.gateway.http import protocol
from batchwright.gateway.serving import server_config
from batchwright.listening import listen
from fixtures.cluster import eventually
from fixtures.kubernetes_http import HttpApi
from fixtures.s3 import S3Server

HOSTS = ["127.0.0.1", *(["[::1]"] if socket.has_dualstack_ipv6() else [])]


@dataclass
class Process:
    """A gateway of its own process, over a folder and a small API server."""

    folder: Path
    api: HttpApi
    settings: dict[str, Any] = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)
    """Environment variables beside those of all."""

    def __post_init__(self) -> None:
        with listen(0) as free:
            self.port = int(free.getsockname()[1])
        server = {"name": "c", "cluster": {"server": self.api.connection()._api_client.configuration.host}}
        context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
        kubeconfig = {
            "clusters": [server],
            "contexts": [context],
            "current-context": "c",
            "users": [{"name": "c", "user": {}}],
        }
        (self.folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        self.data = self.folder / "data"
        (self.folder / "spool").mkdir(exist_ok=True)

    @property
    def environment(self) -> Mapping[str, str]:
        (self.folder / "settings.yaml").write_text(
            yaml.safe_dump({"batchPath": f"file://{self.data}/", **self.settings})
        )
        return {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "POD_NAMESPACE": "batchwright-system",
            "BATCHWRIGHT_GATEWAY_SETTINGS": str(self.folder / "settings.yaml"),
            "BATCHWRIGHT_GATEWAY_PORT": str(self.port),
            "BATCHWRIGHT_GATEWAY_SPOOL": str(self.folder / "spool"),
            **self.more,
        }

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            _command(*words),
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[bytes]]:
        """A process that answers."""
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(_command(), env=self.environment, stdout=log, stderr=log)
        try:
            eventually(lambda: self.get("/healthz"))
            yield process
        finally:
            process.kill()
            process.wait(30)

    def get(self, path: str, *, key: str = "", host: str = "127.0.0.1", status: int = 200) -> str:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        try:
            answer = httpx.get(f"http://{host}:{self.port}{path}", headers=headers, timeout=20)
        except httpx.TransportError as error:
            raise AssertionError(str(error)) from error
        assert answer.status_code == status, answer.text
        return answer.text

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "batchwright.gateway.main", *words]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Process]:
    with HttpApi() as api:
        api.put("/api/v1/namespaces/team-a", {"metadata": {"name": "team-a"}})
        process = Process(tmp_path, api)
        process.data.mkdir()
        yield process


def test_a_key_opens_the_gateway_until_it_is_revoked_and_sigterm_ends_it(gateway: Process) -> None:
    made = gateway.run("keys", "create", "--namespace", "team-a", "--user", "alice")
    key = made.stdout.strip()
    with gateway.serving() as process:
        for host in HOSTS:
            assert gateway.get("/readyz", host=host) == "ok"
        assert json.loads(gateway.get("/v1/files", key=key))["data"] == []
        gateway.get("/v1/files", status=401)
        assert gateway.run("keys", "revoke", key.split("-")[1]).returncode == 0
        eventually(lambda: gateway.get("/v1/files", key=key, status=401))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    audited = [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]
    assert {(line["route"], line["status"]) for line in audited} == {("/v1/files", 401)}
    assert key not in gateway.log
    assert key[-43:] not in gateway.log


def test_a_storage_that_refuses_is_said_and_waited_for(gateway: Process, s3_server: S3Server) -> None:
    bucket = f"gateway-{uuid.uuid4().hex[:8]}"
    gateway.settings = {"batchPath": f"s3://{bucket}/", "storage": {"endpointURL": s3_server.endpoint_url}}
    gateway.more = {"BATCHWRIGHT_GATEWAY_CREDENTIALS": str(s3_server.root.credentials_dir)}
    with gateway.serving():
        assert "storage" in gateway.get("/readyz", status=503)
        eventually(lambda: _says(gateway, f"batchPath, s3://{bucket}/: check it"))
        s3_server.client().create_bucket(Bucket=bucket)
        eventually(lambda: gateway.get("/readyz"))


def _says(gateway: Process, words: str) -> None:
    assert words in gateway.log


START: dict[str, tuple[dict[str, Any], dict[str, str], int, str]] = {
    "a setting": ({"rootPath": "batch"}, {}, 2, "rootPath"),
    "a port": ({}, {"BATCHWRIGHT_GATEWAY_PORT": "http"}, 2, "BATCHWRIGHT_GATEWAY_PORT"),
    "no settings": ({}, {"BATCHWRIGHT_GATEWAY_SETTINGS": "/nowhere.yaml"}, 2, "ConfigMap `gateway`"),
    "no cluster": ({}, {"KUBECONFIG": "/nowhere"}, 1, "set KUBECONFIG"),
}


@pytest.mark.parametrize(("settings", "environment", "code", "words"), START.values(), ids=list(START))
def test_what_keeps_it_from_starting_is_named(
    gateway: Process, settings: dict[str, Any], environment: dict[str, str], code: int, words: str
) -> None:
    gateway.settings = settings
    ended = gateway.run("serve", **environment)
    assert ended.returncode == code
    assert words in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_port_that_is_taken_is_said(gateway: Process) -> None:
    with listen(gateway.port):
        ended = gateway.run("serve")
    assert ended.returncode == 1
    assert "can't start" in ended.stdout


# --- bounds on connections -------------------------------------------------------------------------------------------


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], socket.socket]]:
    """Connects to an application that is served as the gateway is, with less patience."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)
    app = FastAPI()

    @app.get("/slow")
    def slow() -> str:
        time.sleep(1)
        return "ok"

    @app.post("/refused")
    def refused() -> str:
        return "ok"

    with listen(0) as listening:
        server = uvicorn.Server(server_config(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        eventually(lambda: _started(server))
        port = listening.getsockname()[1]
        yield lambda: socket.create_connection(("127.0.0.1", port), timeout=20)
        server.should_exit = True
        thread.join(20)


def _started(server: uvicorn.Server) -> None:
    assert server.started


def received(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def dribble(connection: socket.socket, piece: bytes) -> None:
    """Send a little now and then, for half a minute."""
    for _ in range(600):
        connection.sendall(piece)
        time.sleep(0.05)


@pytest.mark.parametrize("begun", [b"", b"\r\n", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nx: "])
def test_a_head_that_does_not_come_ends_the_connection(connect: Callable[[], socket.socket], begun: bytes) -> None:
    with connect() as connection:
        connection.sendall(begun)
        assert received(connection) == b""


def test_a_head_that_dribbles_in_ends_the_connection(connect: Callable[[], socket.socket]) -> None:
    with connect() as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nx: ")
        with pytest.raises(OSError, match=r"reset|pipe"):
            dribble(connection, b"x")


def test_the_second_head_of_a_connection_has_a_bound_too(connect: Callable[[], socket.socket]) -> None:
    with connect() as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET /slow HTTP/1.1\r\n")
        assert b"HTTP/1.1" not in received(connection)


def test_an_answer_may_take_longer_than_a_head(connect: Callable[[], socket.socket]) -> None:
    with connect() as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answer = received(connection)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b'"ok"')


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000,
        b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000,
        b"GET /" + b"y" * 100_000,
    ],
    ids=["many headers", "a long header", "a long path"],
)
def test_a_head_that_is_too_large_is_refused(connect: Callable[[], socket.socket], head: bytes) -> None:
    with connect() as connection:
        try:
            connection.sendall(head)
        except OSError:
            return  # it was closed before all was sent
        answer = received(connection)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


def test_a_head_of_many_pieces_is_refused_once_it_is_too_large(connect: Callable[[], socket.socket]) -> None:
    with connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nx: ")
        for _ in range(66):
            connection.sendall(b"y" * 1000)
        answer = received(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert {*json.loads(body)["error"]} == {"message", "type", "param", "code"}


def test_what_is_no_http_is_answered_in_openais_form(connect: Callable[[], socket.socket]) -> None:
    with connect() as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        head, _, body = received(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_a_body_that_nobody_wanted_is_not_taken_for_ever(connect: Callable[[], socket.socket]) -> None:
    with connect() as connection:
        connection.sendall(b"POST /refused HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        with pytest.raises(OSError, match=r"reset|pipe"):
            dribble(connection, b"1\r\nx\r\n")

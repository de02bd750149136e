"""The transport over TLS: whom it trusts, and what it says when it doesn't."""

import asyncio
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from batchwright.worker.transport import Answer, ConnectFailed, TransportSettings, open_transport
from batchwright.worker.transport.aiohttp_transport import tls_context
from batchwright.worker.transport.spread import SpreadTransport
from integration.worker.transport.replicas import Names
from integration.worker.transport.scripted_server import answer, scripted_server


@dataclass(frozen=True)
class Certificate:
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.certificate, self.key)
        return made


def make_certificate(folder: Path, name: str, subject_alternative: str) -> Certificate:
    made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    arguments = f"-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name}"
    arguments += f" -addext subjectAltName={subject_alternative}"
    subprocess.run(
        ["openssl", "req", "-x509", *arguments.split(), "-keyout", made.key, "-out", made.certificate],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def trusted(folder: Path) -> Certificate:
    return make_certificate(folder, "trusted", "DNS:localhost,IP:127.0.0.1")


@pytest.fixture(scope="module")
def stranger(folder: Path) -> Certificate:
    return make_certificate(folder, "stranger", "DNS:localhost,IP:127.0.0.1")


@pytest.fixture(scope="module")
def misnamed(folder: Path) -> Certificate:
    return make_certificate(folder, "misnamed", "DNS:elsewhere.example")


async def ask(certificate: Certificate, bundle: Path | None) -> Answer:
    """POST to a server with the certificate, trusting the bundle."""
    async with scripted_server(answer(b"over TLS"), tls=certificate.context()) as server:
        transport = open_transport(TransportSettings(f"https://127.0.0.1:{server.port}", 1, ca_bundle=bundle))
        try:
            return await transport.post("/v1/completions", b"{}", headers={}, timeout=20)
        finally:
            await transport.close()


async def test_a_server_of_the_bundle_is_trusted(trusted: Certificate) -> None:
    assert (await ask(trusted, trusted.certificate)).body == b"over TLS"


async def test_a_private_authority_is_not_trusted_without_a_bundle(trusted: Certificate) -> None:
    with pytest.raises(ConnectFailed, match="self-signed certificate"):
        await ask(trusted, None)


async def test_the_bundle_alone_is_trusted(trusted: Certificate, stranger: Certificate) -> None:
    with pytest.raises(ConnectFailed, match=r"TLS with 127\.0\.0\.1:\d+ failed: self-signed certificate"):
        await ask(stranger, trusted.certificate)


async def test_a_certificate_for_another_name_is_refused(misnamed: Certificate) -> None:
    with pytest.raises(ConnectFailed, match=r"not valid for '127\.0\.0\.1'"):
        await ask(misnamed, misnamed.certificate)


async def test_a_server_without_tls_is_no_connection() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    transport = open_transport(TransportSettings(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", 1))
    with pytest.raises(ConnectFailed, match="TLS with"):
        await transport.post("/v1/completions", b"{}", headers={}, timeout=20)
    await transport.close()
    server.close()


async def test_a_bundle_that_is_missing_or_no_pem_says_so(trusted: Certificate, tmp_path: Path) -> None:
    with pytest.raises(ConnectFailed, match="CA bundle can't be read: No such file"):
        await ask(trusted, tmp_path / "missing.crt")
    (tmp_path / "empty.crt").write_text("not a certificate")
    with pytest.raises(ConnectFailed, match="no certificates in PEM form"):
        await ask(trusted, tmp_path / "empty.crt")


@pytest.mark.parametrize(
    ("host", "message"),
    [("elsewhere.example", None), ("model.test", "not valid for 'model.test'")],
)
async def test_a_replica_must_show_a_certificate_for_the_name_and_not_for_its_address(
    misnamed: Certificate, host: str, message: str | None
) -> None:
    async with scripted_server(answer(b"over TLS"), tls=misnamed.context()) as server:
        settings = TransportSettings(f"https://{host}:{server.port}", 1, ca_bundle=misnamed.certificate)
        transport = SpreadTransport(settings, tls=tls_context(settings), resolver=Names(["127.0.0.1"]))
        request = transport.post("/v1/completions", b"{}", headers={}, timeout=20)
        try:
            if message is None:
                assert (await request).body == b"over TLS"
            else:
                with pytest.raises(ConnectFailed, match=message):
                    await request
        finally:
            await transport.close()

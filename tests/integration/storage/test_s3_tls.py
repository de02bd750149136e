"""The S3 store over TLS: whom it trusts, and what it says when it does not."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchwright.storage.errors import BucketMissing, EndpointUnreachable, Misconfigured
from batchwright.storage.join_plan import MIB
from batchwright.storage.s3 import S3Store
from batchwright.storage.s3_client import S3Clients
from batchwright.storage.settings import StorageSettings
from fixtures.s3 import S3Server, s3_process


def make_certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate for loopback, with its key beside it."""
    path = folder / f"{name}.crt"
    arguments = f"-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name}"
    arguments += " -addext subjectAltName=IP:127.0.0.1"
    outputs = ["-keyout", path.with_suffix(".key"), "-out", path]
    subprocess.run(
        ["openssl", "req", "-x509", *arguments.split(), *outputs], check=True, capture_output=True, timeout=60
    )
    return path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tls")
    return {name: make_certificate(folder, name) for name in ("trusted", "stranger")}


@pytest.fixture(scope="module")
def server(certificates: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    certificate = certificates["trusted"]
    folder = tmp_path_factory.mktemp("s3-tls")
    with s3_process(folder, certificate=certificate, key=certificate.with_suffix(".key")) as server:
        yield server


def open_store(server: S3Server, endpoint: str, ca_bundle: Path | None) -> S3Store:
    settings = StorageSettings(endpoint_url=endpoint, addressing_style="path", max_attempts=1)
    folder = server.root.credentials_dir
    return S3Store("no-such-bucket", S3Clients(settings, folder, ca_bundle))


def test_a_store_of_the_bundle_is_trusted(server: S3Server, certificates: dict[str, Path]) -> None:
    with pytest.raises(BucketMissing):
        open_store(server, server.endpoint_url, certificates["trusted"]).read("object")


def test_uploads_go_the_same_way(server: S3Server, certificates: dict[str, Path], tmp_path: Path) -> None:
    """One that fits a part and one that does not: their bodies are files, which are signed before they are sent."""
    (server.folder / "buckets" / "uploads").mkdir()
    settings = StorageSettings(endpoint_url=server.endpoint_url, addressing_style="path", max_attempts=1)
    store = S3Store("uploads", S3Clients(settings, server.root.credentials_dir, certificates["trusted"]))
    for size in (5, 9 * MIB):
        upload = store.open_upload("object", spool=tmp_path)
        upload.add(b"x" * size)
        upload.commit()
        assert store.read("object") == b"x" * size


@pytest.mark.parametrize("bundle", [None, "stranger"])
def test_an_unknown_authority_is_told_with_the_setting_for_it(
    server: S3Server, certificates: dict[str, Path], bundle: str | None
) -> None:
    store = open_store(server, server.endpoint_url, certificates[bundle] if bundle else None)
    with pytest.raises(Misconfigured, match="caBundleConfigMapRef"):
        store.read("object")


def test_a_plain_address_of_a_tls_server_is_an_error_of_ours(server: S3Server) -> None:
    plain = server.endpoint_url.replace("https", "http")
    with pytest.raises(EndpointUnreachable, match="endpointURL"):
        open_store(server, plain, None).read("object")

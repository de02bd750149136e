"""How requests are addressed and signed, seen in URLs that the client signs without sending anything."""

from pathlib import Path

import pytest

from batchwright.storage.errors import Misconfigured
from batchwright.storage.s3_client import S3Clients
from batchwright.storage.settings import AddressingStyle, SignatureVersion, StorageSettings


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    (tmp_path / "AWS_ACCESS_KEY_ID").write_text("key")
    (tmp_path / "AWS_SECRET_ACCESS_KEY").write_text("secret")
    return tmp_path


def signed_url(settings: StorageSettings, credentials: Path) -> str:
    client = S3Clients(settings, credentials).default
    return client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "a b+c%#?ü"})


@pytest.mark.parametrize(
    ("style", "endpoint", "start"),
    [
        ("path", "http://store:9000", "http://store:9000/bucket/"),
        ("virtual", "http://store:9000", "http://bucket.store:9000/"),
        ("auto", None, "https://bucket.s3."),
        ("path", None, "https://s3.eu-central-1.amazonaws.com/bucket/"),
    ],
)
def test_the_bucket_stands_where_the_addressing_style_says(
    credentials: Path, style: AddressingStyle, endpoint: str | None, start: str
) -> None:
    settings = StorageSettings(endpoint, "eu-central-1", addressing_style=style)
    url = signed_url(settings, credentials)
    assert url.startswith(start)
    assert "/a%20b%2Bc%25%23%3F%C3%BC?" in url


@pytest.mark.parametrize(("version", "parameter"), [("s3v4", "X-Amz-Signature="), ("s3", "&Signature=")])
def test_requests_are_signed_as_the_signature_version_says(
    credentials: Path, version: SignatureVersion, parameter: str
) -> None:
    assert parameter in signed_url(StorageSettings(signature_version=version), credentials)


@pytest.mark.parametrize(
    ("setting", "environment", "expected"),
    [
        ("eu-west-1", {"AWS_REGION": "us-west-2"}, "eu-west-1"),
        (None, {"AWS_REGION": "us-west-2"}, "us-west-2"),
        (None, {"AWS_DEFAULT_REGION": "us-west-2"}, "us-west-2"),
        (None, {}, "us-east-1"),
    ],
)
def test_the_region_comes_from_the_settings_then_the_environment(
    credentials: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str | None,
    environment: dict[str, str],
    expected: str,
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(credentials / "none"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    clients = S3Clients(StorageSettings(region=setting), credentials)
    assert clients.default.meta.region_name == expected


def test_checksums_timeouts_and_retries_are_those_of_the_settings(credentials: Path) -> None:
    settings = StorageSettings(connect_timeout=3, read_timeout=7, max_attempts=4, max_connections=50)
    config = S3Clients(settings, credentials).default.meta.config
    assert config.request_checksum_calculation == "when_required"
    assert config.response_checksum_validation == "when_required"
    assert (config.connect_timeout, config.read_timeout, config.max_pool_connections) == (3, 7, 50)
    assert config.retries == {"mode": "standard", "total_max_attempts": 4}


def test_long_work_of_the_store_gets_more_patience(credentials: Path) -> None:
    clients = S3Clients(StorageSettings(read_timeout=7), credentials)
    assert clients.patient.meta.config.read_timeout >= 600


@pytest.mark.parametrize("endpoint", ["not a url", "store:9000", "http://"])
def test_an_impossible_endpoint_is_refused_at_once(credentials: Path, endpoint: str) -> None:
    with pytest.raises(Misconfigured, match="endpointURL"):
        S3Clients(StorageSettings(endpoint), credentials)

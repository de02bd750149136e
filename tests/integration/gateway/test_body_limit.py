"""The bound on bodies, where the framework reads them."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from batchwright.gateway.http.body_limit import BODY_BYTES
from fixtures.gateway import ALICE, bearer, gateway_on, running_gateway
from fixtures.kubernetes_http import HttpApi

ROUTES = ["/v1/batches", "/resource_server/local/vllm/v1/batches"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with HttpApi() as api, running_gateway(gateway_on(f"file://{folder}/data/", api, folder)) as address:
        yield address


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("announced", [True, False], ids=["announced", "chunked"])
@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x"])
def test_a_request_that_makes_a_batch_is_not_large(url: str, route: str, announced: bool, kind: str) -> None:
    pieces = [b'{"input_file_id": "', b"x" * BODY_BYTES, b'"}']
    content = b"".join(pieces) if announced else iter(pieces)
    headers = bearer(ALICE) | {"content-type": kind}
    answer = httpx.post(f"{url}{route}", content=content, headers=headers, timeout=30)
    assert answer.status_code == 413
    assert str(BODY_BYTES) in answer.json()["error"]["message"]


def test_an_upload_may_be_larger(url: str) -> None:
    line = b'{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": {"model": "m", "prompt": "%s"}}\n'
    data = b"".join(line % (number, b"x" * 1000) for number in range(1200))
    assert len(data) > BODY_BYTES
    answer = httpx.post(
        f"{url}/v1/files", data={"purpose": "batch"}, files={"file": data}, headers=bearer(ALICE), timeout=60
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["bytes"] == len(data)

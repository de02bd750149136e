"""The gateway under a prefix: behind an ingress that takes it away, and behind one that leaves it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from fixtures.gateway import ALICE, gateway_on, running_gateway
from fixtures.kubernetes_http import HttpApi

PREFIX = "/llm/batch"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    (folder / "spool").mkdir()
    with (
        HttpApi() as api,
        running_gateway(gateway_on(f"file://{folder}/", api, folder / "spool", rootPath=PREFIX)) as url,
    ):
        yield url


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_the_sdk_reaches_it(url: str, prefix: str) -> None:
    client = openai.OpenAI(base_url=f"{url}{prefix}/v1", api_key=ALICE.user)
    upload = client.files.create(file=("a.jsonl", b"{}\n"), purpose="batch")
    assert client.files.content(upload.id).content == b"{}\n"
    assert upload.id in [one.id for one in client.files.list()]
    assert client.batches.list().data == []


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_the_description_says_where_it_is(url: str, prefix: str) -> None:
    document = httpx.get(f"{url}{prefix}/openapi.json").json()
    assert {"url": PREFIX} in document["servers"]
    assert "/v1/files" in document["paths"]


@pytest.mark.parametrize("path", ["/llm/v1/files", "/llm/batchv1/files", f"{PREFIX}{PREFIX}/v1/files", "//v1/files"])
def test_nothing_else_is_taken_for_the_prefix(url: str, path: str) -> None:
    assert httpx.get(f"{url}{path}", headers={"authorization": f"Bearer {ALICE.user}"}).status_code == 404

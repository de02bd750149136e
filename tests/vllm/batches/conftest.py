from collections.abc import Iterator
from pathlib import Path

import pytest
from hack.vllm.serving import VllmServer

from fixtures.worker import JobUnderTest, folder_place
from vllm.flags import KEY


@pytest.fixture
def job(tmp_path: Path, vllm: VllmServer) -> Iterator[JobUnderTest]:
    """A job on a volume, against the server that generates text."""
    made = JobUnderTest(folder_place(tmp_path / "volume"), tmp_path, vllm.url)
    yield made
    for process in made.processes:
        if process.process.poll() is None:
            process.kill()


@pytest.fixture
def embedding_job(tmp_path: Path, vllm_embedding: VllmServer) -> JobUnderTest:
    """A job on a volume, against the server that embeds, with its key."""
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "api-key").write_text(KEY)
    return JobUnderTest(folder_place(tmp_path / "volume"), tmp_path, vllm_embedding.url)

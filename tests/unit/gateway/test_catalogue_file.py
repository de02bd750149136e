import logging
from pathlib import Path

import pytest

from batchwright.gateway.catalogue import Catalogue
from batchwright.gateway.catalogue_file import CatalogueFile
from batchwright.gateway.settings import InvalidSettings

ENTRY = "{{model: {model}, cluster: polaris, server: {{url: 'http://vllm:8000'}}}}"


def catalogue_of(*models: str) -> str:
    return f"models: [{', '.join(ENTRY.format(model=model) for model in models)}]\n"


def models_in(catalogue: Catalogue | None) -> list[str] | None:
    return None if catalogue is None else [entry.model for entry in catalogue.models]


class MountedConfigMap:
    """A file as the kubelet mounts it: behind a link `..data`, which is swapped."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        self.path = folder / "models.yaml"
        self._versions = 0
        self.swap(text)
        self.path.symlink_to("..data/models.yaml")

    def swap(self, text: str) -> None:
        self._versions += 1
        version = self.folder / f"..version{self._versions}"
        version.mkdir()
        (version / "models.yaml").write_text(text)
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.folder / "..data")


@pytest.fixture
def mounted(tmp_path: Path) -> MountedConfigMap:
    return MountedConfigMap(tmp_path, catalogue_of("llama"))


def test_a_new_version_of_the_configmap_is_read(mounted: MountedConfigMap) -> None:
    catalogue = CatalogueFile(mounted.path)
    assert models_in(catalogue()) == ["llama"]
    mounted.swap(catalogue_of("llama", "qwen"))
    assert models_in(catalogue()) == ["llama", "qwen"]


def test_a_version_that_has_not_changed_is_read_once(mounted: MountedConfigMap) -> None:
    catalogue = CatalogueFile(mounted.path)
    assert catalogue() is catalogue()


def test_a_version_that_cannot_be_used_keeps_the_last_good_one(
    mounted: MountedConfigMap, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue = CatalogueFile(mounted.path)
    mounted.swap("models: [{model: qwen, cluster: polaris, server: {url: 'http://vllm:8000'}, endpoint: /v1/chat}]")
    with caplog.at_level(logging.ERROR):
        assert models_in(catalogue()) == ["llama"]
        assert models_in(catalogue()) == ["llama"]
    [record] = caplog.records
    assert f"{mounted.path}: models.0.endpoint" in record.getMessage()
    mounted.swap(catalogue_of("qwen"))
    assert models_in(catalogue()) == ["qwen"]


def test_a_file_that_cannot_be_read_keeps_the_last_good_version(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(catalogue_of("llama"))
    catalogue = CatalogueFile(path)
    path.write_bytes(b"models: [\xff\xfe]")
    assert models_in(catalogue()) == ["llama"]
    assert models_in(catalogue()) == ["llama"]
    assert len([record for record in caplog.records if "can't be read" in record.getMessage()]) == 1


def test_no_file_is_no_catalogue_and_one_that_comes_later_is_read(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    catalogue = CatalogueFile(path)
    assert catalogue() is None
    path.write_text(catalogue_of("llama"))
    assert models_in(catalogue()) == ["llama"]
    path.unlink()
    assert catalogue() is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("models: [", "is no YAML"),
        ("", "must be a mapping"),
        ("models: [{model: llama, server: {url: 'http://vllm:8000'}}]", "models.0.cluster: Field required"),
        (f"models: [{ENTRY.format(model='a')}, {ENTRY.format(model='a')}]", "'a' stands twice for polaris/vllm"),
        (
            "models: [{model: m, cluster: c, server: {url: 'http://v:8000'}, endpoints: [/v1/chat]}]",
            "models.0.endpoints.0",
        ),
        ("models: [{model: m, cluster: c/d, server: {url: 'http://v:8000'}}]", "models.0.cluster"),
    ],
)
def test_at_the_start_a_broken_file_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(text)
    with pytest.raises(InvalidSettings, match=r"models\.yaml") as caught:
        CatalogueFile(path)
    assert place in str(caught.value)

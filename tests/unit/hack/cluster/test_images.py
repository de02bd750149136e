"""What an image is made of, and when it must be built anew."""

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hack.cluster import image_loading, images
from hack.cluster.images import PROJECT_IMAGES, SYSTEM_IMAGES, Image
from hack.cluster.paths import REPOSITORY
from hack.cluster.programs import VERSITYGW
from hack.vllm.deployment import IMAGE as VLLM_IMAGE

IMAGE = Image("batchwright.local/thing:dev", "Dockerfile", sources=("lock.txt", "source"), target="thing")
CHILD = Image("batchwright.local/child:dev", "Child.Dockerfile", sources=(), parent=IMAGE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the two images."""
    (tmp_path / "source" / "deep").mkdir(parents=True)
    for name in ("Dockerfile", "Child.Dockerfile", "lock.txt", "source/a.py", "source/deep/b.py", "other.txt"):
        (tmp_path / name).write_text(name)
    return tmp_path


def write(name: str) -> Callable[[Path], object]:
    """A change: other text in a file."""
    return lambda root: (root / name).write_text("changed")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(write("Dockerfile"), id="the Dockerfile"),
        pytest.param(write("lock.txt"), id="a file"),
        pytest.param(write("source/deep/b.py"), id="a file in a folder"),
        pytest.param(write("source/new.py"), id="a new file"),
        pytest.param(lambda root: (root / "source/a.py").rename(root / "source/z.py"), id="a name"),
        pytest.param(lambda root: (root / "source/a.py").chmod(0o755), id="a mode"),
        pytest.param(lambda root: (root / "source/a.py").unlink(), id="a file less"),
    ],
)
def test_a_change_of_what_an_image_is_made_of_changes_its_key(root: Path, change: Callable[[Path], object]) -> None:
    before = images.content_key(IMAGE, root), images.content_key(CHILD, root)

    change(root)

    assert images.content_key(IMAGE, root) != before[0]
    assert images.content_key(CHILD, root) != before[1]


@pytest.mark.parametrize("name", ["other.txt", "source/__pycache__/a.pyc"])
def test_a_change_elsewhere_does_not_change_its_key(root: Path, name: str) -> None:
    before = images.content_key(IMAGE, root)

    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("changed")

    assert images.content_key(IMAGE, root) == before


def test_target_and_program_are_part_of_the_key(root: Path) -> None:
    variants = [IMAGE, replace(IMAGE, target="other"), replace(IMAGE, program=VERSITYGW), replace(IMAGE, on_base=False)]

    assert len({images.content_key(image, root) for image in variants}) == len(variants)


def test_the_dockerfiles_and_sources_of_the_project_are_there() -> None:
    for image in (*PROJECT_IMAGES, *SYSTEM_IMAGES, VLLM_IMAGE):
        assert (REPOSITORY / image.dockerfile).is_file()
        assert all((REPOSITORY / path).is_file() for path in images.source_files(image))


def test_the_manifests_use_the_images_that_are_built() -> None:
    built = {image.reference for image in (*PROJECT_IMAGES, VLLM_IMAGE)}
    used = set()
    for manifest in (REPOSITORY / "manifests").rglob("*.yaml"):
        words = manifest.read_text().replace('"', " ").split()
        used |= {word for word in words if word.startswith("batchwright.local/")}

    assert used
    assert used <= built


def test_what_a_node_has_is_read_from_its_list() -> None:
    table = (
        "REF                         TYPE                                       DIGEST     SIZE    PLATFORMS   LABELS\n"
        "batchwright.local/pause:1   application/vnd.oci.image.manifest.v1+json sha256:123  1.0 MiB linux/amd64 -\n"
    )

    assert image_loading.parse_list(table) == {"batchwright.local/pause:1": "sha256:123"}


def test_an_archive_names_its_image(tmp_path: Path) -> None:
    annotations = {"org.opencontainers.image.ref.name": "batchwright.local/thing:dev"}
    index = tmp_path / "index.json"
    index.write_text(json.dumps({"manifests": [{"digest": "sha256:123", "annotations": annotations}]}))
    with tarfile.open(tmp_path / "archive.tar", "w") as tar:
        tar.add(index, "index.json")

    assert image_loading.identity(tmp_path / "archive.tar") == ("batchwright.local/thing:dev", "sha256:123")

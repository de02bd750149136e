"""The images: what each is made of, and the key that changes when any of it does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .node_configuration import PAUSE_IMAGE
from .paths import REPOSITORY
from .programs import COREDNS, PAUSE, VERSITYGW, Program

REGISTRY = "batchwright.local"
PROGRAM_DOCKERFILE = "hack/cluster/program.Dockerfile"
IGNORED_FOLDERS = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
# mmdebstrap's arguments. Documentation and translations are a fifth of the image, and nobody reads them there.
BASE_ARGUMENTS = (
    "--variant=minbase",
    "--include=python3-minimal,python3-venv,ca-certificates",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "bookworm",
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image and all that it is made of; nothing else reaches its build."""

    reference: str
    dockerfile: str
    sources: tuple[str, ...] = ()
    """Files and folders of the repository, by their paths from its root, where the Dockerfile finds them."""
    target: str = ""
    program: Program | None = None
    """A compiled program, which the Dockerfile finds as `program`."""
    parent: Image | None = None
    """The image that it stands on, if not on the base image."""
    on_base: bool = True
    """Whether it stands on the base image, directly or by its parent."""

    @property
    def name(self) -> str:
        """The reference without registry and tag."""
        return self.reference.rpartition("/")[2].partition(":")[0]

    def ancestors(self) -> Iterator[Image]:
        """The images that it stands on, the nearest first."""
        if self.parent:
            yield self.parent
            yield from self.parent.ancestors()


def _of_program(reference: str, program: Program) -> Image:
    return Image(reference, PROGRAM_DOCKERFILE, program=program, on_base=False)


COREDNS_IMAGE = f"{REGISTRY}/coredns:{COREDNS.version.removeprefix('v')}"
SYSTEM_IMAGES = (_of_program(PAUSE_IMAGE, PAUSE), _of_program(COREDNS_IMAGE, COREDNS))

_PACKAGE = ("requirements/build.txt", "pyproject.toml", "README.md", "LICENSE", "operator/batchwright")
WORKER_IMAGE = Image(
    reference=f"{REGISTRY}/worker:dev",
    dockerfile="operator/Dockerfile",
    sources=(*_PACKAGE, "requirements/worker.txt"),
    target="worker",
)
PROJECT_IMAGES = (
    WORKER_IMAGE,
    Image(
        reference=f"{REGISTRY}/operator:dev",
        dockerfile="operator/Dockerfile",
        sources=(*_PACKAGE, "requirements/operator.txt"),
        target="operator",
    ),
    Image(
        reference=f"{REGISTRY}/gateway:dev",
        dockerfile="operator/Dockerfile",
        sources=(*_PACKAGE, "requirements/gateway.txt"),
        target="gateway",
    ),
    Image(
        reference=f"{REGISTRY}/stub:dev",
        dockerfile="tests/stub/Dockerfile",
        sources=("tests/stub",),
        parent=WORKER_IMAGE,
    ),
    Image(
        reference=f"{REGISTRY}/versitygw:{VERSITYGW.version.removeprefix('v')}",
        dockerfile="hack/cluster/versitygw.Dockerfile",
        program=VERSITYGW,
    ),
)


def base_key() -> str:
    """Changes when the recipe of the base image does."""
    return _digest([" ".join(BASE_ARGUMENTS).encode()])


def source_files(image: Image, root: Path = REPOSITORY) -> Iterator[Path]:
    """All files of an image's sources, by their paths from the root, in a fixed order."""
    for source in image.sources:
        path = root / source
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.is_file() and not IGNORED_FOLDERS.intersection(file.relative_to(root).parts):
                    yield file.relative_to(root)
        else:
            yield Path(source)


def content_key(image: Image, root: Path = REPOSITORY) -> str:
    """Changes when the Dockerfile, a source, the program's version or the base image's recipe does, or the parent."""
    parts = [image.target.encode(), (root / image.dockerfile).read_bytes()]
    if image.parent:
        parts.append(content_key(image.parent, root).encode())
    elif image.on_base:
        parts.append(base_key().encode())
    if image.program:
        parts.append(f"{image.program.name} {image.program.version}".encode())
    for path in source_files(image, root):
        executable = (root / path).stat().st_mode & 0o100
        parts += [str(path).encode(), b"x" if executable else b"-", (root / path).read_bytes()]
    return _digest(parts)


def _digest(parts: list[bytes]) -> str:
    # Each part is hashed for itself, so that no two lists of parts give the same text.
    digests = b"".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(digests).hexdigest()[:16]

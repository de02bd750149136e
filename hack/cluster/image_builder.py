"""Building images, with buildah into archives that are kept by content, or with Docker."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import programs
from .commands import run, succeeds
from .console import Failure, say
from .host import install_image_packages, require_root
from .images import BASE_ARGUMENTS, Image, base_key, content_key, source_files
from .locks import exclusive
from .mounts import unmount_below
from .paths import REPOSITORY, cache_directory

KEPT_ARCHIVES = 3
BUILD_SECONDS = 1200
HERE = Path(__file__).parent


def archive(image: Image) -> Path:
    """Where the archive (OCI layout in a tar file) of an image with its present content is, or will be."""
    return cache_directory() / "images" / image.name / f"{content_key(image)}.tar"


def build(images: Iterable[Image]) -> dict[str, Path]:
    """The archives, by reference, of all `images`; those whose content changed are built.

    Raises:
        Failure: a build fails, or what it needs is missing.
    """
    wanted = {image: archive(image) for image in images}
    if not all(path.is_file() for path in wanted.values()):
        require_root()
        programs.build(image.program for image in wanted if image.program)
        with exclusive(_lock(), "another build of images"):
            install_image_packages()
            _Builder().build({image: path for image, path in wanted.items() if not path.is_file()})
    for path in wanted.values():
        _keep(path)
    return {image.reference: path for image, path in wanted.items()}


def build_with_docker(images: Iterable[Image]) -> list[str]:
    """Build all `images` with Docker, whose own cache makes it quick; their references."""
    wanted = tuple(images)
    programs.build(image.program for image in wanted if image.program)
    for image in wanted:
        say(f"building {image.reference} with Docker ...")
        with _context(image) as context:
            command = ("docker", "build", *_options(image, context), "--tag", image.reference, context)
            run(*command, timeout=BUILD_SECONDS, environment={**os.environ, "DOCKER_BUILDKIT": "1"})
    return [image.reference for image in wanted]


def sweep() -> None:
    """Unmount what a killed build left mounted, unless a build runs now."""
    if _storage().is_dir():
        with exclusive(_lock(), "a build of images"):
            unmount_below(_storage())


class _Builder:
    """buildah, with storage of its own below the cache, apart from the user's."""

    def __init__(self) -> None:
        unmount_below(_storage())
        _storage().mkdir(parents=True, exist_ok=True)
        self._driver = "overlay" if _overlay_works(_storage()) else "vfs"

    def build(self, wanted: dict[Image, Path]) -> None:
        with tempfile.TemporaryDirectory(prefix="batchwright-buildah-") as name:
            self._run_root = Path(name)
            if any(image.on_base for image in wanted):
                self._make_base()
            for image, path in wanted.items():
                say(f"building {image.reference} ...")
                self._build(image, path)
            self._buildah("rmi", "--prune", check=False)

    def _build(self, image: Image, path: Path) -> None:
        with _context(image) as context:
            options = _options(image, context)
            if image.on_base:
                options += ("--build-arg", f"BASE={_base_reference()}")
            self._buildah("build", "--layers", *options, "--tag", image.reference, str(context))
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        self._buildah("push", image.reference, f"oci-archive:{unfinished}:{image.reference}")
        unfinished.replace(path)

    def _make_base(self) -> None:
        if self._buildah("images", "--quiet", _base_reference(), check=False).strip():
            return
        tar = _base_tar()
        say("building the base image ...")
        with tempfile.TemporaryDirectory(prefix="base-", dir=cache_directory()) as context:
            os.link(tar, Path(context) / "base.tar")
            file = HERE / "base.Dockerfile"
            self._buildah("build", "--file", str(file), "--tag", _base_reference(), context)

    def _buildah(self, command: str, *arguments: str, check: bool = True) -> str:
        storage = ("--root", str(_storage()), "--runroot", str(self._run_root), "--storage-driver", self._driver)
        line = ("buildah", *storage, command, *arguments)
        environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
        try:
            return run(*line, timeout=BUILD_SECONDS, environment=environment)
        except Failure:
            if check:
                raise
            return ""


def _base_reference() -> str:
    return f"batchwright.local/base:{base_key()}"


def _base_tar() -> Path:
    tar = cache_directory() / "base" / f"{base_key()}.tar"
    if not tar.is_file():
        say("installing Debian 12 with Python 3.11 into a base image (a minute, once) ...")
        tar.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tar.with_name("unfinished.tar")
        run("mmdebstrap", *BASE_ARGUMENTS, unfinished, timeout=BUILD_SECONDS)
        unfinished.replace(tar)
    return tar


@contextmanager
def _context(image: Image) -> Iterator[Path]:
    """A folder that holds an image's sources and nothing else, so that its content key covers all of it."""
    with tempfile.TemporaryDirectory(prefix="batchwright-image-") as name:
        folder = Path(name)
        for path in source_files(image):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / path, target)  # times are part of buildah's cache keys
        if image.program:
            shutil.copy(image.program.path, folder / "program")
        yield folder


def _options(image: Image, context: Path) -> tuple[str, ...]:
    options: tuple[str, ...] = ("--file", str(REPOSITORY / image.dockerfile))
    if image.target:
        options += ("--target", image.target)
    certificates = os.environ.get("PIP_CERT", "")
    if certificates and image.sources:
        options += ("--secret", f"id=ca,src={certificates}", "--build-arg", "PIP_CERT=/run/secrets/ca")
    return options


def _overlay_works(folder: Path) -> bool:
    """Whether overlayfs can be mounted with its upper layer in `folder`."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        layers = [Path(name) / part for part in ("lower", "upper", "work", "merged")]
        for layer in layers:
            layer.mkdir()
        lower, upper, work, merged = layers
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        if not succeeds("mount", "-t", "overlay", "overlay", "-o", options, merged):
            return False
        run("umount", merged)
        return True


def _keep(path: Path) -> None:
    """Mark an archive as used, and remove the oldest beyond the few that are kept."""
    path.touch()
    others = sorted(path.parent.glob("*.tar"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in others[KEPT_ARCHIVES:]:
        with contextlib.suppress(FileNotFoundError):  # another checkout may be at it too
            old.unlink()


def _storage() -> Path:
    return cache_directory() / "buildah"


def _lock() -> Path:
    return cache_directory() / "images.lock"

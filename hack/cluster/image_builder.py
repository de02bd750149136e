"""Building images, with buildah into archives that are kept by content, or with Docker."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import programs
from .commands import run, succeeds
from .console import ClusterError, say
from .host import install_image_packages, require_root
from .images import BASE_ARGUMENTS, REGISTRY, Image, base_key, content_key, source_files
from .locks import exclusive, if_free
from .mounts import unmount_below
from .paths import REPOSITORY, cache_directory

KEPT_ARCHIVES = 3
KEPT_LAYERS = 1500
BUILD_SECONDS = 1200
DAY_SECONDS = 86_400
HERE = Path(__file__).parent


def build(images: Iterable[Image]) -> dict[str, Path]:
    """The archives (OCI layout in a tar file), by reference, of all `images`; those whose content changed are built.

    Raises:
        ClusterError: a build fails, or what it needs is missing.
    """
    wanted = tuple(images)
    with _snapshot(wanted) as root:
        archives = {
            image: cache_directory() / "images" / image.name / f"{content_key(image, root)}.tar" for image in wanted
        }
        missing = {image: path for image, path in archives.items() if not path.is_file()}
        if missing:
            require_root()
            programs.build(image.program for image in missing if image.program)
            _build_archives(missing, root)
    for path in archives.values():
        _keep(path)
    return {image.reference: path for image, path in archives.items()}


def _build_archives(missing: dict[Image, Path], root: Path) -> None:
    with exclusive(_lock(), "another build of images"):
        install_image_packages()
        with _temporary_folder("run") as run_root:
            builder = _Builder(root, run_root)
            for image, path in missing.items():
                if not path.is_file():  # it may be, since we waited for the lock
                    builder.export(image, path)
            builder.prune()


def build_with_docker(images: Iterable[Image]) -> list[str]:
    """Build all `images` with Docker, whose own cache makes it quick; their references."""
    wanted = tuple(images)
    programs.build(image.program for image in wanted if image.program)
    with _snapshot(wanted) as root:
        for image in wanted:
            say(f"building {image.reference} with Docker ...")
            with _context(image, root) as context:
                command = ("docker", "build", *_options(image, context), "--tag", image.reference, str(context))
                run(*command, timeout=BUILD_SECONDS, environment={**os.environ, "DOCKER_BUILDKIT": "1"})
    return [image.reference for image in wanted]


def sweep() -> None:
    """Unmount what a killed build left mounted, unless a build runs now."""
    with if_free(_lock()) as free:
        if free:
            unmount_below(_storage())


class _Builder:
    """buildah, with storage of its own below the cache, apart from the user's."""

    def __init__(self, root: Path, run_root: Path) -> None:
        """Build from the files below `root`, and keep what need not outlive this object in `run_root`."""
        unmount_below(_storage())
        _storage().mkdir(parents=True, exist_ok=True)
        self._root, self._run_root = root, run_root
        self._driver = "overlay" if _overlay_works(_storage()) else "vfs"
        self._buildah("rm", "--all")  # containers that a killed build left

    def export(self, image: Image, path: Path) -> None:
        """Build an image and write its archive."""
        built = self._build(image)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        compression = ("--compression-format", "zstd", "--compression-level", "1")  # gzip takes five times as long
        self._buildah("push", *compression, built, f"oci-archive:{unfinished}:{image.reference}")
        unfinished.replace(path)

    def prune(self) -> None:
        """Forget all layers once there are very many; the next builds then start anew."""
        if len(self._buildah("images", "--all", "--quiet").split()) > KEPT_LAYERS:
            self._buildah("rmi", "--all", "--force")

    def _build(self, image: Image) -> str:
        """Build an image unless it is there, and what it stands on; its name in the storage, by content."""
        reference = f"{REGISTRY}/{image.name}:{content_key(image, self._root)}"
        if self._has(reference):
            return reference
        base = self._build(image.parent) if image.parent else self._base() if image.on_base else ""
        say(f"building {image.reference} ...")
        with _context(image, self._root) as context:
            options = _options(image, context)
            if base:
                options += ("--build-arg", f"BASE={base}")
            self._buildah("build", "--layers", *options, "--tag", reference, str(context))
        return reference

    def _base(self) -> str:
        reference = f"{REGISTRY}/base:{base_key()}"
        if not self._has(reference):
            tar = _base_tar()
            say("building the base image ...")
            with _temporary_folder("base") as context:
                os.link(tar, context / "base.tar")
                file = HERE / "base.Dockerfile"
                self._buildah("build", "--file", str(file), "--tag", reference, str(context))
        return reference

    def _has(self, reference: str) -> bool:
        with contextlib.suppress(ClusterError):
            return bool(self._buildah("images", "--quiet", reference).strip())
        return False

    def _buildah(self, command: str, *arguments: str) -> str:
        storage = ("--root", str(_storage()), "--runroot", str(self._run_root), "--storage-driver", self._driver)
        environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "TMPDIR": str(_temporary())}
        return run("buildah", *storage, command, *arguments, timeout=BUILD_SECONDS, environment=environment)


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
def _snapshot(images: Iterable[Image]) -> Iterator[Path]:
    """A copy of all that images are made of. Files may change during a build; its key and its content do not."""
    with _temporary_folder("snapshot") as root:
        for image in images:
            for part in (image, *image.ancestors()):
                _copy((Path(part.dockerfile), *source_files(part)), REPOSITORY, root)
        yield root


@contextmanager
def _context(image: Image, root: Path) -> Iterator[Path]:
    """A folder that holds what one image is made of and nothing else, so that its content key covers all of it."""
    with _temporary_folder("context") as context:
        _copy((Path(image.dockerfile), *source_files(image, root)), root, context)
        if image.program:
            shutil.copy(image.program.path, context / "program")
        yield context


def _copy(paths: Iterable[Path], source: Path, target: Path) -> None:
    for path in paths:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, target / path)  # buildah finds a layer again by its files' times too


def _options(image: Image, context: Path) -> tuple[str, ...]:
    options: tuple[str, ...] = ("--file", str(context / image.dockerfile))
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


@contextmanager
def _temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder that goes with the block; those that killed runs left go after a day."""
    parent = _temporary()
    parent.mkdir(parents=True, exist_ok=True)
    for old in parent.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if old.is_dir() and time.time() - old.stat().st_mtime > DAY_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{prefix}-", dir=parent) as name:
        yield Path(name)


def _storage() -> Path:
    return cache_directory() / "buildah"


def _temporary() -> Path:
    return cache_directory() / "temporary"


def _lock() -> Path:
    return cache_directory() / "images.lock"

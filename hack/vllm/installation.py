"""Where a real vLLM is installed, or would be. Values and look-ups only: environment.py makes it."""

from __future__ import annotations

import hashlib
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.paths import REPOSITORY, cache_directory

LOCK_FILE = REPOSITORY / "requirements" / "vllm.txt"
MODELS_SCRIPT = Path(__file__).with_name("tiny_models.py")
# Counts up when environment.py makes another environment of the same files.
RECIPE = 1


@dataclass(frozen=True, slots=True)
class Installation:
    """A virtual environment with vLLM, and the tiny models."""

    folder: Path

    @property
    def environment(self) -> Path:
        """The virtual environment."""
        return self.folder / "venv"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.environment / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Where its packages are."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.environment / "lib" / version / "site-packages"

    @property
    def models(self) -> Path:
        """The folder of all models."""
        return self.folder / "models"

    @property
    def complete(self) -> Path:
        """The file that is written last: without it, the rest is what an install that was stopped has left."""
        return self.folder / ".complete"

    def model(self, name: str) -> Path:
        """The folder of a model: tiny, tiny-embedding or tiny-lora."""
        return self.models / name


def find_installation() -> Installation | None:
    """The installation that this checkout asks for, or None where `make vllm` has not made it."""
    wanted = wanted_installation()
    return wanted if wanted.complete.is_file() else None


def wanted_installation() -> Installation:
    """The installation that this checkout asks for, there or not."""
    interpreter = f"{platform.machine()} {platform.python_version()} {sys.base_prefix}"
    key = installation_key(LOCK_FILE.read_bytes(), MODELS_SCRIPT.read_bytes(), interpreter)
    return Installation(installations_directory() / key)


def installations_directory() -> Path:
    """The folder of the installations of all checkouts."""
    return cache_directory() / "vllm"


def installation_key(lock: bytes, models_script: bytes, interpreter: str) -> str:
    """Changes when the packages, the models or the Python do.

    Args:
        lock: the lock file.
        models_script: what makes the models.
        interpreter: machine, version and prefix of the Python that the environment stands on.
    """
    parts = (lock, models_script, interpreter.encode(), str(RECIPE).encode())
    digests = b"".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(digests).hexdigest()[:16]

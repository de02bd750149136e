"""What `make test` does and says where vLLM is installed, and where it is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hack.cluster.paths import REPOSITORY
from hack.vllm.installation import wanted_installation


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def short_form() -> str:
    """What the target prints; it must end without an error. Pytest itself says no more than its version."""
    # Of a make around this test, neither flags nor variables count.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--silent", "--assume-old=env", "test-vllm-short", f"PYTHON={sys.executable}", "ARGS=--version"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_tests_that_are_left_out_are_named(cache: Path) -> None:
    assert short_form() == "left out: tests against a real vLLM, which is not installed (make vllm)\n"


def test_they_run_where_it_is_installed(cache: Path) -> None:
    complete = wanted_installation().complete
    complete.parent.mkdir(parents=True)
    complete.touch()

    assert short_form() == f"pytest {pytest.__version__}\n"

"""What `make test` does and says where vLLM is not installed."""

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


def make(target: str) -> str:
    """What a target prints; it must end without an error."""
    # Of a make around this test, neither flags nor variables count.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--silent", "--assume-old=env", target, f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_tests_that_are_left_out_are_named(cache: Path) -> None:
    assert make("test-vllm-short") == ""
    assert make("vllm-left-out") == ("left out: tests against a real vLLM, which is not installed (make vllm)\n")


def test_nothing_is_said_where_it_is_installed(cache: Path) -> None:
    complete = wanted_installation().complete
    complete.parent.mkdir(parents=True)
    complete.touch()

    assert make("vllm-left-out") == ""

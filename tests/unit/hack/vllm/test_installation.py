"""Which installation a checkout asks for, and whether it is there."""

from pathlib import Path

import pytest
from hack.vllm.installation import find_installation, installation_key, wanted_installation

LOCK, SCRIPT, INTERPRETER = b"torch==2", b"make()", "x86_64 3.11.7 /usr"


@pytest.mark.parametrize(
    "changed",
    [
        (b"torch==3", SCRIPT, INTERPRETER),
        (LOCK, b"make(2)", INTERPRETER),
        (LOCK, SCRIPT, "x86_64 3.12.0 /usr"),
        # The same bytes, parted elsewhere.
        (LOCK + SCRIPT[:1], SCRIPT[1:], INTERPRETER),
    ],
    ids=["packages", "models", "Python", "where a file ends"],
)
def test_what_it_is_made_of_changes_the_key(changed: tuple[bytes, bytes, str]) -> None:
    assert installation_key(*changed) != installation_key(LOCK, SCRIPT, INTERPRETER)


def test_the_key_of_the_same_is_the_same() -> None:
    assert installation_key(LOCK, SCRIPT, INTERPRETER) == installation_key(LOCK, SCRIPT, INTERPRETER)


def test_an_installation_is_found_once_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    wanted = wanted_installation()
    assert wanted.folder.is_relative_to(tmp_path / "batchwright" / "vllm")
    assert find_installation() is None

    wanted.model("tiny").mkdir(parents=True)
    assert find_installation() is None

    wanted.complete.touch()
    assert find_installation() == wanted

"""`batchwright gateway`: hands everything over, and says what is missing where it can't."""

import subprocess
import sys

import pytest

from batchwright.cli.main import main


def test_the_gateways_own_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "--help"]) == 0
    assert "usage: batchwright-gateway" in capsys.readouterr().out


def test_the_gateways_exit_code_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "swerve"]) == 2
    assert "usage: batchwright-gateway" in capsys.readouterr().err


def test_options_are_the_gateways_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gateway", "keys", "create", "--help"])
    assert "--namespace" in capsys.readouterr().out


@pytest.mark.parametrize(("missing", "words"), [("kubernetes", ["keys", "list"]), ("uvicorn", ["serve"])])
def test_without_the_extra_it_says_how_to_install_it(missing: str, words: list[str]) -> None:
    program = (
        "import sys; sys.modules[sys.argv[1]] = None; from batchwright.cli.main import main; exit(main(sys.argv[2:]))"
    )
    command = [sys.executable, "-c", program, missing, "gateway", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "pip install 'batchwright[gateway]'" in done.stderr
    assert missing in done.stderr

"""What docs/tuning.md names of vLLM exists: flags of its server, and metrics that it serves."""

import os
import re
import subprocess
from pathlib import Path

import httpx
import pytest
from hack.vllm.installation import Installation
from hack.vllm.serving import ENVIRONMENT, VllmServer

MANUAL = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
# Commands of Batchwright and of Kubernetes, which have flags of their own.
COMMANDS = re.compile(r"^```(?:console|sh)\n.*?^```$", re.MULTILINE | re.DOTALL)
LIST_FLAGS = """
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
for action in make_arg_parser(FlexibleArgumentParser())._actions:
    print(*action.option_strings, sep="\\n")
"""


def test_the_flags_are_those_of_the_server(installation: Installation) -> None:
    command = [str(installation.python), "-c", LIST_FLAGS]
    done = subprocess.run(
        command, env={**os.environ, **ENVIRONMENT}, cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", COMMANDS.sub("", MANUAL)))
    assert "--max-num-seqs" in named
    assert named <= set(done.stdout.split())


@pytest.mark.vllm_short
def test_the_metrics_are_those_of_the_server(vllm: VllmServer) -> None:
    served = set(
        re.findall(r"^(vllm:\w+)", httpx.get(f"{vllm.url}/metrics", trust_env=False, timeout=30).text, re.MULTILINE)
    )
    histograms = {name.removesuffix("_count") for name in served}
    named = set(re.findall(r"`(vllm:\w+)`", MANUAL))
    assert "vllm:num_requests_running" in named
    assert named <= served | histograms

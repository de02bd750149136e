"""Starting and ending a server, with a small one in vLLM's place: real processes, real signals, a real socket."""

import contextlib
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hack.vllm.installation import Installation
from hack.vllm.serving import ServerFailedError, end_group, lora_flags, vllm_server

# It answers /health with what it was started with, and has a child, as vLLM has.
SERVER = """\
import http.server, json, os, subprocess, sys
arguments = sys.argv[1:]
child = subprocess.Popen([sys.executable, "-c", CHILD])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        told = {"arguments": arguments, "child": child.pid, "environment": dict(os.environ)}
        self.wfile.write(json.dumps(told).encode())
port = int(arguments[arguments.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
PATIENT_CHILD = "import time; time.sleep(600)"
STUBBORN_CHILD = """\
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def install(tmp_path: Path) -> Callable[[str], Installation]:
    """Makes an installation whose Python runs one program, whatever module it is asked for."""

    def make(program: str) -> Installation:
        installation = Installation(tmp_path / "installation")
        installation.python.parent.mkdir(parents=True)
        (tmp_path / "program.py").write_text(program)
        installation.python.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/program.py "$@"\n')
        installation.python.chmod(0o755)
        return installation

    return make


def server_with(child: str) -> str:
    return f"CHILD = {child!r}\n{SERVER}"


def report(url: str) -> dict[str, object]:
    """What the small server says about itself."""
    with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
        told = json.load(answer)
    assert isinstance(told, dict)
    return told


def alive(process: int) -> bool:
    """Whether a process runs; one that is dead and not yet seen to by the first process of all does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    return False


def test_a_server_runs_as_long_as_the_block_and_has_the_model_the_flags_and_the_environment(
    install: Callable[[str], Installation],
) -> None:
    installation = install(server_with(PATIENT_CHILD))

    with vllm_server(installation, "--max-model-len", "64", environment={"OMP_NUM_THREADS": "2"}) as server:
        told = report(server.url)
        assert alive(server.pid)

    arguments, environment = told["arguments"], told["environment"]
    assert isinstance(arguments, list)
    assert isinstance(environment, dict)
    assert arguments[:6] == [
        *("-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(installation.model("tiny")), "--served-model-name", "tiny"),
    ]
    assert arguments[-2:] == ["--max-model-len", "64"]
    assert environment["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert environment["OMP_NUM_THREADS"] == "2"
    assert not alive(server.pid)


def test_a_server_may_have_another_model_and_name(install: Callable[[str], Installation]) -> None:
    installation = install(server_with(PATIENT_CHILD))

    with vllm_server(installation, model="tiny-embedding", served_name="other") as server:
        arguments = report(server.url)["arguments"]

    assert server.model == "other"
    assert isinstance(arguments, list)
    assert arguments[3:6] == [str(installation.model("tiny-embedding")), "--served-model-name", "other"]


def test_its_children_end_with_it_also_after_a_failure_in_the_block(install: Callable[[str], Installation]) -> None:
    children = []

    def fail_in_the_block() -> None:
        with vllm_server(install(server_with(PATIENT_CHILD))) as server:
            children.append(int(str(report(server.url)["child"])))
            assert alive(children[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_block()

    assert not alive(children[0])


def test_a_child_that_takes_no_sigterm_is_killed() -> None:
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {STUBBORN_CHILD!r}])"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())

    end_group(process, seconds=0.2)

    assert process.returncode is not None
    gone, _ = psutil.wait_procs([psutil.Process(child)] if alive(child) else [], timeout=30)
    assert gone or not alive(child)


def test_a_server_that_ends_at_once_says_why(install: Callable[[str], Installation], tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "print('ValueError: no such model'); print('\\n'.join(['noise'] * 99)); print('the end'); raise SystemExit(3)"
    )

    with pytest.raises(ServerFailedError) as caught, vllm_server(install(program), log=log):
        pass

    assert "ended with code 3" in str(caught.value)
    assert "ValueError: no such model" in str(caught.value)
    assert str(caught.value).endswith("the end")


def test_a_server_that_is_killed_at_its_start_is_not_waited_for(install: Callable[[str], Installation]) -> None:
    program = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"

    with pytest.raises(ServerFailedError, match="ended with code -9"), vllm_server(install(program)):
        pass


def test_the_adapter_is_served_under_its_name(tmp_path: Path) -> None:
    flags = lora_flags(Installation(tmp_path))
    assert flags == ("--enable-lora", "--lora-modules", f"tiny-lora={tmp_path}/models/tiny-lora")

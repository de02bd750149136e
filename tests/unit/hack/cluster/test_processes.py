"""Finding the cluster's processes, in a folder that stands for /proc, and starting and killing real ones."""

import os
import sys
import time
from pathlib import Path

import pytest
from hack.cluster import processes

STATE = Path("/state")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A folder for processes, with our own."""
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "net").symlink_to("net:[1]")
    return tmp_path


def add(
    proc: Path,
    pid: int,
    *,
    state: str | None,
    role: str = "node-1",
    session: int = 1,
    inner: int = 0,
    network: str = "net:[1]",
) -> None:
    """A process; without `state` it is none of a cluster's."""
    folder = proc / str(pid)
    (folder / "ns").mkdir(parents=True)
    (folder / "ns" / "net").symlink_to(network)
    marks = [f"{processes.STATE_VARIABLE}={state}", f"{processes.ROLE_VARIABLE}={role}"] if state else []
    (folder / "environ").write_bytes("\0".join(["PATH=/bin", *marks, ""]).encode())
    inner_pid = f"\t{inner}" if inner else ""
    (folder / "status").write_text(f"Name:\tx\nNSpid:\t{pid}{inner_pid}\nNSsid:\t{session}\n")


def test_only_marked_processes_are_found(proc: Path) -> None:
    add(proc, 10, state=None)
    add(proc, 11, state="/state")
    (proc / "12").mkdir()  # it ended just now
    (proc / "meminfo").touch()

    assert [process.pid for process in processes.find(proc)] == [11]


def test_a_process_tells_whether_it_is_on_our_network(proc: Path) -> None:
    add(proc, 15, state="/state")
    add(proc, 16, state="/state", network="net:[2]")

    assert {process.pid: process.on_our_network for process in processes.find(proc)} == {15: True, 16: False}


def test_the_main_process_of_a_role_leads_its_session(proc: Path) -> None:
    add(proc, 20, state="/state", role="etcd", session=20)
    add(proc, 21, state="/state", role="etcd", session=20)
    add(proc, 22, state="/elsewhere", role="etcd", session=22)

    found = processes.main_process(processes.find(proc), STATE, "etcd")

    assert found is not None
    assert found.pid == 20


def test_the_first_process_of_a_node_is_number_one_of_its_namespace(proc: Path) -> None:
    add(proc, 30, state="/state", session=30)
    add(proc, 31, state="/state", session=30, inner=1)
    add(proc, 32, state="/state", session=30, inner=7)

    found = processes.first_process(processes.find(proc), STATE, "node-1")

    assert found is not None
    assert found.pid == 31
    assert processes.first_process(processes.find(proc), STATE, "node-2") is None


def test_a_started_process_is_found_with_a_clean_environment_and_killed(tmp_path: Path) -> None:
    os.environ["HTTPS_PROXY_OF_THE_TEST"] = "1"
    code = "import os, time; print('HTTPS_PROXY_OF_THE_TEST' in os.environ, flush=True); time.sleep(60)"
    log = tmp_path / "log" / "sleeper.log"
    try:
        processes.start("sleeper", [sys.executable, "-c", code], state=tmp_path, log=log)
        deadline = time.monotonic() + 20
        while not log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        del os.environ["HTTPS_PROXY_OF_THE_TEST"]
        found = processes.main_process(processes.find(), tmp_path, "sleeper")
        gone = processes.kill(tmp_path, "sleeper", seconds=10)

    assert log.read_text() == "False\n"
    assert found is not None
    assert gone
    assert processes.main_process(processes.find(), tmp_path, "sleeper") is None

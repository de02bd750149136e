"""What is done to the API server, with a process that stands for it."""

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hack.cluster import control_plane, processes
from hack.cluster.console import ClusterError
from hack.cluster.layout import Layout

from fixtures.cluster import eventually

ROLE = "kube-apiserver"


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """A cluster of nothing but a process in the place of the API server."""
    layout = Layout(state=tmp_path, runtime=tmp_path)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    processes.start(ROLE, command, state=tmp_path, log=tmp_path / "log")
    yield layout
    processes.kill(tmp_path, ROLE, seconds=10)


def state_of(layout: Layout) -> str:
    """S while it sleeps, T while it is stopped."""
    process = processes.main_process(processes.find(), layout.state, ROLE)
    assert process is not None
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def has_state(layout: Layout, state: str) -> None:
    assert state_of(layout) == state


def test_a_paused_api_server_hangs_and_goes_on(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_plane, "_wait_until_ready", lambda _: None)
    over = threading.Event()
    monkeypatch.setattr(control_plane, "time", SimpleNamespace(sleep=lambda _: over.wait(20)))
    eventually(lambda: has_state(layout, "S"))
    pause = threading.Thread(target=control_plane.pause_api_server, args=(layout, 1))
    pause.start()
    try:
        eventually(lambda: has_state(layout, "T"))
    finally:
        over.set()
        pause.join()
    eventually(lambda: has_state(layout, "S"))


def test_a_start_mends_a_pause_that_was_killed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("_start", "_remove_sockets", "_wait_until_ready"):
        monkeypatch.setattr(control_plane, part, lambda *_: None)
    eventually(lambda: has_state(layout, "S"))
    assert control_plane._signal_api_server(layout, signal.SIGSTOP)
    eventually(lambda: has_state(layout, "T"))
    control_plane.start(layout)
    eventually(lambda: has_state(layout, "S"))


@pytest.mark.parametrize("away", [control_plane.pause_api_server, control_plane.stop_api_server])
def test_without_a_cluster_there_is_nothing_to_pause(tmp_path: Path, away: object) -> None:
    assert callable(away)
    with pytest.raises(ClusterError, match="does not run"):
        away(Layout(state=tmp_path, runtime=tmp_path), 0)

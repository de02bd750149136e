"""The cluster's commands as a person runs them, in a machine within the machine: real processes, real Kubernetes.

No test touches the cluster that may run beside. The tests of this file build on each other, in their order.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ISOLATE = Path(__file__).with_name("isolate.sh")
SNAPSHOT = """
ip -o link show; ip route show; ip netns list; iptables-save | grep -v '^#' || true
cut -d ' ' -f 5 /proc/self/mountinfo | grep -v /buildah/  # a build of images outside may go on
find /sys/fs/cgroup -type d | sort; find /run "$XDG_STATE_HOME" -not -name '*.lock' | sort
ps -eo args | grep -v -e '<defunct>' -e '^ps' -e '^grep' -e '^bash' -e '^sort' -e '^find' | sort
cat /proc/sys/net/ipv4/ip_forward
"""

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0,
        reason="only root makes a machine within the machine",
    ),
]


@dataclass(frozen=True)
class Machine:
    """A machine of its own, with checkouts of this repository on it."""

    pid: int
    folder: Path

    def command(self, *command: str, checkout: str = "first") -> list[str]:
        """A command line that runs `command` there, in the folder of a checkout."""
        enter = ["nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", "--cgroup", "--ipc"]
        join = 'for f in /sys/fs/cgroup{,/*}{/processes,}/cgroup.procs; do echo 0 >"$f"; done'
        script = f'cd "$0" && {{ {join}; }} 2>/dev/null; exec "$@"'
        return [*enter, "bash", "-c", script, str(self.checkout(checkout)), *command]

    def run(self, *command: str, checkout: str = "first", fails: bool = False) -> str:
        """What a command prints, both streams in one; one that ends as it should not raises AssertionError."""
        done = subprocess.run(
            self.command(*command, checkout=checkout),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout
        return done.stdout

    def cluster(self, *arguments: str, checkout: str = "first", fails: bool = False) -> str:
        """What one of the cluster's commands prints."""
        return self.run(sys.executable, "-m", "hack.cluster", *arguments, checkout=checkout, fails=fails)

    def kubectl(self, *arguments: str, checkout: str = "first") -> str:
        """What kubectl prints, as a person uses it who follows the README."""
        return self.run(".cluster/bin/kubectl", "--kubeconfig", ".cluster/kubeconfig", *arguments, checkout=checkout)

    def snapshot(self) -> str:
        """Everything that a cluster could leave behind."""
        return self.run("bash", "-c", SNAPSHOT)

    def processes(self) -> dict[str, int]:
        """The cluster's main processes by role, with their numbers as the machine sees them."""
        code = (
            "from hack.cluster.processes import find; "
            "print(*(f'{p.role} {p.pid}' for p in find() if p.leads_session), sep='\\n')"
        )
        lines = (line.split() for line in self.run(sys.executable, "-c", code).splitlines() if line)
        return {role: int(pid) for role, pid in lines}

    def checkout(self, name: str) -> Path:
        """A checkout with what the commands need of it."""
        folder = self.folder / name
        if not folder.is_dir():
            shutil.copytree(ROOT / "hack", folder / "hack", ignore=shutil.ignore_patterns("__pycache__"))
        return folder

    @property
    def environment(self) -> dict[str, str]:
        """The caller's environment, with the cluster's state elsewhere; programs come from the usual cache."""
        return {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine without a cluster; all that runs there ends with it."""
    group = f"batchwright-test-{os.getpid()}"
    holder = subprocess.Popen(
        ["bash", str(ISOLATE), group], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "ready\n", "this machine lets us make no machine within it"
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        folder = tmp_path_factory.mktemp("machine")
        (folder / "state").mkdir()
        yield Machine(int(children[0]), folder)
    finally:
        holder.stdin.close()
        holder.wait(timeout=30)
        _remove_groups(group)


@pytest.fixture(scope="module")
def before(machine: Machine) -> str:
    """The machine before any cluster."""
    machine.run("python3", "-c", "")
    return machine.snapshot()


def _remove_groups(name: str) -> None:
    deadline = time.monotonic() + 10
    for group in (*Path("/sys/fs/cgroup").glob(f"*/{name}"), Path("/sys/fs/cgroup", name)):
        while group.is_dir() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
            time.sleep(0.05)


def test_up_brings_a_ready_node_with_names_and_service_accounts(machine: Machine, before: str) -> None:
    printed = machine.cluster("up")

    assert f"export KUBECONFIG={machine.checkout('first')}/.cluster/kubeconfig" in printed
    assert "Ready" in machine.kubectl("get", "node", "node-1", "--no-headers").split()
    assert "1/1" in machine.kubectl("-n", "kube-system", "get", "deployment", "coredns", "--no-headers")
    assert "default" in machine.kubectl("get", "serviceaccount", "--no-headers")


def test_logs_and_commands_of_pods_can_be_reached(machine: Machine) -> None:
    assert "CoreDNS" in machine.kubectl("-n", "kube-system", "logs", "deployment/coredns")
    version = machine.kubectl("-n", "kube-system", "exec", "deployment/coredns", "--", "/program", "-version")
    assert version.startswith("CoreDNS")


def test_the_host_reaches_services_and_pods(machine: Machine) -> None:
    address = machine.kubectl("-n", "kube-system", "get", "pods", "-o", "jsonpath={.items[0].status.podIP}")
    code = "import socket, sys; socket.create_connection((sys.argv[1], 53), 10)"
    machine.run(sys.executable, "-c", code, address)
    machine.run(sys.executable, "-c", code, "10.96.0.10")


def test_up_again_changes_nothing(machine: Machine) -> None:
    processes = machine.processes()

    machine.cluster("up")

    assert machine.processes() == processes
    # A new kind makes the API server connect to etcd anew.
    machine.kubectl("apply", "--server-side", "-f", str(ROOT / "crds" / "batchjobs.yaml"))
    machine.kubectl("wait", "--for=condition=Established", "crd/batchjobs.batchwright.dev", "--timeout=30s")
    assert "No resources found" in machine.kubectl("get", "batchjobs", "--all-namespaces", "--request-timeout=20s")


def test_another_checkout_gets_the_same_cluster(machine: Machine) -> None:
    processes = machine.processes()

    machine.cluster("up", checkout="second")

    assert machine.processes() == processes
    assert "node-1" in machine.kubectl("get", "nodes", checkout="second")


def test_nodes_can_be_added(machine: Machine) -> None:
    machine.cluster("up", "--nodes", "2")

    assert machine.kubectl("get", "nodes", "--no-headers").count(" Ready ") == 2


def test_a_killed_node_is_missed_and_comes_back(machine: Machine) -> None:
    machine.cluster("kill-node", "2")
    assert "node-2" not in machine.processes()
    machine.kubectl("wait", "--for=condition=Ready=Unknown", "node/node-2", "--timeout=60s")

    machine.cluster("revive-node", "2")

    assert "Ready" in machine.kubectl("get", "node", "node-2", "--no-headers").split()


def test_services_are_reached_through_another_node_when_the_first_is_killed(machine: Machine) -> None:
    machine.cluster("kill-node", "1")

    assert "via 198.18.0.12" in machine.run("ip", "route", "get", "10.96.0.10")
    machine.cluster("revive-node", "1")
    assert "via 198.18.0.11" in machine.run("ip", "route", "get", "10.96.0.10")


def test_up_mends_what_a_killed_cluster_left(machine: Machine) -> None:
    numbers = map(str, machine.processes().values())
    machine.run("bash", "-c", 'kill -KILL "$@"', "bash", *numbers)
    machine.run("ip", "link", "delete", "batchwright0")

    machine.cluster("up")

    assert machine.kubectl("get", "nodes", "--no-headers").count(" Ready ") == 2


def test_a_node_that_does_not_exist_is_named(machine: Machine) -> None:
    assert "there is no node-3: 'make cluster-up NODES=3' adds it" in machine.cluster("revive-node", "3", fails=True)


def test_down_leaves_nothing_behind(machine: Machine, before: str) -> None:
    machine.cluster("down")

    assert machine.snapshot() == before
    assert not (machine.checkout("first") / ".cluster").exists()


def test_down_without_a_cluster_is_no_error(machine: Machine, before: str) -> None:
    machine.cluster("down")

    assert machine.snapshot() == before


@pytest.mark.parametrize("seconds", [1.5, 3, 5])
def test_down_removes_what_a_killed_up_left(machine: Machine, before: str, seconds: float) -> None:
    command = machine.command(sys.executable, "-m", "hack.cluster", "up")
    up = subprocess.Popen(command, env=machine.environment, start_new_session=True)
    time.sleep(seconds)
    os.killpg(up.pid, signal.SIGKILL)
    up.wait(timeout=10)

    machine.cluster("down")

    assert machine.snapshot() == before

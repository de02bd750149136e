"""Starting and killing nodes."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from . import cgroups, image_loading, network, node_configuration, processes
from .commands import succeeds, wait_until
from .console import ClusterError, say
from .layout import Layout, Node
from .programs import NODE_PROGRAMS

INIT_SCRIPT = Path(__file__).with_name("node-init.sh")
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))


def running(layout: Layout, node: Node) -> bool:
    """Whether the node's first process lives."""
    return _first(layout, node) is not None


def start(layout: Layout, node: Node) -> None:
    """Start a node with all images of the cluster, unless it runs.

    What an earlier run left of the node goes first, except its folder.

    Raises:
        ClusterError: the node's network or container runtime did not come up.
    """
    if not _usable(layout, node):
        say(f"starting {node.name} ...")
        clean(layout, node)
        _prepare(layout, node)
        _start_services(layout, node)
    image_loading.load_into(layout, node)
    _kubelet_may_start(layout, node).touch()


def kill(layout: Layout, node: Node) -> None:
    """SIGKILL the node's first process, and with it all of the node, as a power cut would.

    Raises:
        ClusterError: the node does not run.
    """
    first = _first(layout, node)
    if first is None:
        raise ClusterError(f"{node.name} does not run")
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not running(layout, node), f"{node.name} did not die", seconds=30)


def clean(layout: Layout, node: Node) -> None:
    """Kill and remove everything of a node except its folder: processes, control groups, sockets.

    Raises:
        ClusterError: a process does not die.
    """
    if not processes.kill(layout.state, node.name):
        raise ClusterError(f"processes of {node.name} do not die; a restart of the machine ends them")
    if not cgroups.remove(node.cgroup, cgroups.hierarchies()):
        raise ClusterError(f"the control group {node.cgroup} is still in use")
    shutil.rmtree(layout.containerd_socket(node).parent, ignore_errors=True)


def route_services(layout: Layout) -> None:
    """Let the host reach Services through the first node that runs."""
    for node in layout.known_nodes():
        if running(layout, node):
            network.route_services(node)
            return


def _usable(layout: Layout, node: Node) -> bool:
    """Whether a node runs that a start brought to its end; one that was killed half way did not."""
    first = _first(layout, node)
    return first is not None and network.connected(first.pid) and _runtime_answers(layout, node)


def _start_services(layout: Layout, node: Node) -> None:
    log, remedy = layout.logs / f"{node.name}.log", f"see {layout.logs}/{node.name}*.log"
    processes.start(node.name, _command(layout, node), state=layout.state, log=log)
    wait_until(lambda: running(layout, node), f"{node.name} did not start", seconds=20, remedy=remedy)
    first = _first(layout, node)
    if first is None:
        raise ClusterError(f"{node.name} ended at once: {remedy}")
    network.connect(node, first.pid)
    answers = f"containerd of {node.name} did not answer"
    wait_until(lambda: _runtime_answers(layout, node), answers, seconds=60, remedy=remedy)


def _first(layout: Layout, node: Node) -> processes.Process | None:
    return processes.first_process(processes.find(), layout.state, node.name)


def _kubelet_may_start(layout: Layout, node: Node) -> Path:
    return layout.containerd_socket(node).parent / "images-loaded"


def _prepare(layout: Layout, node: Node) -> None:
    folder = layout.node(node)
    layout.containerd_socket(node).parent.mkdir(parents=True, exist_ok=True)
    configuration = node_configuration.files(
        layout, node, cni_plugins=_cni_plugins(), snapshotter=_snapshotter(layout.state)
    )
    for name, text in configuration.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # Bash reads a script while it runs it: the node has its own copy, and the program's links of the version it runs.
    shutil.copyfile(INIT_SCRIPT, folder / INIT_SCRIPT.name)
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for program in NODE_PROGRAMS:
        (programs / program.name).unlink(missing_ok=True)
        (programs / program.name).symlink_to(program.path)
    cgroups.make(node.cgroup, cgroups.hierarchies())


def _command(layout: Layout, node: Node) -> list[str]:
    folder, runtime = layout.node(node), layout.containerd_socket(node).parent
    namespaces = ["--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]
    script = ["bash", str(folder / INIT_SCRIPT.name)]
    arguments = [node.name, node.address, str(layout.state), str(runtime), str(folder / "programs")]
    return ["unshare", *namespaces, *script, *arguments]


def _runtime_answers(layout: Layout, node: Node) -> bool:
    socket = layout.containerd_socket(node)
    return socket.exists() and succeeds("ctr", "--address", socket, "--connect-timeout", "2s", "version", timeout=3)


def _cni_plugins() -> Path:
    for folder in CNI_FOLDERS:
        if (folder / "bridge").is_file():
            return folder
    raise ClusterError(
        f"the network plugins (containernetworking-plugins) are in none of {', '.join(map(str, CNI_FOLDERS))}"
    )


def _snapshotter(state: Path) -> str:
    """How containerd keeps layers: overlayfs, or plain copies where that cannot be put on top of itself."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    below = [fields for fields in mounts if state.is_relative_to(fields[1].replace("\\040", " "))]
    return "native" if max(below, key=lambda fields: len(fields[1]))[2] == "overlay" else "overlayfs"

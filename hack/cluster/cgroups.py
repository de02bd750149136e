"""The control groups below which a node's kubelet keeps its pods: version 1, version 2, or both mounted."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from .console import ClusterError

# What kubelet asks for, and what it uses where it is there.
NEEDED_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
OPTIONAL_CONTROLLERS = ("io", "hugetlb")


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where this machine's control groups are mounted."""

    version_1: tuple[Path, ...]
    version_2: Path | None

    @property
    def unified(self) -> bool:
        """Whether version 2 has the controllers. On a hybrid machine it is mounted, but empty."""
        return self.version_2 is not None and not self.version_1

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders below which every node gets a control group."""
        return (self.version_2,) if self.version_2 and self.unified else self.version_1

    @property
    def all_roots(self) -> tuple[Path, ...]:
        """The folders below which groups may be left: on a hybrid machine runc makes some in version 2 too."""
        return (*self.version_1, self.version_2) if self.version_2 else self.version_1


def parse_mounts(mountinfo: str) -> Hierarchies:
    """The hierarchies in the text of /proc/self/mountinfo (its format: proc_pid_mountinfo(5))."""
    version_1, version_2 = [], None
    for line in mountinfo.splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            version_2 = Path(fields.split()[4])
        elif kind.startswith("cgroup "):
            version_1.append(Path(fields.split()[4]))
    return Hierarchies(tuple(version_1), version_2)


def hierarchies() -> Hierarchies:
    """The hierarchies of this machine.

    Raises:
        ClusterError: none is mounted.
    """
    found = parse_mounts(Path("/proc/self/mountinfo").read_text())
    if not found.roots:
        raise ClusterError("this machine has no control groups mounted below /sys/fs/cgroup: kubelet needs them")
    return found


def make(name: str, machine: Hierarchies) -> None:
    """Make the group `name` in every hierarchy, so that a kubelet can put its pods below it."""
    if machine.unified:
        _enable_controllers(machine.roots[0])
    for root in machine.roots:
        group = root / name
        group.mkdir(exist_ok=True)
        # In version 1 a new cpuset is empty, and no process can enter it.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (group / setting).is_file() and not machine.unified:
                (group / setting).write_text((root / setting).read_text())


def _enable_controllers(root: Path) -> None:
    available = (root / "cgroup.controllers").read_text().split()
    missing = [name for name in NEEDED_CONTROLLERS if name not in available]
    if missing:
        raise ClusterError(f"the control groups of {root} lack {', '.join(missing)}: kubelet needs them")
    enabled = (root / "cgroup.subtree_control").read_text().split()
    for name in (*NEEDED_CONTROLLERS, *OPTIONAL_CONTROLLERS):
        if name in available and name not in enabled:
            try:
                (root / "cgroup.subtree_control").write_text(f"+{name}")
            except OSError as error:
                if name in NEEDED_CONTROLLERS:
                    raise ClusterError(
                        f"the controller {name} cannot be enabled below {root}: {error.strerror}"
                    ) from None


def remove(name: str, machine: Hierarchies, *, seconds: float = 10) -> bool:
    """Remove the group `name` with all below it; False when one is still busy after `seconds`."""
    end = time.monotonic() + seconds
    while any((root / name).is_dir() for root in machine.all_roots):
        for root in machine.all_roots:
            _remove_tree(root / name)
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _remove_tree(group: Path) -> None:
    # A control group is removed by rmdir once its children and processes are gone; its files cannot be deleted.
    with contextlib.suppress(OSError):
        for child in group.iterdir():
            if child.is_dir():
                _remove_tree(child)
        group.rmdir()

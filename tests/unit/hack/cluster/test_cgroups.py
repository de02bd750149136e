"""Control groups of both versions, on folders that stand for them."""

from pathlib import Path

import pytest
from hack.cluster import cgroups
from hack.cluster.cgroups import Hierarchies
from hack.cluster.console import ClusterError

VERSION_1 = "30 25 0:26 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset\n"
VERSION_2 = "31 25 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
OTHER = "32 25 0:28 / /proc rw,relatime - proc proc rw\n"


@pytest.mark.parametrize(
    ("mounts", "unified", "roots"),
    [
        pytest.param(VERSION_1 + OTHER, False, ("/sys/fs/cgroup/cpuset",), id="version 1"),
        pytest.param(VERSION_2 + OTHER, True, ("/sys/fs/cgroup",), id="version 2"),
        pytest.param(VERSION_1 + VERSION_2, False, ("/sys/fs/cgroup/cpuset",), id="hybrid"),
        pytest.param(OTHER, False, (), id="none"),
    ],
)
def test_the_hierarchies_are_read_from_the_mounts(mounts: str, unified: bool, roots: tuple[str, ...]) -> None:
    found = cgroups.parse_mounts(mounts)

    assert found.unified == unified
    assert found.roots == tuple(map(Path, roots))


def test_a_hybrid_machine_is_cleaned_in_both_versions() -> None:
    assert set(cgroups.parse_mounts(VERSION_1 + VERSION_2).all_roots) == {
        Path("/sys/fs/cgroup"),
        Path("/sys/fs/cgroup/cpuset"),
    }


def test_a_new_group_of_version_1_gets_processors_and_memory(tmp_path: Path) -> None:
    cpuset, memory = tmp_path / "cpuset", tmp_path / "memory"
    (cpuset / "node").mkdir(parents=True)
    memory.mkdir()
    for name, value in (("cpuset.cpus", "0-1"), ("cpuset.mems", "0")):
        (cpuset / name).write_text(value)
        (cpuset / "node" / name).touch()  # the kernel makes it

    cgroups.make("node", Hierarchies((cpuset, memory), None))

    assert (cpuset / "node" / "cpuset.cpus").read_text() == "0-1"
    assert (cpuset / "node" / "cpuset.mems").read_text() == "0"
    assert (memory / "node").is_dir()


def unified(root: Path, *, available: str, enabled: str) -> Hierarchies:
    """A hierarchy of version 2."""
    (root / "cgroup.controllers").write_text(available)
    (root / "cgroup.subtree_control").write_text(enabled)
    return Hierarchies((), root)


def test_version_2_passes_on_the_controllers_that_it_does_not_yet(tmp_path: Path) -> None:
    machine = unified(tmp_path, available="cpuset cpu io memory pids misc", enabled="cpu io memory pids")

    cgroups.make("node", machine)

    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpuset"
    assert (tmp_path / "node").is_dir()


def test_a_missing_controller_of_version_2_is_named(tmp_path: Path) -> None:
    machine = unified(tmp_path, available="cpu memory pids", enabled="")

    with pytest.raises(ClusterError, match="lack cpuset"):
        cgroups.make("node", machine)


def test_a_group_goes_with_all_below_it(tmp_path: Path) -> None:
    (tmp_path / "node" / "kubepods" / "pod").mkdir(parents=True)

    assert cgroups.remove("node", Hierarchies((tmp_path,), None))
    assert not (tmp_path / "node").exists()


def test_a_group_that_stays_is_told(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "busy").touch()  # a file that is the group's own would go with it; this one keeps it

    assert not cgroups.remove("node", Hierarchies((tmp_path,), None), seconds=0.2)

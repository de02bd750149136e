"""Which mounts lie below a folder."""

from pathlib import Path

from hack.cluster.mounts import mount_points_below

MOUNTINFO = """\
22 1 8:1 / / rw - ext4 /dev/sda rw
30 22 0:30 / /state rw - tmpfs tmpfs rw
31 30 0:31 / /state/node-1/a\\040b rw - tmpfs tmpfs rw
32 22 0:32 / /state-of-others rw - tmpfs tmpfs rw
"""


def test_mounts_below_a_folder_come_innermost_first() -> None:
    assert mount_points_below(Path("/state"), MOUNTINFO) == [Path("/state/node-1/a b"), Path("/state")]


def test_a_folder_without_mounts_has_none() -> None:
    assert mount_points_below(Path("/elsewhere"), MOUNTINFO) == []

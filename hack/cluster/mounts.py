"""What is mounted below a folder, and taking it away."""

from __future__ import annotations

import re
from pathlib import Path

from .commands import succeeds


def mount_points_below(folder: Path, mountinfo: str) -> list[Path]:
    """The mount points at or below `folder` in the text of /proc/self/mountinfo, the innermost first."""
    points = [Path(_unescape(line.split()[4])) for line in mountinfo.splitlines()]
    return [point for point in reversed(points) if point.is_relative_to(folder)]


def unmount_below(folder: Path) -> None:
    """Unmount everything at or below `folder`, so that it can be deleted without what was mounted there."""
    for point in mount_points_below(folder, Path("/proc/self/mountinfo").read_text()):
        succeeds("umount", "--lazy", point)


def _unescape(text: str) -> str:
    # The kernel writes blanks and backslashes as octal numbers.
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)

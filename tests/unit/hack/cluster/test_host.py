"""What is missing on a machine, and how it is said."""

import os
from pathlib import Path

import pytest
from hack.cluster import host
from hack.cluster.console import ClusterError


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH with one program."""
    (tmp_path / "runc").touch(mode=0o755)
    return tmp_path


def test_each_missing_package_is_named_once(programs: Path) -> None:
    commands = {"runc": "runc", "containerd": "containerd", "ctr": "containerd", "ip": "iproute2"}

    assert host.missing_packages(commands, str(programs)) == ["containerd", "iproute2"]


def test_a_system_without_apt_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, programs: Path) -> None:
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(host, "SYSTEM_PATH", str(programs))

    with pytest.raises(ClusterError, match=r"missing on .*buildah mmdebstrap") as raised:
        host.install_image_packages()

    assert "\n" not in str(raised.value)


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ClusterError, match=r"^root is missing"):
        host.require_root()

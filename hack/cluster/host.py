"""What the machine must have: Linux, root, namespaces, and some programs, which Debian's packages bring."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from .commands import run, succeeds
from .console import ClusterError, say
from .locks import exclusive
from .nodes import CNI_FOLDERS
from .paths import cache_directory
from .processes import SYSTEM_PATH

# Command → Debian package. Looked for by command, since another vendor's package may bring it.
NODE_COMMANDS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "socat": "socat",  # kubectl port-forward
    "ethtool": "ethtool",
    "ip": "iproute2",
    "mount": "mount",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "openssl": "openssl",
}
IMAGE_COMMANDS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
BROWSER_COMMANDS = {"chromium": "chromium"}


def require_root() -> None:
    """Raise ClusterError, with one line that says so, where this is not root on Linux."""
    if sys.platform != "linux":
        raise ClusterError("a cluster without Docker needs Linux: use 'make kind-up', with Docker and kind")
    if os.geteuid() != 0:
        raise ClusterError(
            "root is missing: a cluster without Docker makes namespaces and a bridge ('make kind-up' does not)"
        )


def require_namespaces() -> None:
    """Raise ClusterError where root may not make namespaces, as in most containers."""
    if not succeeds("unshare", "--mount", "--pid", "--net", "--fork", "true"):
        raise ClusterError(
            "this machine lets root make no namespaces (a container?): a cluster without Docker needs them"
        )


def install_node_packages() -> None:
    """Install what nodes need.

    Raises:
        ClusterError: something is missing and apt-get cannot bring it.
    """
    packages = missing_packages(NODE_COMMANDS)
    if not any((folder / "bridge").is_file() for folder in CNI_FOLDERS):
        packages.append("containernetworking-plugins")
    _install(packages)


def install_image_packages() -> None:
    """Install what builds images. Raises as `install_node_packages` does."""
    _install(missing_packages(IMAGE_COMMANDS))


def install_browser_packages() -> None:
    """Install what tests of the gateway's page look at it with.

    Raises:
        ClusterError: it is missing, and this is not root or has no apt-get.
    """
    packages = missing_packages(BROWSER_COMMANDS)
    if packages and os.geteuid() != 0:
        raise ClusterError(f"{' '.join(packages)} is missing, for the tests of the gateway's page: install it as root")
    _install(packages)


def missing_packages(commands: dict[str, str], path: str = "") -> list[str]:
    """The packages of those commands that are not there, each once."""
    search = path or f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    return sorted({package for command, package in commands.items() if shutil.which(command, path=search) is None})


def _install(packages: Iterable[str]) -> None:
    names = list(packages)
    if not names:
        return
    listed = " ".join(names)
    if shutil.which("apt-get") is None:
        system = _operating_system()
        raise ClusterError(
            f"missing on {system}: {listed}. Install them; only on Debian and its kin is it done for you"
        )
    require_root()
    say(f"installing {listed} ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-q", "-y")
    # For the lock on its lists apt-get doesn't wait, whatever it is told.
    with exclusive(cache_directory() / "packages.lock", "another installation of packages"):
        run(*apt, "update", timeout=600, environment=environment)
        run(*apt, "install", "--no-install-recommends", *names, timeout=1800, environment=environment)


def _operating_system() -> str:
    release = Path("/etc/os-release")
    lines = release.read_text().splitlines() if release.is_file() else []
    names = [line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME=")]
    return names[0] if names else "this system"

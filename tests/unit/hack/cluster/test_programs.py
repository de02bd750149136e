"""How a program's build is told: its go.mod, its linker flags, its place in the cache."""

from pathlib import Path

import pytest
from hack.cluster import programs
from hack.cluster.console import ClusterError
from hack.cluster.programs import Program

KUBELET = Program("kubelet", "k8s.io/kubernetes", "v1.34.4", "k8s.io/kubernetes/cmd/kubelet")
OTHER = Program("other", "example.com/other", "v2.0.1", "example.com/other/cmd")


def test_a_go_mod_requires_the_module_and_takes_over_its_go_version() -> None:
    text = programs.go_mod(OTHER, "module example.com/other\n\ngo 1.24.3\n")

    assert "\ngo 1.24.3\n" in text
    assert "\nrequire example.com/other v2.0.1\n" in text


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        pytest.param(
            "replace k8s.io/api => ./staging/src/k8s.io/api", "k8s.io/api => k8s.io/api v0.34.4", id="staging"
        ),
        pytest.param(
            "replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)", "k8s.io/api => k8s.io/api v0.34.4", id="block"
        ),
        pytest.param("replace a.b/c => d.e/f v1.2.3", "a.b/c => d.e/f v1.2.3", id="another module"),
        pytest.param("replace a.b/c v1.0.0 => d.e/f v1.2.3", "a.b/c v1.0.0 => d.e/f v1.2.3", id="one version of it"),
        pytest.param("replace a.b/c => d.e/f v1.2.3 // why", "a.b/c => d.e/f v1.2.3", id="with a comment"),
    ],
)
def test_replacements_are_taken_over(upstream: str, expected: str) -> None:
    text = programs.go_mod(KUBELET, f"module k8s.io/kubernetes\n\ngo 1.24.0\n\n{upstream}\n")

    assert [line for line in text.splitlines() if line.startswith("replace")] == [f"replace {expected}"]


def test_other_local_replacements_are_left_out() -> None:
    text = programs.go_mod(OTHER, "go 1.24.0\nreplace example.com/tool => ../tool\n")

    assert "replace" not in text


def test_a_go_mod_without_a_go_version_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"example.com/other names no Go version"):
        programs.go_mod(OTHER, "module example.com/other\n")


def test_kubernetes_programs_report_their_version() -> None:
    flags = programs.linker_flags(KUBELET)

    assert "version.gitVersion=v1.34.4" in flags
    assert "version.gitMinor=34" in flags
    assert "gitVersion" not in programs.linker_flags(OTHER)


def test_the_cache_is_keyed_by_name_and_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert KUBELET.path == tmp_path / "batchwright" / "programs" / "kubelet" / "v1.34.4" / "kubelet"


def test_built_programs_need_no_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    KUBELET.path.parent.mkdir(parents=True)
    KUBELET.path.touch()

    programs.build([KUBELET])


def test_a_missing_go_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")

    with pytest.raises(ClusterError, match=r"^Go 1\.\d+ or later is missing") as raised:
        programs.build([KUBELET])

    assert "\n" not in str(raised.value)


def test_no_two_programs_share_a_name() -> None:
    names = [program.name for program in programs.ALL]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("version", "toolchain", "too_old"),
    [
        ("go1.26.1", "local", False),
        ("go1.27", "auto", False),
        ("go1.24.3", "local", True),
        ("go1.24.3", "auto", False),
        ("go1.19.8", "", True),
        ("devel go1.28-abc", "local", False),
    ],
)
def test_a_go_that_can_not_compile_the_programs_is_told_from_one_that_can(
    version: str, toolchain: str, too_old: bool
) -> None:
    assert programs.too_old(version, toolchain) == too_old

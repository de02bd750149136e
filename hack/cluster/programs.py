"""The programs of the cluster, compiled from their published Go modules and cached by name and version."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .console import ClusterError, say
from .locks import exclusive
from .paths import cache_directory

KUBERNETES = "v1.34.4"
MINIMUM_GO = (1, 26)


@dataclass(frozen=True, slots=True)
class Program:
    """One main package of a Go module."""

    name: str
    module: str
    version: str
    package: str
    source: Path | None = None
    """The one file of a program of this repository, which has no module."""

    @property
    def path(self) -> Path:
        """Where the compiled program is, or will be."""
        return cache_directory() / "programs" / self.name / self.version / self.name

    @property
    def built(self) -> bool:
        """Whether a program is there; a build puts it there whole or not at all."""
        return self.path.is_file()


def _kubernetes(name: str) -> Program:
    return Program(name, "k8s.io/kubernetes", KUBERNETES, f"k8s.io/kubernetes/cmd/{name}")


NODE_PROGRAMS = (_kubernetes("kube-proxy"), _kubernetes("kubelet"))
CONTROL_PLANE_PROGRAMS = (
    # Older etcd servers (Debian's 3.4) lack RequestWatchProgress, which the API server needs.
    Program("etcd", "go.etcd.io/etcd/server/v3", "v3.6.16", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kubectl"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-apiserver"),
)
COREDNS = Program("coredns", "github.com/coredns/coredns", "v1.14.7", "github.com/coredns/coredns")
VERSITYGW = Program("versitygw", "github.com/versity/versitygw", "v1.8.0", "github.com/versity/versitygw/cmd/versitygw")
PAUSE = Program("pause", "", "v1", ".", Path(__file__).parent / "pause" / "main.go")
CLUSTER_PROGRAMS = (PAUSE, *NODE_PROGRAMS, *CONTROL_PLANE_PROGRAMS, COREDNS)
ALL = (*CLUSTER_PROGRAMS, VERSITYGW)


def build(programs: Iterable[Program]) -> None:
    """Compile those of `programs` that the cache lacks, one at a time, with a line of progress for each.

    Raises:
        ClusterError: Go is missing or too old, or a program does not compile.
    """
    wanted = tuple(programs)
    if all(program.built for program in wanted):
        return
    require_go()
    with exclusive(cache_directory() / "programs.lock", "another build of the cluster's programs"):
        for number, program in enumerate(wanted, start=1):
            if not program.built:
                say(f"building {program.name} {program.version} ({number}/{len(wanted)}) ...")
                _compile(program)


def require_go() -> None:
    """Raise ClusterError, with one line that says so, where Go is missing or too old."""
    needed = ".".join(map(str, MINIMUM_GO))
    if shutil.which("go") is None:
        raise ClusterError(f"Go {needed} or later is missing: it compiles the cluster's programs (https://go.dev/dl)")
    answer = subprocess.run(
        ["go", "env", "GOVERSION", "GOTOOLCHAIN"], capture_output=True, text=True, timeout=60, check=False
    )
    version, _, toolchain = answer.stdout.strip().partition("\n")
    if too_old(version, toolchain):
        raise ClusterError(f"Go {needed} or later is needed to compile the cluster's programs; found {version}")


def too_old(version: str, toolchain: str) -> bool:
    """Whether this Go can neither compile the programs nor, as later ones do, fetch the Go that can.

    Args:
        version: as in `go env GOVERSION`, for instance go1.26.1.
        toolchain: as in `go env GOTOOLCHAIN`: local forbids fetching. Go 1.20 and older print nothing.
    """
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) >= MINIMUM_GO:
        return False
    return toolchain in ("", "local")


def go_mod(program: Program, upstream: str) -> str:
    """The go.mod of a module that builds `program` with the dependency versions of its own go.mod, `upstream`.

    A `replace` counts only in the main module, so it is taken over. Kubernetes replaces its staging modules
    by local folders, which a published module lacks: the published module of the matching version (v0.34.4
    for v1.34.4) stands for each. Other local replacements are left out.
    """
    go = re.search(r"^go (\S+)", upstream, re.MULTILINE)
    if go is None:
        raise ClusterError(f"the go.mod of {program.module} names no Go version")
    staging = re.sub(r"^v1\.", "v0.", program.version)
    replacements = []
    for match in re.finditer(r"^\s*(?:replace\s+)?(\S+(?: v\S+)?) => (\S+(?: v\S+)?)", upstream, re.MULTILINE):
        old, new = match.groups()
        if not new.startswith("."):
            replacements.append(f"replace {old} => {new}")
        elif old.startswith("k8s.io/"):
            replacements.append(f"replace {old} => {old.split()[0]} {staging}")
    required = f"require {program.module} {program.version}"
    return "\n".join([f"module batchwright.dev/build/{program.name}", f"go {go[1]}", required, *replacements, ""])


def linker_flags(program: Program) -> str:
    """No symbol tables, and the version that Kubernetes' programs report (a node's VERSION column)."""
    flags = "-s -w"
    if program.module == "k8s.io/kubernetes":
        major, minor, _ = program.version.removeprefix("v").split(".")
        values = {"gitVersion": program.version, "gitMajor": major, "gitMinor": minor}
        for key, value in values.items():
            flags += f" -X k8s.io/component-base/version.{key}={value}"
    return flags


def _compile(program: Program) -> None:
    folder = program.path.parent
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="batchwright-build-") as name:
        work = Path(name)
        if program.source is None:
            _prepare_module(program, work)
        else:
            shutil.copy(program.source, work)
            (work / "go.mod").write_text(f"module batchwright.dev/build/{program.name}\n")
        unfinished = folder / f".{program.name}.{os.getpid()}"
        command = ["go", "build", "-mod=mod", "-trimpath", "-ldflags", linker_flags(program)]
        try:
            _go([*command, "-o", str(unfinished), program.package], work, program)
            unfinished.replace(program.path)
        finally:
            unfinished.unlink(missing_ok=True)


def _prepare_module(program: Program, work: Path) -> None:
    answer = _go(["go", "mod", "download", "-json", f"{program.module}@{program.version}"], work, program)
    module: dict[str, str] = json.loads(answer)
    (work / "go.mod").write_text(go_mod(program, Path(module["GoMod"]).read_text()))
    # The checksums that the program's makers published hold for their dependencies here too.
    sums = Path(module["Dir"]) / "go.sum"
    if sums.is_file():
        (work / "go.sum").write_bytes(sums.read_bytes())


def _go(command: list[str], work: Path, program: Program) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise ClusterError(f"{program.name} {program.version} does not build:\n{last}")
    return done.stdout

"""A BatchJob's work as its pods do it, with S3: a process to plan, workers side by side, a process to merge."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

WORKER = str(Path(sys.executable).parent / "batchwright-worker")
STAGE_SECONDS = 1200.0


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What the BatchJob asks for."""

    workers: int
    max_concurrency: int
    adaptive: bool

    def spec(self) -> dict[str, Any]:
        """Give `requests` and `sharding` of the spec."""
        concurrency = "Adaptive" if self.adaptive else "Fixed"
        return {
            "requests": {"maxConcurrency": self.max_concurrency, "concurrency": concurrency},
            "sharding": {"parallelism": self.workers},
        }


@dataclass(frozen=True, slots=True)
class BatchRan:
    """Seconds of each stage, from the start of its processes to the end of the last one."""

    plan_seconds: float
    run_seconds: float
    merge_seconds: float
    cpu_seconds: float
    """Of all processes together."""

    @property
    def seconds(self) -> float:
        """From the first stage's start to the end of the last one."""
        return self.plan_seconds + self.run_seconds + self.merge_seconds


@dataclass(frozen=True, slots=True)
class BatchStages:
    """A job file in a folder, and the processes on it."""

    folder: Path
    environment: Mapping[str, str]
    """What lets the processes into the storage."""

    @classmethod
    def create(cls, folder: Path, spec: Mapping[str, Any], url: str, environment: Mapping[str, str]) -> "BatchStages":
        """Write the job file into the folder; `url` is the model server's."""
        job = {"batchjob": {"metadata": {"name": "bench"}, "spec": spec}, "serverUrl": url}
        (folder / "job.json").write_text(json.dumps(job))
        return cls(folder, environment)

    def run_all(self, lines: int, workers: int) -> BatchRan:
        """Plan, run and merge.

        Raises:
            RuntimeError: a stage failed, or not all of the lines have an answer.
        """
        cpu = _cpu_of_children()
        times = [time.perf_counter()]
        (plan,) = self._stage("plan", [["plan"]])
        times.append(time.perf_counter())
        work = ["--fingerprint", plan["fingerprint"], "--port", "0"]
        indexes = [["--workers", str(workers), "--index", str(index)] for index in range(workers)]
        self._stage("run", [["run", *work, *index] for index in indexes])
        times.append(time.perf_counter())
        (merged,) = self._stage("merge", [["merge", *work]])
        times.append(time.perf_counter())
        completed = merged["requestCounts"]["completed"]
        if completed != lines:
            raise RuntimeError(f"{completed} of {lines} requests were answered")
        planned, ran, joined = (after - before for before, after in pairwise(times))
        return BatchRan(planned, ran, joined, _cpu_of_children() - cpu)

    def _stage(self, name: str, commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Run processes of a stage side by side; give their reports."""
        reports = [self.folder / f"{name}-{index}.json" for index in range(len(commands))]
        with ExitStack() as stack:
            processes = []
            for index, (command, report) in enumerate(zip(commands, reports, strict=True)):
                log = stack.enter_context((self.folder / f"{name}-{index}.log").open("wb"))
                options = ["--job", self.folder / "job.json", "--spool", self.folder / f"spool-{index}"]
                program = [WORKER, *map(str, options), "--termination-log", str(report), *command]
                process = subprocess.Popen(program, stdout=log, stderr=log, env={**os.environ, **self.environment})
                stack.callback(_end, process)
                processes.append(process)
            for index, process in enumerate(processes):
                if process.wait(STAGE_SECONDS):
                    said = (self.folder / f"{name}-{index}.log").read_text()
                    raise RuntimeError(f"{name} failed:\n{said[-2000:]}")
        return [json.loads(report.read_text()) for report in reports]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _cpu_of_children() -> float:
    """User and system time of the processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime

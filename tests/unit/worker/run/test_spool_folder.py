"""Each worker has a folder of its own, and what killed ones left is removed."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from batchwright.worker.run.spool_folder import own_folder

HOLD = """
import sys, pathlib
from batchwright.worker.run.spool_folder import own_folder
with own_folder(pathlib.Path(sys.argv[1]), sys.argv[2]) as folder:
    (folder / "7").mkdir()
    (folder / "7" / "finished").write_bytes(b"line")
    print(folder, flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_worker(spool: Path, attempt: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process that holds a folder until it is killed."""
    command = [sys.executable, "-c", HOLD, str(spool), attempt]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().decode().strip())
        finally:
            process.kill()


def test_the_folder_is_gone_at_the_end(tmp_path: Path) -> None:
    with own_folder(tmp_path / "spool", "a") as folder:
        (folder / "0").mkdir()
    assert not folder.exists()


def test_it_is_gone_after_a_failure_too(tmp_path: Path) -> None:
    try:
        with own_folder(tmp_path, "a") as folder:
            raise RuntimeError  # noqa: TRY301
    except RuntimeError:
        assert not folder.exists()


def test_the_folder_of_a_worker_that_lives_is_left_alone(tmp_path: Path) -> None:
    with another_worker(tmp_path, "theirs") as (_, theirs), own_folder(tmp_path, "mine") as mine:
        assert mine != theirs
        assert (theirs / "7" / "finished").read_bytes() == b"line"


def test_the_folder_of_a_killed_worker_is_removed(tmp_path: Path) -> None:
    with another_worker(tmp_path, "theirs") as (process, theirs):
        process.kill()
        process.wait(30)
        assert theirs.exists()
        with own_folder(tmp_path, "mine"):
            assert not theirs.exists()


def test_other_files_of_the_volume_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "somebody-elses").mkdir()
    with own_folder(tmp_path, "mine"):
        assert (tmp_path / "somebody-elses").exists()

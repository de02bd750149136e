"""A worker's own folder on the spool volume."""

import fcntl
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_LOCK_FILE: Final = "lock"
_PREFIX: Final = "worker-"


@contextmanager
def own_folder(spool: Path, attempt: str) -> Iterator[Path]:
    """A new folder of this attempt alone, which is gone at the end.

    What killed workers left under `spool` is removed first. Their folders are told from those of workers that live by
    a file lock, which ends with its process.

    Raises:
        OSError: the volume can't be written.
    """
    spool.mkdir(parents=True, exist_ok=True)
    folder = spool / f"{_PREFIX}{attempt}"
    with (spool / _LOCK_FILE).open("w") as entrance:
        # One at a time, so that nobody takes a folder for abandoned that is just being made.
        fcntl.flock(entrance, fcntl.LOCK_EX)
        _remove_abandoned(spool)
        folder.mkdir()
        lock = (folder / _LOCK_FILE).open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    with lock:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(spool: Path) -> None:
    for folder in spool.glob(f"{_PREFIX}*"):
        try:
            with (folder / _LOCK_FILE).open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError as error:
            logger.warning("what stands in %s is left alone: %s", folder, error)
            continue
        logger.info("removing %s, which a killed worker left", folder)
        shutil.rmtree(folder, ignore_errors=True)

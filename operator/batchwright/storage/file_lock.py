"""One writer at a time over a file of a volume, which a conditional overwrite needs.

The lock is the kernel's, on the very version that is to be replaced. So it ends with its holder, however that ends, and
leaves nothing behind; and whoever has waited for it finds the version replaced.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import logging
import time
from collections.abc import Callable
from typing import IO, Final

logger = logging.getLogger(__name__)

LOCK_SECONDS: Final = 10.0
"""So long a writer waits for another one. It compares and renames, which takes milliseconds on most volumes."""
_POLL_SECONDS: Final = 0.005
_NO_LOCKS: Final = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF, errno.EINVAL})
"""How file systems say that they have no locks, or none for a file that can't be opened for writing."""


def lock(file: IO[bytes], check: Callable[[], None], *, seconds: float) -> None:
    """Wait until this file is locked for its reader here, which ends with its closing.

    check: called before each try and once more with the lock; what it raises ends the waiting

    On a file system without locks there is none, and a warning says so. Raises TimeoutError, and OSError for what else
    the system says.
    """
    deadline = time.monotonic() + seconds
    while True:
        check()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"another writer has held it for {seconds:g} s") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _tell(error.strerror)
            break
        time.sleep(_POLL_SECONDS)
    check()


@functools.cache
def _tell(detail: str) -> None:
    """Once in a process."""
    logger.warning("a volume has no locks (%s): of two writers at the same moment one may be lost", detail)

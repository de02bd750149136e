"""How the C library's allocator treats memory that a process has given back."""

import ctypes
from typing import Final

# Of glibc's malloc.h.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

LARGE_BYTES: Final = 2 << 20
ARENAS: Final = 2
"""One for the event loop, one for the threads that read and write storage."""


def return_large_blocks() -> None:
    """Have blocks of some size returned to the system as soon as they are freed.

    By default, the first one that is freed moves the limit above its own size, and from then on lines and answers of
    megabytes are cut out of heaps, of which every thread has one of its own and which are full of holes soon. A worker
    with lines of 10 MiB took a quarter to a third more memory so, a gateway with a hundred uploads at once a tenth.
    Another C library than glibc is left as it is.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_ARENA_MAX, ARENAS)

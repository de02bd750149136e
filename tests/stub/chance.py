"""Draws that depend on a seed and on what is drawn for, never on the order of arrival.

A test that runs twice gets the same delays and the same failures, however its requests interleave.
"""

from hashlib import blake2b


def unit_draw(seed: int, *purpose: object) -> float:
    """Return a number in [0, 1) that is the same for the same seed and purpose."""
    text = "\x1f".join(map(str, (seed, *purpose)))
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return int.from_bytes(digest, "big") / (1 << 56)

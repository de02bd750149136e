"""Texts of words that nobody has said before, so that no server finds them in its cache."""

from collections.abc import Callable
from random import Random


def random_texts(chance: Random, words: int) -> Callable[[int], str]:
    """Make up so many words; gives what makes a text of them, of so many bytes."""
    known = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(words)]
    return lambda length: " ".join(chance.choices(known, k=length // 4))[:length]

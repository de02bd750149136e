"""How long an answer takes: fixed, uniform in a range, or heavy-tailed."""

import math
from dataclasses import dataclass

from stub.errors import SwitchError

MAX_DELAY = 3600.0
HEAVY_TAIL_CAP = 100.0


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same number of seconds."""

    seconds: float

    def seconds_at(self, draw: float) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class Uniform:
    """Evenly spread between two numbers of seconds."""

    low: float
    high: float

    def seconds_at(self, draw: float) -> float:
        return self.low + (self.high - self.low) * draw


@dataclass(frozen=True, slots=True)
class HeavyTailed:
    """A Pareto distribution: most answers take little more than `scale` seconds, a few very long.

    The smaller `shape`, the heavier the tail (1.5 is heavy, 3 is mild). No delay exceeds `cap` seconds.
    """

    scale: float
    shape: float
    cap: float

    def seconds_at(self, draw: float) -> float:
        drawn: float = self.scale / (1.0 - draw) ** (1.0 / self.shape)
        return min(self.cap, drawn)


Delay = Fixed | Uniform | HeavyTailed


def parse_delay(text: str) -> Delay:
    """Read `1.5`, `0.05-0.5` or `pareto:SCALE:SHAPE[:CAP]`, all in seconds.

    Raises SwitchError where the text is none of these or a number is out of range.
    """
    if text.startswith("pareto:"):
        return _heavy_tailed(text)
    low, dash, high = text.partition("-")
    if not dash or not low:
        return Fixed(_seconds(text))
    delay = Uniform(_seconds(low), _seconds(high))
    if delay.low > delay.high:
        raise SwitchError(f"delay={text}: the range runs backwards")
    return delay


def _heavy_tailed(text: str) -> HeavyTailed:
    numbers = text.split(":")[1:]
    if len(numbers) not in (2, 3):
        raise SwitchError(f"delay={text}: write pareto:SCALE:SHAPE or pareto:SCALE:SHAPE:CAP")
    scale, shape = _seconds(numbers[0]), _seconds(numbers[1])
    cap = _seconds(numbers[2]) if len(numbers) == 3 else min(MAX_DELAY, scale * HEAVY_TAIL_CAP)
    if scale <= 0 or shape <= 0 or cap < scale:
        raise SwitchError(f"delay={text}: SCALE and SHAPE must be above 0, and CAP not below SCALE")
    return HeavyTailed(scale, shape, cap)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SwitchError(f"delay: {text!r} is not a number of seconds") from None
    if not math.isfinite(value) or not 0 <= value <= MAX_DELAY:
        raise SwitchError(f"delay: {text} is not between 0 and {MAX_DELAY:g} seconds")
    return value

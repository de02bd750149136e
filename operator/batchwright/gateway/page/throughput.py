"""Requests a second over the time of a run, and the lines of a plot of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

MOST_BINS: Final = 60
WIDTH: Final = 720.0
HEIGHT: Final = 180.0
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
_SLIVER: Final = 0.25
"""A last bin shorter than this part of the others is added to the one before it: its rate would be noise."""
_NICE: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Span:
    """So many requests that ended between two moments: a shard."""

    started: datetime
    finished: datetime
    lines: float


@dataclass(frozen=True, slots=True)
class Bin:
    """Requests a second in a part of the run; `start` and `end` in seconds from its start."""

    start: float
    end: float
    rate: float
    settled: bool = True
    """Whether every shard that had a part in it is likely to be counted."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """How fast a run was."""

    began: datetime
    bins: tuple[Bin, ...]

    @property
    def seconds(self) -> float:
        """The length of all of it."""
        return self.bins[-1].end

    @property
    def ended(self) -> datetime:
        """When the last counted shard ended."""
        return self.began + timedelta(seconds=self.seconds)

    @property
    def peak(self) -> float:
        """The highest rate."""
        return max(one.rate for one in self.bins)

    @property
    def mean(self) -> float:
        """Requests over the time that is settled; over all of it where none is."""
        counted = [one for one in self.bins if one.settled] or self.bins
        return sum(one.rate * (one.end - one.start) for one in counted) / counted[-1].end


def throughput(spans: Sequence[Span], *, live: bool) -> Throughput | None:
    """Rates of a run. A shard's requests are spread evenly over its time, since no more is known of them.

    live: shards that run now are not counted yet, so the last part of the time is marked as unsettled: as long as a
        shard takes, at the median. None without shards.
    """
    usable = [span for span in spans if span.finished >= span.started and span.lines > 0]
    if not usable:
        return None
    began = min(span.started for span in usable)
    places = [((s.started - began).total_seconds(), (s.finished - began).total_seconds(), s.lines) for s in usable]
    seconds = max(1.0, *(end for _, end, _ in places))
    unsettled = median(end - start for start, end, _ in places) if live else 0.0
    edges = _edges(seconds)
    amounts = [0.0] * (len(edges) - 1)
    for start, end, lines in places:
        _spread(amounts, edges, start, end, lines)
    bins = tuple(
        Bin(start, end, amount / (end - start), settled=end <= seconds - unsettled or not live)
        for (start, end), amount in zip(pairwise(edges), amounts, strict=True)
    )
    return Throughput(began, bins)


def _edges(seconds: float) -> list[float]:
    """Where bins begin and end: at round times, the last one at the end."""
    days = -(-seconds // (MOST_BINS * _STEPS[-1])) * _STEPS[-1]
    step = next((one for one in _STEPS if seconds <= one * MOST_BINS), days)
    edges = [float(step * number) for number in range(int(seconds // step) + 1)]
    if len(edges) > 1 and seconds - edges[-1] < step * _SLIVER:
        edges.pop()
    return [*edges, seconds]


def _spread(amounts: list[float], edges: Sequence[float], start: float, end: float, lines: float) -> None:
    length = end - start
    for number, (left, right) in enumerate(pairwise(edges)):
        if length > 0:
            amounts[number] += lines * max(0.0, min(right, end) - max(left, start)) / length
        elif left <= start < right or (start == right == edges[-1]):
            amounts[number] += lines


@dataclass(frozen=True, slots=True)
class Plot:
    """The lines of a plot, in a box of WIDTH × HEIGHT with its origin at the top left."""

    line: str
    """The outline of the settled part, as a path."""
    area: str
    """What is under it."""
    unsettled: str
    """What is under the rest; empty where there is none."""
    top: float
    """The rate at the upper edge."""
    bars: tuple[tuple[float, float, Bin], ...]
    """Of each bin its left edge and its width, for what is shown where somebody points."""


def plot(rates: Throughput) -> Plot:
    """The geometry of a plot."""
    top = nice_above(rates.peak)
    settled = [one for one in rates.bins if one.settled]
    rest = rates.bins[len(settled) :]

    def x(seconds: float) -> float:
        return round(WIDTH * seconds / rates.seconds, 2)

    def y(rate: float) -> float:
        return round(HEIGHT * (1 - rate / top), 2)

    def outline(bins: Sequence[Bin]) -> str:
        """Steps: each bin's rate holds from its left to its right edge."""
        return " ".join(f"L{x(one.start):g} {y(one.rate):g} L{x(one.end):g} {y(one.rate):g}" for one in bins)

    def filled(bins: Sequence[Bin]) -> str:
        if not bins:
            return ""
        return f"M{x(bins[0].start):g} {HEIGHT:g} {outline(bins)} L{x(bins[-1].end):g} {HEIGHT:g} Z"

    return Plot(
        line=f"M{outline(settled)[1:]}" if settled else "",
        area=filled(settled),
        unsettled=filled(rest),
        top=top,
        bars=tuple((x(one.start), round(x(one.end) - x(one.start), 2), one) for one in rates.bins),
    )


def nice_above(value: float) -> float:
    """The smallest round number that is not below a positive one: 412 → 500."""
    if value <= 0:
        return 1.0
    magnitude = 1.0
    while magnitude > value:
        magnitude /= 10
    while magnitude * 10 <= value:
        magnitude *= 10
    return next(round(one * magnitude, 12) for one in _NICE if one * magnitude >= value * (1 - 1e-12))

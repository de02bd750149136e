"""The switches of one request: a small language, its meaning as values, and the choice for an attempt.

`status=503,times=2` fails the first two attempts; `status=503,times=1;hang,times=1` fails the first, hangs
the second and answers the third. Steps are parted by `;`, settings within a step by `,`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal, get_args

from stub.chance import unit_draw
from stub.delays import Delay, parse_delay
from stub.errors import SwitchError

Reset = Literal["before_read", "after_read", "mid_body"]
Body = Literal["empty", "truncated", "garbage", "html"]
Finish = Literal["stop", "length", "abort", "null"]
Text = Literal["surrogate", "line_separator"]
Usage = Literal["none"]

MAX_SIZE = 256 * 1024 * 1024
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "KiB": 1 << 10, "MiB": 1 << 20}


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to a request. A step that sets nothing is an ordinary answer after the usual delay."""

    delay: Delay | None = None
    """None: the server's default delay."""
    status: int | None = None
    retry_after: str | None = None
    """The header Retry-After as it is sent: seconds or a date."""
    body: Body | None = None
    reset: Reset | None = None
    """The connection is reset (RST): without reading the body, instead of an answer, or in the midst of it."""
    hang: bool = False
    """No answer, and the connection stays open, until the client leaves."""
    size: int | None = None
    """The answer's text is drawn out to at least so many bytes."""
    text: Text | None = None
    finish: Finish | None = None
    cached: int | None = None
    reasoning: int | None = None
    usage: Usage | None = None
    """`none`: the answer has no usage."""
    times: int | None = None
    """For so many attempts of the same request; None: for all that come."""
    fraction: float | None = None
    """Only for this part of the attempts, drawn by the seed; the others get an ordinary answer."""


ORDINARY = Step()


@dataclass(frozen=True, slots=True)
class Switches:
    """The steps of a request, one after the other."""

    steps: tuple[Step, ...] = ()
    seed: int = 0
    key: str | None = None
    """What the request is counted under, instead of metadata.id or the hash of its body."""

    def step_for(self, attempt: int, key: str) -> Step:
        """Choose the step for the attempt (0 is the first) of the request that is counted under `key`."""
        first = 0
        for step in self.steps:
            if step.times is None or attempt < first + step.times:
                if step.fraction is not None and unit_draw(self.seed, key, attempt, "fraction") >= step.fraction:
                    return ORDINARY
                return step
            first += step.times
        return ORDINARY


NONE = Switches()


@lru_cache(maxsize=4096)
def parse_switches(text: str) -> Switches:
    """Read a switch text. The empty text means an ordinary answer.

    Raises SwitchError, naming the setting, for an unknown or repeated name, a bad value, settings that
    contradict each other, and a step that can never be reached.
    """
    steps: list[Step] = []
    shared: dict[str, Any] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        settings = _settings(part)
        for name in ("seed", "id"):
            if name in settings:
                if name in shared:
                    raise SwitchError(f"{name} stands in two steps: it belongs to all of them, give it once")
                shared[name] = settings.pop(name)
        step = Step(**settings)
        _check(step)
        steps.append(step)
    for step in steps[:-1]:
        if step.times is None:
            raise SwitchError("a step without times never ends: the ones after it cannot be reached")
    return Switches(tuple(steps), shared.get("seed", 0), shared.get("id"))


def _settings(part: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for item in filter(None, map(str.strip, part.split(","))):
        name, equals, value = item.partition("=")
        reader = _READERS.get(name)
        if reader is None:
            raise SwitchError(f"unknown switch {name!r}; known are {', '.join(sorted(_READERS))}")
        if name in settings:
            raise SwitchError(f"{name} is set twice in one step")
        if bool(equals) == (name in _FLAGS):
            raise SwitchError(f"{name} takes no value" if equals else f"{name} needs a value: {name}=…")
        settings[name] = reader(name, value)
    return settings


def _check(step: Step) -> None:
    """Refuse settings of which one would silence the other: such a test would test less than it says."""
    given = {f.name for f in fields(step) if getattr(step, f.name) not in (None, False)}
    answer = {"status", "retry_after", "body", "size", "text", "finish", "cached", "reasoning", "usage"}
    content = answer - {"status", "retry_after", "body"}
    silent: list[tuple[str, set[str]]] = []
    if step.hang:
        silent.append(("hang", answer | {"delay", "reset"}))
    if step.reset == "before_read":
        silent.append(("reset=before_read", answer | {"delay"}))
    if step.reset == "after_read":
        silent.append(("reset=after_read", answer))
    if step.body is not None and step.body != "truncated":
        silent.append((f"body={step.body}", content))
    if step.status is not None and step.status != 200:
        silent.append((f"status={step.status}", content))
    for cause, silenced in silent:
        if lost := sorted(given & silenced):
            raise SwitchError(f"{cause} leaves no place for {', '.join(lost)}")


Reader = Callable[[str, str], Any]


def _whole(low: int, high: int) -> Reader:
    def read(name: str, value: str) -> int:
        if not re.fullmatch(r"-?\d{1,15}", value) or not low <= int(value) <= high:
            raise SwitchError(f"{name}: {value!r} is not a whole number from {low} to {high}")
        return int(value)

    return read


def _one_of(choices: Any) -> Reader:
    allowed = get_args(choices)

    def read(name: str, value: str) -> str:
        if value not in allowed:
            raise SwitchError(f"{name}: {value!r} is none of {', '.join(allowed)}")
        return value

    return read


def _text(name: str, value: str) -> str:
    if not value or not value.isprintable():
        raise SwitchError(f"{name}: an empty or unprintable text")
    return value


def _part(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise SwitchError(f"{name}: {value!r} is not a number from 0 to 1")
    return number


def _size(name: str, value: str) -> int:
    match = re.fullmatch(r"(\d{1,9})([KM]i?B|B)?", value)
    size = int(match[1]) * _UNITS[match[2] or ""] if match else 0
    if not 0 < size <= MAX_SIZE:
        raise SwitchError(f"{name}: {value!r} is not a size such as 5000, 5MB or 5MiB, at most {MAX_SIZE} bytes")
    return size


_FLAGS = frozenset({"hang"})
_READERS: Mapping[str, Reader] = {
    "delay": lambda _, value: parse_delay(value),
    "status": _whole(200, 599),
    "retry_after": _text,
    "body": _one_of(Body),
    "reset": _one_of(Reset),
    "hang": lambda *_: True,
    "size": _size,
    "text": _one_of(Text),
    "finish": _one_of(Finish),
    "cached": _whole(0, 10**9),
    "reasoning": _whole(0, 10**9),
    "usage": _one_of(Usage),
    "times": _whole(1, 10**9),
    "fraction": _part,
    "seed": _whole(-(10**9), 10**9),
    "id": _text,
}

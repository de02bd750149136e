"""Showing a local run to a person: bars on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

PLAIN_EVERY_SECONDS: Final = 10.0


class Update(Protocol):
    """Takes how much is done, of how much, and how many requests failed."""

    def __call__(self, done: int, total: int, failed: int = 0) -> None: ...


class Display:
    """One bar after another."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def requests(self, name: str) -> Iterator[Update]:
        """Show a stage that goes by requests while the body runs."""
        with self._stage(name, "{:,}/{:,} requests".format, [MofNCompleteColumn(), _Rate()]) as update:
            yield update

    @contextmanager
    def bytes(self, name: str) -> Iterator[Update]:
        """Show a stage that goes by bytes while the body runs."""

        def text(done: int, total: int) -> str:
            return f"{decimal(done)} of {decimal(total)}"

        with self._stage(name, text, [DownloadColumn(), TransferSpeedColumn()]) as update:
            yield update

    @contextmanager
    def _stage(self, name: str, text: "_Text", columns: list[ProgressColumn]) -> Iterator[Update]:
        if self._console.is_terminal:
            with self._bar(name, columns) as update:
                yield update
        else:
            yield self._lines(name, text)

    @contextmanager
    def _bar(self, name: str, columns: list[ProgressColumn]) -> Iterator[Update]:
        failures = TextColumn("[red]{task.fields[failed]}")
        described = TextColumn("{task.description:<6}")
        with Progress(
            described, BarColumn(), *columns, failures, TimeRemainingColumn(), console=self._console
        ) as progress:
            task = progress.add_task(name, total=None, failed="")

            def update(done: int, total: int, failed: int = 0) -> None:
                progress.update(task, completed=done, total=total, failed=f"{failed:,} failed" if failed else "")

            yield update

    def _lines(self, name: str, text: "_Text") -> Update:
        started = shown = time.monotonic()
        finished = False

        def update(done: int, total: int, failed: int = 0) -> None:
            nonlocal shown, finished
            now = time.monotonic()
            if finished or (now - shown < PLAIN_EVERY_SECONDS and done < total):
                return
            shown, finished = now, done >= total
            seconds = max(now - started, 0.001)
            eta = "" if finished or not done else f", ETA {(total - done) * seconds / done:,.0f} s"
            lost = f", {failed:,} failed" if failed else ""
            self._console.print(f"{name}: {text(done, total)} in {seconds:,.1f} s{lost}{eta}")

        return update


class _Text(Protocol):
    def __call__(self, done: int, total: int, /) -> str: ...


class _Rate(ProgressColumn):
    """Requests a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "-/s", style="cyan")

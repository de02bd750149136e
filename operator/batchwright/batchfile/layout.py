"""Keys of everything that a BatchJob writes, under `<output>/<folder>/`. The folder has the BatchJob's name, where
`spec.output.folder` says nothing else.
"""

import re
from dataclasses import dataclass
from typing import Final

WORK_FOLDER: Final = ".batchwright"


@dataclass(frozen=True, slots=True)
class OutputLayout:
    """`prefix` is the key of `<output>/<folder>/`, with its slash."""

    prefix: str

    @property
    def owner(self) -> str:
        """The record of the BatchJob that has this output."""
        return f"{self.prefix}{WORK_FOLDER}/owner.json"

    @property
    def validation_errors(self) -> str:
        """Every listed error of an invalid input, one JSON object a line."""
        return f"{self.prefix}{WORK_FOLDER}/validation-errors.jsonl"

    @property
    def probes(self) -> str:
        """Prefix under which the plan tries what the store can do."""
        return f"{self.prefix}{WORK_FOLDER}/probes/"

    def published(self, name: str) -> str:
        """A published object."""
        return f"{self.prefix}{name}"

    def work(self, fingerprint: str) -> "WorkLayout":
        """The work objects of one fingerprint."""
        return WorkLayout(f"{self.prefix}{WORK_FOLDER}/{fingerprint}/")


@dataclass(frozen=True, slots=True)
class WorkLayout:
    """Keys of work objects. Attempts write under their own names, so that one that should be dead can hurt nothing."""

    prefix: str

    @property
    def plan(self) -> str:
        """The plan record."""
        return f"{self.prefix}plan.json"

    @property
    def summary(self) -> str:
        """The summary of the merge."""
        return f"{self.prefix}summary.json"

    @property
    def origin(self) -> str:
        """The record of what this work was begun from; the first generation has none."""
        return f"{self.prefix}origin.json"

    @property
    def earlier(self) -> str:
        """Prefix of the copies of what an earlier BatchJob published."""
        return f"{self.prefix}earlier/"

    def earlier_file(self, kind: str) -> str:
        """The copy of what an earlier BatchJob published of a kind."""
        return f"{self.earlier}{kind}.jsonl"

    @property
    def records(self) -> str:
        """Prefix of all shard records."""
        return f"{self.prefix}records/"

    @property
    def joined(self) -> str:
        """The record of what a merge has joined by now. It stands among the shard records, so that one listing finds
        both.
        """
        return f"{self.records}joined.json"

    @property
    def progress(self) -> str:
        """The record of who writes the progress object, and of what it has told."""
        return f"{self.prefix}progress.json"

    @property
    def segments(self) -> str:
        """Prefix of all segments."""
        return f"{self.prefix}segments/"

    @property
    def shard_files(self) -> str:
        """Prefix of all shard files."""
        return f"{self.prefix}shards/"

    def claims(self, run: int) -> str:
        """Prefix of the claims of one run; a repair claims anew."""
        return f"{self.prefix}claims/{run}/"

    def claim(self, run: int, shard: int) -> str:
        """The claim of a shard."""
        return f"{self.claims(run)}{_shard(shard)}"

    def record(self, shard: int) -> str:
        """The record of a shard: its existence is the commit."""
        return f"{self.records}{_shard(shard)}.json"

    def shard_segments(self, shard: int) -> str:
        """Prefix of the segments of a shard."""
        return f"{self.segments}{_shard(shard)}/"

    def segment(self, shard: int, attempt: str, number: int) -> str:
        """A segment: finished lines of an unfinished shard."""
        return f"{self.shard_segments(shard)}{attempt}-{number:06d}.jsonl"

    def opening(self, shard: int, number: int, attempt: str) -> str:
        """The record of an attempt that goes on with a shard, the `number`-th to do so. It stands beside the segments,
        so that one listing finds all that earlier attempts left.
        """
        return f"{self.shard_segments(shard)}opened-{number:06d}-{attempt}.json"

    def earlier_part(self, shard: int) -> str:
        """The record of what an earlier BatchJob finished of a shard. It stands beside the segments, as they do for
        what an earlier attempt finished.
        """
        return f"{self.shard_segments(shard)}earlier.json"

    def shard_file(self, shard: int, attempt: str, kind: str) -> str:
        """A shard's file of a kind."""
        return f"{self.shard_files}{_shard(shard)}/{attempt}-{kind}.jsonl"

    @property
    def workers(self) -> str:
        """Prefix of the states of all workers, of all runs."""
        return f"{self.prefix}workers/"

    def worker(self, run: int, index: int) -> str:
        """The state of a worker index."""
        return f"{self.workers}{run}/{index}.json"

    # From a listed key back to its shard. None for a key that is none of ours: the marker of a folder that a console
    # made, or whatever else somebody put there.

    def shard_of_claim(self, key: str, run: int) -> int | None:
        """The shard that a key is the claim of in a run."""
        return _shard_in(_CLAIM, key, self.claims(run))

    def shard_of_record(self, key: str) -> int | None:
        """The shard that a key is the record of."""
        return _shard_in(_RECORD, key, self.records)

    def shard_of_segment(self, key: str) -> int | None:
        """The shard that a key is a segment of."""
        return _shard_in(_SEGMENT, key, self.segments)

    def shard_of_opening(self, key: str) -> int | None:
        """The shard that a key is the record of an opening of."""
        return _shard_in(_OPENING, key, self.segments)

    def shard_of_earlier_part(self, key: str) -> int | None:
        """The shard that a key is the record of an earlier BatchJob's part of."""
        return _shard_in(_EARLIER_PART, key, self.segments)

    def run_and_index_of_worker(self, key: str) -> tuple[int, int] | None:
        """The run and the index that a key is the state of."""
        found = _WORKER.fullmatch(key, len(self.workers)) if key.startswith(self.workers) else None
        return (int(found[1]), int(found[2])) if found else None

    def number_of_opening(self, key: str) -> int:
        """Which opening of its shard a key is; `shard_of_opening` has told that it is one."""
        return int(key.rpartition("/")[2].split("-")[1])

    def shard_of_file(self, key: str) -> int | None:
        """The shard that a key is a file of."""
        return _shard_in(_SHARD_FILE, key, self.shard_files)


def _shard(shard: int) -> str:
    return f"{shard:06d}"


_NUMBER: Final = r"(0[0-9]{5}|[1-9][0-9]{5,})"
_CLAIM: Final = re.compile(_NUMBER)
_RECORD: Final = re.compile(_NUMBER + r"\.json")
_SEGMENT: Final = re.compile(_NUMBER + r"/[^/]+-[0-9]{6,}\.jsonl")
_OPENING: Final = re.compile(_NUMBER + r"/opened-[0-9]{6,}-[^/]+\.json")
_EARLIER_PART: Final = re.compile(_NUMBER + r"/earlier\.json")
_WORKER: Final = re.compile(r"(0|[1-9][0-9]*)/(0|[1-9][0-9]*)\.json")
_SHARD_FILE: Final = re.compile(_NUMBER + r"/[^/]+-(?:results|errors|retry)\.jsonl")


def _shard_in(pattern: re.Pattern[str], key: str, prefix: str) -> int | None:
    found = pattern.fullmatch(key, len(prefix)) if key.startswith(prefix) else None
    return int(found[1]) if found else None

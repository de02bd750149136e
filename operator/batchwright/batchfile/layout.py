"""Keys of everything that a BatchJob writes, under `<output>/<name>/`."""

from dataclasses import dataclass
from typing import Final

WORK_FOLDER: Final = ".batchwright"


@dataclass(frozen=True, slots=True)
class OutputLayout:
    """`prefix` is the key of `<output>/<name>/`, with its slash."""

    prefix: str

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
    def records(self) -> str:
        """Prefix of all shard records."""
        return f"{self.prefix}records/"

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

    def shard_file(self, shard: int, attempt: str, kind: str) -> str:
        """A shard's file of a kind."""
        return f"{self.shard_files}{_shard(shard)}/{attempt}-{kind}.jsonl"

    def worker(self, run: int, index: int) -> str:
        """The state of a worker index."""
        return f"{self.prefix}workers/{run}/{index}.json"


def _shard(shard: int) -> str:
    return f"{shard:06d}"


def shard_of(key: str, prefix: str) -> int:
    """The shard that a key under a prefix of claims, records or segments belongs to.

    Raises:
        ValueError: the key is none of these.
    """
    if not key.startswith(prefix):
        raise ValueError(f"{key} is not under {prefix}")
    return int(key[len(prefix) :].split("/", maxsplit=1)[0].removesuffix(".json"))

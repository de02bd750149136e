"""Names of what a batch publishes: `<stem>_<model>_<batch id>/<stem>_<time>.results.jsonl`. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

LONGEST_PART: Final = 80
"""Bytes of the input's stem and of the model's name. A name may have 255 on most file systems."""
TIME_FORMAT: Final = "%Y%m%d_%H%M%S"

_UNUSABLE: Final = re.compile(r"[\x00-\x1f\x7f/\\]")


@dataclass(frozen=True, slots=True)
class OutputNames:
    """A folder and the files in it."""

    folder: str
    results: str
    errors: str
    retry: str
    progress: str

    def spec(self) -> dict[str, Any]:
        """`folder` and `names` of a BatchJob's spec.output."""
        files = {name: getattr(self, name) for name in ("results", "errors", "retry", "progress")}
        return {"folder": self.folder, "names": files}


def output_names(input_path: str, model: str, batch_id: str, now: datetime) -> OutputNames:
    """The names for a batch that is made now. The batch's id makes the folder its alone."""
    stem = _stem(input_path)
    file = f"{stem}_{now.astimezone(UTC).strftime(TIME_FORMAT)}"
    return OutputNames(
        folder=f"{stem}_{_usable(model.rpartition('/')[2] or model)}_{batch_id}",
        results=f"{file}.results.jsonl",
        errors=f"{file}.errors.jsonl",
        retry=f"{file}.retry.jsonl",
        progress=f"{file}.progress.json",
    )


def _stem(path: str) -> str:
    """The file's name without its last extension. A leading dot is replaced: names of work objects begin with one."""
    name = path.rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    return _usable(f"_{stem[1:]}" if stem.startswith(".") else stem)


def _usable(text: str) -> str:
    return _UNUSABLE.sub("_", text).encode()[:LONGEST_PART].decode(errors="ignore")

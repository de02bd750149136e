"""versitygw, the S3 server of the tests, with a bucket for a bench."""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUCKET, INPUT_KEY = "bench", "in/input.jsonl"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket that holds an input."""

    endpoint_url: str
    environment: Mapping[str, str]
    """The keys, as a worker's process finds them."""
    _numbers: Iterator[int] = field(default_factory=count)

    def job_spec(self) -> dict[str, Any]:
        """Give the part of a BatchJob's spec that names the input, and an output of its own."""
        return {
            "input": {"uri": f"s3://{BUCKET}/{INPUT_KEY}"},
            "output": {"uri": f"s3://{BUCKET}/out-{next(self._numbers)}/"},
            "storage": {"endpointURL": self.endpoint_url},
        }


@contextmanager
def s3(source: Path) -> Iterator[Bucket]:
    """Run the server until the block ends, with this file as the input."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from fixtures.s3 import s3_process

    with tempfile.TemporaryDirectory(prefix="bench-s3-") as folder, s3_process(Path(folder)) as server:
        client = server.client()
        client.create_bucket(Bucket=BUCKET)
        client.upload_file(str(source), BUCKET, INPUT_KEY)
        root = server.root
        keys = {"AWS_ACCESS_KEY_ID": root.access_key, "AWS_SECRET_ACCESS_KEY": root.secret_key}
        yield Bucket(server.endpoint_url, keys)

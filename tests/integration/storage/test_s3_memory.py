"""Memory of the S3 store: it grows neither with the object nor with the uploads that wait."""

import os
import subprocess
import sys
from pathlib import Path

from batchwright.storage.join_plan import MIB
from fixtures.s3 import S3Bucket

# A process begins with the peak of the one that it was forked from (getrusage), but not with its VmHWM.
_UPLOAD_AND_TELL_MEMORY = """
import re, sys
from pathlib import Path
from batchwright.storage.factory import open_store
from batchwright.storage.location import Location
from batchwright.storage.settings import StorageSettings

bucket, endpoint, credentials, spool, uploads = sys.argv[1:]
settings = StorageSettings(endpoint, addressing_style="path")
store = open_store(Location("s3", bucket, ""), settings, credentials_dir=Path(credentials))
opened = [store.open_upload(f"object-{number}", spool=Path(spool)) for number in range(int(uploads))]
piece = bytes(1 << 20)
for _ in range(7):
    for upload in opened:
        upload.add(piece)
for upload in opened[:3]:
    for _ in range(5):
        upload.add(piece)
    upload.commit()
for upload in opened:
    upload.abort()
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def peak_memory(script: str, bucket: S3Bucket, *arguments: object) -> int:
    """In MiB, of a process of its own: what it held itself, not what the allocator keeps for each thread."""
    server = bucket.server
    given = [bucket.name, server.endpoint_url, str(server.root.credentials_dir), *map(str, arguments)]
    environment = os.environ | {"MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", script, *given]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
    return int(done.stdout)


def test_the_memory_of_an_upload_is_not_that_of_a_part(s3_bucket: S3Bucket, tmp_path: Path) -> None:
    """100 uploads with 7 MiB each wait at once, and some are sent."""
    few, many = (peak_memory(_UPLOAD_AND_TELL_MEMORY, s3_bucket, tmp_path, uploads) for uploads in (0, 100))
    assert many < few + 20


_JOIN_AND_TELL_MEMORY = """
import re, sys
from pathlib import Path
from batchwright.storage.factory import open_store
from batchwright.storage.location import Location
from batchwright.storage.protocol import ObjectRange
from batchwright.storage.settings import StorageSettings

bucket, endpoint, credentials, repeats = sys.argv[1:]
settings = StorageSettings(endpoint, addressing_style="path")
store = open_store(Location("s3", bucket, ""), settings, credentials_dir=Path(credentials))
store.join("joined", [ObjectRange("piece", 0, 3 << 20)] * int(repeats))
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def test_the_memory_of_a_join_does_not_grow_with_the_object(s3_bucket: S3Bucket) -> None:
    """Pieces of 3 MiB are streamed."""
    s3_bucket.put("piece", bytes(3 * MIB))
    small, large = (peak_memory(_JOIN_AND_TELL_MEMORY, s3_bucket, repeats) for repeats in (10, 70))
    assert large < small + 25

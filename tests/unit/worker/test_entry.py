"""The handler stands before anything heavy is imported."""

import subprocess
import sys

from batchwright.api.exit_codes import ExitCode

BEGINNING = """
import os, signal, sys
import batchwright.worker.entry as entry
heavy = [name for name in sys.modules if name.split(".")[0] in ("pydantic", "boto3", "botocore", "aiohttp", "msgspec")]
assert not heavy, heavy

class Importing:
    def find_spec(self, name, path, target=None):
        if name == "batchwright.worker.main":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Importing())
entry.main()
"""


def test_sigterm_during_the_imports_ends_it_as_interrupted() -> None:
    ended = subprocess.run([sys.executable, "-c", BEGINNING], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == ExitCode.INTERRUPTED, ended.stderr

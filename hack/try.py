#!/usr/bin/env python3
"""`make try`: a BatchJob on this machine against the stub model server, from the manifest to the results."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".try"
REQUESTS = 2000
SHOWN = 3
STUB_START_SECONDS = 20

MANIFEST = """\
apiVersion: batchwright.dev/v1alpha1
kind: BatchJob
metadata:
  name: try
spec:
  input:
    uri: file://{folder}/input.jsonl
  output:
    uri: file://{folder}/output/
  server:
    url: {server}
"""


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    write_input(FOLDER / "input.jsonl")
    with stub_server() as server:
        manifest = FOLDER / "batchjob.yaml"
        manifest.write_text(MANIFEST.format(folder=FOLDER, server=server))
        print(f"\n$ cat {shown(manifest)}\n{manifest.read_text()}", flush=True)
        print(f"$ batchwright run {shown(manifest)}", flush=True)
        code = subprocess.call([sys.executable, "-m", "batchwright.cli.main", "run", str(manifest)])
    if code == 0:
        show_results(FOLDER / "output" / "try" / "results.jsonl")
    return code


def write_input(path: Path) -> None:
    """Requests whose answers can be checked by eye: the stub answers with the text backwards."""
    with path.open("w") as file:
        for number in range(1, REQUESTS + 1):
            message = {"role": "user", "content": f"request {number}"}
            body = {"model": "stub-model", "messages": [message]}
            line = {"custom_id": f"try-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
            file.write(json.dumps(line) + "\n")


@contextlib.contextmanager
def stub_server() -> Iterator[str]:
    """The stub on a free port of this machine; gives its URL."""
    command = [sys.executable, "-m", "stub", "--port", "0", "--control-port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first_line = process.stdout.readline()
        address = re.search(r"http://[^\s/]+:\d+", first_line)
        if address is None:
            raise SystemExit(f"the stub model server did not start: {first_line.strip() or 'it ended at once'}")
        yield address[0]
    finally:
        process.terminate()
        process.wait(STUB_START_SECONDS)


def show_results(results: Path) -> None:
    print(f"\n$ head -n {SHOWN} {shown(results)}   # custom_id, answer")
    with results.open() as file:
        for line, _ in zip(file, range(SHOWN), strict=False):
            result = json.loads(line)
            answer = result["response"]["body"]["choices"][0]["message"]["content"]
            print(f"  {result['custom_id']}: {answer!r}")


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())

"""wrk, a load generator in C: what the server gives when the client costs nothing."""

import re
import resource
import subprocess
import tempfile
from pathlib import Path

from load import HEADERS, PATH, Measured, make_body
from servers.process import pinned

WRK = "wrk"

SCRIPT = """
wrk.method = "POST"
wrk.body = [==[{body}]==]
{headers}
"""


def measure_wrk(url: str, concurrency: int, seconds: float, core: int | None) -> Measured:
    """Run wrk for whole seconds.

    Raises:
        RuntimeError: it said something else than its usual summary, or the server answered with errors.
    """
    headers = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in HEADERS.items())
    with tempfile.TemporaryDirectory(prefix="bench-wrk-") as folder:
        script = Path(folder) / "post.lua"
        script.write_text(SCRIPT.format(body=make_body(0).decode(), headers=headers))
        duration = f"{max(1, round(seconds))}s"
        command = [WRK, "-t", "1", "-c", str(concurrency), "-d", duration, "-s", str(script), url + PATH]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(pinned(command, core), capture_output=True, text=True, timeout=seconds + 30, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"(\d+) requests in ([\d.]+)s", done.stdout)
    if done.returncode or not found or "Non-2xx" in done.stdout:
        raise RuntimeError(f"wrk failed:\n{done.stdout}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(int(found[1]), float(found[2]), cpu, 0.0)

"""The gateway's manual, taken apart: what a reader types in a shell, and the manifests that it shows."""

import re
from collections.abc import Iterator

from fixtures.cluster import ROOT

MANUAL = (ROOT / "docs" / "gateway.md").read_text()


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    """Language and text of the manual's fenced blocks in these languages, in order."""
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", MANUAL, re.MULTILINE | re.DOTALL):
        if language in languages:
            yield language, text


def manifest(first_line: str) -> str:
    """The yaml block that begins so."""
    (found,) = [text for _, text in blocks("yaml") if text.startswith(first_line)]
    return found


def session() -> str:
    """Everything that a reader types, in one shell."""
    steps = (
        text if language == "bash" else f"python - <<'PYTHON'\n{text}PYTHON\n"
        for language, text in blocks("bash", "python")
    )
    return "set -euo pipefail\ntrap 'kill $(jobs -p)' EXIT\n" + "".join(steps)

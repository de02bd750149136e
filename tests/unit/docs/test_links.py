"""The links of the documents lead somewhere: to files that exist, and to headings in them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


def anchors(document: Path) -> Iterator[str]:
    """The anchors of a document's headings, as GitHub makes them; a heading that comes again gets a number."""
    seen: dict[str, int] = {}
    for heading in HEADING.findall(FENCED.sub("", document.read_text())):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", text).lower().replace(" ", "-")
        count = seen[anchor] = seen.get(anchor, -1) + 1
        yield f"{anchor}-{count}" if count else anchor


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(document: Path) -> None:
    for target, anchor in LINK.findall(FENCED.sub("", document.read_text())):
        path = document.parent / target if target else document
        assert path.exists(), f"there is no {target}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{path.name} has no heading for #{anchor}"


def test_there_are_links_of_both_kinds() -> None:
    found = [link for document in DOCUMENTS for link in LINK.findall(document.read_text())]
    assert any(target and anchor for target, anchor in found)
    assert any(not target and anchor for target, anchor in found)

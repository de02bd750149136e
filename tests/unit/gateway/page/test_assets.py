"""Names and links of what a page is made of."""

import re

import pytest

from batchwright.gateway.page.assets import Assets, packaged
from batchwright.gateway.page.templating import Templates


def test_a_name_changes_with_the_content() -> None:
    before, after = Assets({"page.css": b"a"}), Assets({"page.css": b"b"})
    assert before.name("page.css") != after.name("page.css")
    assert re.fullmatch(r"page\.[0-9a-f]{12}\.css", before.name("page.css"))
    assert before.find(after.name("page.css")) is None


def test_files_are_found_by_their_whole_name_alone() -> None:
    assets = packaged()
    assert assets.find("page.css") is None
    assert assets.find("../templates/base.html") is None
    for plain in ("page.css", "live.js", "upload.js", "mark.svg"):
        found = assets.find(assets.name(plain))
        assert found is not None
        assert found.content


def test_there_are_two_scripts_and_one_sheet() -> None:
    kinds = sorted(name.rpartition(".")[2] for name in packaged()._assets)
    assert kinds == ["css", "js", "js", "svg"]


@pytest.mark.parametrize(
    ("root_path", "path", "ours"),
    [
        ("", "/ui/", True),
        ("", "/ui/batches/batch_1?x=1", True),
        ("/batch", "/batch/ui/", True),
        ("/batch", "/ui/", False),
        ("", "/uix/", False),
        ("", "https://evil.example/ui/", False),
        ("", "//evil.example/ui/", False),
        ("", "/ui//evil.example", False),
        ("", "/ui/\\evil.example", False),
        ("", "/ui/\r\nset-cookie: a=b", False),
        ("", "", False),
    ],
)
def test_signing_in_leads_to_our_own_pages_alone(root_path: str, path: str, ours: bool) -> None:
    assert Templates(packaged(), root_path).is_ours(path) is ours


@pytest.mark.parametrize("path", ["/ui/batches/x", "/batch/ui/batches/x"])
def test_a_path_is_as_the_browser_sees_it(path: str) -> None:
    assert Templates(packaged(), "/batch").from_root(path) == "/batch/ui/batches/x"


def test_what_is_put_into_a_template_is_escaped() -> None:
    templates = Templates(packaged(), "")
    text = templates.render(
        "sign_in.html", title="<b>", principal=None, next='"><script>', namespace="<i>", problem=None
    )
    assert "<b>" not in text
    assert "<script>" not in text
    assert "<i>" not in text
    assert "&#34;&gt;&lt;script&gt;" in text

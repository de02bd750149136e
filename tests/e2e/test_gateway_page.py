"""The gateway's page in a real browser, before a real cluster: a file is uploaded, runs, and its results come back."""

import json
from pathlib import Path

from playwright.sync_api import expect

from e2e.gateway import gateway_access
from e2e.quickstart import Quickstart, chat_line, jsonl
from fixtures.browser import chromium

LINES = 2000
UPLOAD_MS = 60_000
RUN_MS = 180_000


def test_a_person_uploads_watches_and_downloads(quickstart: Quickstart, tmp_path: Path) -> None:
    file = tmp_path / "by-hand.jsonl"
    lines = [chat_line(f"q-{n}", text=f"{n} olleh", stub="status=400" if n == 7 else "") for n in range(LINES)]
    file.write_bytes(jsonl(lines))
    with gateway_access() as access, chromium() as browser:
        page = browser.page(access.url, principal=None)
        page.goto(access.url)
        page.get_by_label("API key").fill(access.key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Requests, one JSON object a line").set_input_files(file)
        page.get_by_role("button", name="Upload and start").click()
        expect(page.get_by_role("heading", name="by-hand.jsonl")).to_be_visible(timeout=UPLOAD_MS)
        status = page.locator(".status").first
        expect(status).to_have_text("Completed", timeout=RUN_MS)  # by itself, as the batch goes on
        expect(page.get_by_role("rowheader", name="400")).to_be_visible()
        expect(page.get_by_role("img", name="Requests per second over the time of the run")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download results").click()
        results = [json.loads(line) for line in download.value.path().read_text().splitlines()]
        assert [one["custom_id"] for one in results] == [f"q-{n}" for n in range(LINES) if n != 7]
        page.get_by_role("button", name="Retry failed lines").click()
        expect(page.get_by_role("heading", name="by-hand.retry.jsonl")).to_be_visible(timeout=UPLOAD_MS)
        browser.close_pages()
        assert browser.console == []

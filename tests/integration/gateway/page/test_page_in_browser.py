"""The page in a real Chromium: by keyboard alone, by drag and drop, without scripts, live."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from fixtures.browser import Browser
from fixtures.gateway import ALICE, running_gateway
from fixtures.kubernetes_http import HttpApi
from fixtures.page_site import Site
from fixtures.page_world import LINE, PageWorld, ended, running


def tab_to(page: Page, what: str) -> None:
    """Press Tab until an element of this selector has the focus, and see that the focus shows."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("what => document.activeElement.matches(what)", what):
            ring = page.evaluate("getComputedStyle(document.activeElement).outline")
            assert "solid" in ring, f"no focus to be seen on {what}: {ring}"
            assert "0px" not in ring
            return
    raise AssertionError(f"Tab never comes to {what}")


def choose_by_keyboard(page: Page, file: Path) -> None:
    """Open the chooser by a key. Chromium hands it over only to who has listened for a while before."""
    page.on("filechooser", lambda chooser: chooser.set_files(file))
    page.evaluate("new Promise(requestAnimationFrame)")
    tab_to(page, "input[type=file]")
    page.keyboard.press("Enter")


def test_everything_can_be_done_by_keyboard(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "by-keyboard.jsonl"
    file.write_bytes(LINE % 1 * 500)
    page = site.open(principal=None)
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(ALICE.user)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No batches yet")).to_be_visible()
    tab_to(page, "select")
    page.keyboard.press("ArrowDown")
    choose_by_keyboard(page, file)
    expect(page.get_by_label("Endpoint")).to_have_value("/v1/chat/completions")  # as its first line says
    tab_to(page, "button[type=submit]:not(.quiet)")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="by-keyboard.jsonl")).to_be_visible()
    batch = site.newest()
    assert site.input_of(batch) == file.read_bytes()
    tab_to(page, "#cancel")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Cancel this batch?")).to_be_visible()
    assert site.world.state(batch).status == "validating"
    tab_to(page, "#confirm")
    page.keyboard.press("Enter")
    expect(page.locator(".status").first).to_have_text("Cancelling")
    assert site.world.state(batch).status == "cancelling"


def test_the_first_tab_leads_past_the_top(site: Site) -> None:
    page = site.open()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def drop(page: Page, *files: Path) -> None:
    """Drag files from outside over the window and drop them: what a window system tells the browser."""
    session = page.context.new_cdp_session(page)
    box = page.locator("main").bounding_box()
    assert box
    data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send(
            "Input.dispatchDragEvent",
            {"type": kind, "x": box["x"] + 60, "y": box["y"] + 100, "data": data, "modifiers": 0},
        )


def test_a_file_can_be_dropped(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "dropped.jsonl"
    file.write_bytes((LINE % 1).replace(b"/v1/chat/completions", b"/v1/embeddings"))
    page = site.open()
    drop(page, file)
    expect(page.get_by_label("Endpoint")).to_have_value("/v1/embeddings")
    expect(page.locator("[data-note]")).to_have_text("100 B, for Qwen/Qwen3-8B")
    expect(page.get_by_role("button", name="Upload and start")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="dropped.jsonl")).to_be_visible()
    assert site.newest().endpoint == "/v1/embeddings"
    assert site.input_of(site.newest()) == file.read_bytes()


def test_two_files_at_once_are_no_batch(site: Site, tmp_path: Path) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        file.write_bytes(LINE % 1)
    page = site.open()
    drop(page, *files)
    expect(page.get_by_role("alert")).to_have_text("Drop one file: each batch has one.")
    expect(page.get_by_role("alert")).to_be_focused()


def test_a_folder_is_no_file(site: Site, tmp_path: Path) -> None:
    page = site.open()
    drop(page, tmp_path)
    expect(page.get_by_role("alert")).to_have_text("This can't be read. Is it a folder?")


def test_an_upload_shows_how_far_it_is_and_can_be_stopped(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl"
    file.write_bytes(LINE % 1 * 40_000)
    page = site.open()
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 400_000}
    session.send("Network.emulateNetworkConditions", slow)
    page.get_by_label("Requests, one JSON object a line").set_input_files(file)
    page.get_by_role("button", name="Upload and start").click()
    expect(page.locator("[data-sent]")).to_have_text(re.compile(r"[1-9]\d?% of 4\.\d MB"))
    expect(page.locator("[data-said]")).to_have_text(re.compile(r"\d0 percent uploaded"))
    assert 0 < page.get_by_role("progressbar", name="Upload").evaluate("bar => bar.value") < 100
    page.get_by_role("button", name="Stop the upload").click()
    expect(page.get_by_role("button", name="Upload and start")).to_be_enabled()
    expect(page.locator("[data-sending]")).to_be_hidden()
    assert list(site.world.gateway.batches.list("team-a")) == []
    session.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    page.get_by_role("button", name="Upload and start").click()
    expect(page.get_by_role("heading", name="large.jsonl")).to_be_visible()
    assert site.input_of(site.newest()) == file.read_bytes()


def test_what_the_gateway_refuses_is_told_beside_the_form(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "packed.jsonl"
    file.write_bytes(b"\x1f\x8b\x08\x00" + bytes(100))
    page = site.open()
    page.get_by_label("Requests, one JSON object a line").set_input_files(file)
    page.get_by_role("button", name="Upload and start").click()
    expect(page.get_by_role("alert")).to_contain_text("gzip")
    expect(page.get_by_role("button", name="Upload and start")).to_be_enabled()
    assert page.url == f"{site.url}/ui/"
    assert list(site.world.gateway.files.list("team-a")) == []
    site.browser.console.remove(
        "error: Failed to load resource: the server responded with a status of 400 (Bad Request)"
    )


def test_a_file_that_is_too_large_is_told_before_it_is_sent(tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "large.jsonl"
    file.write_bytes(LINE % 1 * 40)
    with HttpApi() as api:
        world = PageWorld.over(tmp_path / "world", api, limits={"openai": {"bytes": 2000}})
        with running_gateway(world.gateway) as url:
            page = Site(url, world, browser).open()
            page.get_by_label("Requests, one JSON object a line").set_input_files(file)
            expect(page.get_by_role("alert")).to_have_text(
                "This file has 4.2 kB; at most 2.0 kB are allowed. Split it into several batches."
            )
            browser.close_pages()


def test_without_javascript_everything_but_dropping_works(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "plain.jsonl"
    file.write_bytes(LINE % 1)
    page = site.open(principal=None, script=False)
    page.get_by_label("API key").fill("nobody")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("This key is not known.")
    page.get_by_label("API key").fill(ALICE.user)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("[data-drop-hint]")).to_be_hidden()
    packed = tmp_path / "packed.jsonl"
    packed.write_bytes(b"\x1f\x8b\x08\x00")
    page.get_by_label("Requests, one JSON object a line").set_input_files(packed)
    page.get_by_label("Endpoint").select_option("/v1/embeddings")
    page.get_by_role("button", name="Upload and start").click()
    expect(page.get_by_role("alert")).to_contain_text("gzip")
    expect(page.get_by_label("Endpoint")).to_have_value("/v1/embeddings")
    page.get_by_label("Requests, one JSON object a line").set_input_files(file)
    page.get_by_role("button", name="Upload and start").click()
    expect(page.get_by_role("heading", name="plain.jsonl")).to_be_visible()
    assert site.newest().endpoint == "/v1/embeddings"
    page.get_by_role("link", name="Cancel batch").click()
    page.get_by_role("button", name="Cancel batch").click()
    expect(page.locator(".status").first).to_have_text("Cancelling")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    site.browser.console[:] = [line for line in site.browser.console if "Failed to load resource" not in line]


def test_a_batch_is_shown_as_it_goes_on(site: Site) -> None:
    batch = site.world.batch("live.jsonl", ago=7200, status=running(1000, 120, errorCodes={"400": 1}))
    site.world.shards(batch, 5)
    page = site.open(f"/batches/{batch.id}", height=400)
    page.get_by_text("As a table").click()
    page.locator("#cancel").focus()
    page.evaluate("scrollTo(0, 200); window.kept = document.querySelector('h1')")
    scrolled = page.evaluate("scrollY")
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "12")
    expect(page.locator("[role=status]")).to_have_text("live.jsonl: in progress, 10 percent done")
    site.world.set(batch, running(1000, 450, 50, errorCodes={"429": 50}))
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "50")
    expect(page.locator("[role=status]")).to_have_text("live.jsonl: in progress, 50 percent done")
    expect(page.get_by_role("rowheader", name="429")).to_be_visible()
    expect(page.locator("#cancel")).to_be_focused()
    assert page.locator("#plot-data").get_attribute("open") is not None
    assert page.evaluate("scrollY") == scrolled > 0
    assert page.evaluate("window.kept === document.querySelector('h1')")
    site.world.publish(batch, results=3)
    site.world.set(batch, ended("completed", 1000, 1000))
    expect(page.get_by_role("link", name="Download results")).to_be_visible()
    expect(page.locator("#cancel")).to_have_count(0)
    expect(page.locator("#live")).to_have_attribute("data-refresh", "0")


def test_a_new_batch_comes_into_the_list_and_the_others_stay(site: Site) -> None:
    first = site.world.batch("first.jsonl", ago=60, status=running(10, 1))
    page = site.open()
    link = page.get_by_role("link", name="first.jsonl")
    link.focus()
    page.evaluate("window.kept = document.activeElement")
    site.world.batch("second.jsonl", ago=0, status=running(10, 1))
    expect(page.get_by_role("link", name="second.jsonl")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody tr").nth(1)).to_have_id(f"row-{first.id}")
    assert page.evaluate("window.kept === document.activeElement")


def test_a_page_that_nobody_sees_asks_for_nothing(site: Site) -> None:
    batch = site.world.batch("a.jsonl", status=running(10, 1))
    page = site.open(f"/batches/{batch.id}")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "x-fragment" in request.headers else None)
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    asked.clear()
    page.wait_for_timeout(2600)
    assert asked == []
    site.world.set(batch, running(10, 9))
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: false});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "90")


def test_while_the_gateway_is_away_what_was_shown_stays(site: Site) -> None:
    batch = site.world.batch("a.jsonl", status=running(10, 1))
    page = site.open(f"/batches/{batch.id}")
    page.route("**/ui/batches/*", lambda route: route.abort())
    with page.expect_event("requestfailed"):
        pass
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "10")
    page.unroute("**/ui/batches/*")
    site.world.set(batch, running(10, 9))
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "90")
    site.browser.console[:] = [line for line in site.browser.console if "net::ERR_FAILED" not in line]


def test_a_session_that_ends_leads_to_the_sign_in(site: Site) -> None:
    batch = site.world.batch("a.jsonl", status=running(10, 1))
    page = site.open(f"/batches/{batch.id}")
    users: Any = site.world.gateway.authenticator
    users._principals.pop(ALICE.user)
    expect(page.get_by_role("alert")).to_contain_text("Your key is no longer known")
    site.browser.console[:] = [line for line in site.browser.console if "401" not in line]


def test_results_are_downloaded(site: Site) -> None:
    batch = site.world.batch("a.jsonl")
    site.world.publish(batch, results=3, errors=1)
    site.world.set(batch, ended("completed", 4, 3, 1))
    page = site.open(f"/batches/{batch.id}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download results").click()
    assert download.value.path().read_bytes() == b"".join(LINE % number for number in range(3))
    assert download.value.suggested_filename == f"{batch.id}_output.jsonl"


def test_failed_lines_are_tried_again(site: Site) -> None:
    batch = site.world.batch("a.jsonl")
    site.world.publish(batch, results=3, errors=2)
    site.world.set(batch, ended("completed", 5, 3, 2))
    page = site.open(f"/batches/{batch.id}")
    page.get_by_role("button", name="Retry failed lines").click()
    expect(page.get_by_role("heading", name="a.retry.jsonl")).to_be_visible()
    assert site.newest().id != batch.id

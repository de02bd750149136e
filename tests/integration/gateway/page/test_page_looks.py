"""How the page looks in a real Chromium, to whom it can be read, and that text from elsewhere stays text."""

from pathlib import Path

from playwright.sync_api import expect

from fixtures.gateway import ADMIN, BOB
from fixtures.page_site import Site
from fixtures.page_world import PageWorld, ended, running

LOOKS = (Path(__file__).parent / "looks.js").read_text()
EVIL = "<script>window.hit=1</script><img src=x onerror=window.hit=1>\"'{{7*7}}"


def populated(world: PageWorld) -> dict[str, str]:
    """Batches in every state, with long names; paths by what they show."""
    long = "a-very-long-name-without-any-blank-" * 7 + ".jsonl"
    work = world.batch(
        long, ago=112, metadata={"a" * 64: "b" * 512}, status=running(50_000, 30_000, 37, errorCodes={"400": 37})
    )
    world.shards(work, 30)
    done = world.batch("done.jsonl", ago=4000)
    world.publish(done, results=3, errors=2)
    world.set(done, ended("completed", 12_500, 12_400, 100, errorCodes={"request_timeout": 60, "x" * 40: 40}))
    wrong = world.batch("wrong.jsonl", ago=5000)
    problem = {"code": "invalid_json_line", "line": 3_000_000, "param": "body." + "x" * 59, "message": "word" * 200}
    world.set(wrong, {"phase": "failed", "validationErrors": [problem], "validationErrorCount": 1})
    stopped = world.batch(
        "stopped.jsonl", ago=6000, status=ended("cancelled", 100, 5, 95, errorCodes={"batch_cancelled": 95})
    )
    expired = world.batch(
        "expired.jsonl", ago=7000, status=ended("expired", 100, 5, 95, errorCodes={"batch_expired": 95})
    )
    path = world.path_batch("/data/tenants/team-a/" + "deep/" * 30 + "in.jsonl", ago=8000, status=running(10, 5))
    world.batch("new.jsonl", ago=3, status={"phase": "validating"})
    shown = {"working": work, "done": done, "wrong": wrong, "stopped": stopped, "expired": expired, "by path": path}
    paths = {name: f"/batches/{batch.id}" for name, batch in shown.items()}
    return {"list": "/", "cancel": f"{paths['working']}/cancel", "missing": "/nothing", **paths}


def test_text_from_elsewhere_stays_text(site: Site, tmp_path: Path) -> None:
    world = site.world
    batch = world.batch(f"{EVIL}.jsonl", user=EVIL, metadata={EVIL[:60]: EVIL}, status=None)
    world.set(batch, running(10, 5, 1, model=EVIL, message=EVIL, rate=EVIL[:60], eta=EVIL[:60], errorCodes={"<b>": 1}))
    wrong = world.batch("wrong.jsonl")
    problem = {"code": EVIL[:60], "line": 1, "param": EVIL[:60], "message": EVIL}
    world.set(wrong, {"phase": "failed", "message": EVIL, "validationErrors": [problem], "validationErrorCount": 1})
    by_path = world.path_batch(f"/data/{EVIL}/in.jsonl", status=running(10, 5))
    page = site.open()
    for path in (
        f"/batches/{batch.id}",
        f"/batches/{batch.id}/cancel",
        f"/batches/{wrong.id}",
        f"/batches/{by_path.id}",
        "/",
    ):
        page.goto(f"{site.url}/ui{path}")
        assert EVIL[:20] in page.locator("main").inner_text()
        assert page.locator("script:not([src]), img, main b").count() == 0
        assert page.evaluate("window.hit") is None
    # And what comes later, by the script.
    world.batch(f"later{EVIL}.jsonl", ago=0, status=running(10, 5))
    expect(page.get_by_role("link", name=f"later{EVIL}.jsonl")).to_be_visible()
    assert page.evaluate("window.hit") is None
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"url": "/v1/embeddings", "body": {"model": "<img src=x onerror=window.hit=1>"}}\n')
    page.get_by_label("Requests, one JSON object a line").set_input_files(file)
    expect(page.locator("[data-note]")).to_contain_text("<img src=x")
    assert page.evaluate("window.hit") is None


def test_the_policy_holds_in_the_browser(site: Site) -> None:
    page = site.open()
    blocked = page.evaluate(
        """() => new Promise(resolve => {
            document.addEventListener('securitypolicyviolation', event => resolve(event.effectiveDirective));
            const script = document.createElement('script');
            script.textContent = 'window.hit = 1';
            document.body.append(script);
        })"""
    )
    assert blocked == "script-src-elem"
    assert page.evaluate("window.hit") is None
    site.browser.console.clear()


def test_every_page_can_be_read_by_everybody(site: Site) -> None:
    """In both schemes, on a narrow screen, and by who can't see it."""
    pages = {**populated(site.world), "sign in": "/sign-in"}
    page = site.open()
    for name, path in pages.items():
        page.set_viewport_size({"width": 1280, "height": 900})
        page.emulate_media(color_scheme="light")
        page.goto(f"{site.url}/ui{path}")
        light = page.screenshot()
        assert page.evaluate(f"{LOOKS}; badlyBuilt()") == [], name
        assert page.evaluate(f"{LOOKS}; tooFaint()") == [], f"{name}, light"
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(f"{LOOKS}; tooFaint()") == [], f"{name}, dark"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 19, 22)"
        assert page.screenshot() != light
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
    site.browser.console.remove("error: Failed to load resource: the server responded with a status of 404 (Not Found)")


def test_a_page_without_batches_can_be_read_by_everybody(site: Site) -> None:
    page = site.open(principal=BOB)
    expect(page.get_by_role("heading", name="No batches yet")).to_be_visible()
    assert f"curl {site.url}/v1/files" in page.locator("pre").nth(1).inner_text()
    for looked in ("badlyBuilt", "tooFaint"):
        assert page.evaluate(f"{LOOKS}; {looked}()") == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_an_administrators_list_can_be_read_by_everybody(site: Site) -> None:
    populated(site.world)
    page = site.open(principal=ADMIN)
    expect(page.get_by_role("columnheader", name="Namespace")).to_be_visible()
    for looked in ("badlyBuilt", "tooFaint"):
        assert page.evaluate(f"{LOOKS}; {looked}()") == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    brand, out = (
        page.get_by_role("link", name="Batchwright").bounding_box(),
        page.get_by_text("Sign out").bounding_box(),
    )
    assert brand
    assert out
    assert abs(brand["y"] + brand["height"] / 2 - out["y"] - out["height"] / 2) < 5, "one line"


def test_the_looks_that_are_asked_for_find_what_is_wrong(site: Site) -> None:
    page = site.open()
    page.evaluate("document.querySelector('h1').style.color = '#999'; document.querySelector('label').remove()")
    page.evaluate("document.querySelector('h2').outerHTML = '<h4>New</h4>'")
    page.evaluate("document.querySelector('.inner').style.minWidth = '400px'")
    assert [line.split(":")[0] for line in page.evaluate(f"{LOOKS}; tooFaint()")] == ["H1  Batches"]
    assert {line.split(":")[0] for line in page.evaluate(f"{LOOKS}; badlyBuilt()")} == {
        "H4 after h1",
        "no label",
        "a part without a name",
    }
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") > 360


def test_nothing_moves_for_who_does_not_want_it(site: Site) -> None:
    site.world.batch("a.jsonl", status={"phase": "validating"})
    page = site.open()
    assert page.locator(".bar .track").evaluate("bar => getComputedStyle(bar).animationName") == "waiting"
    page.emulate_media(reduced_motion="reduce")
    assert page.locator(".bar .track").evaluate("bar => getComputedStyle(bar).animationName") == "none"
    assert page.locator(".bar .completed").evaluate("bar => getComputedStyle(bar).transitionDuration") in (
        "0s",
        "0s, 0s",
    )

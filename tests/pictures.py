"""Make the README's pictures of the gateway's page: `make pictures`.

A gateway on this machine with batches that somebody might have, looked at by Debian's Chromium.
"""

import tempfile
from datetime import timedelta
from pathlib import Path

from fixtures.browser import Browser, chromium
from fixtures.gateway import running_gateway
from fixtures.kubernetes_http import HttpApi
from fixtures.page_world import PageWorld, ended, running

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1120, 760
LARGEST = 150_000
"""Bytes of a picture: a README is read on a phone, too."""


def main() -> None:
    """Write them."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, HttpApi() as api:
        world = PageWorld.over(Path(folder), api)
        one = populate(world)
        with running_gateway(world.gateway) as url, chromium() as browser:
            for scheme in ("light", "dark"):
                picture(browser, url, "/", f"gateway-list-{scheme}", scheme)
                picture(browser, url, f"/batches/{one}", f"gateway-batch-{scheme}", scheme)


def populate(world: PageWorld) -> str:
    """Batches in every state; gives the id of one that works."""
    day = timedelta(days=1).total_seconds()
    old = world.batch("faq-embeddings.jsonl", ago=3 * day, user="dana", endpoint="/v1/embeddings")
    world.publish(old, results=3)
    world.set(old, ended("completed", 48_000, 48_000, model="BAAI/bge-m3"))
    stopped = world.batch("prompt-sweep-b.jsonl", ago=2 * day)
    world.publish(stopped, results=3, errors=3)
    world.set(stopped, ended("cancelled", 20_000, 7_312, 12_688, errorCodes={"batch_cancelled": 12_650, "400": 38}))
    wrong = world.batch("translations.jsonl", ago=day, user="dana")
    problems = [{"code": "duplicate_custom_id", "line": 812, "param": "custom_id", "message": "Line 17 has it."}]
    world.set(wrong, {"phase": "failed", "validationErrors": problems, "validationErrorCount": 1})
    good = world.batch("nightly-eval.jsonl", ago=0.4 * day, metadata={"suite": "nightly", "commit": "8f3c2e1"})
    world.publish(good, results=3, errors=2)
    world.set(good, ended("completed", 12_500, 12_488, 12, errorCodes={"400": 11, "request_timeout": 1}))
    world.path_batch("/data/tenants/team-a/corpus/summaries.jsonl", ago=1260, status=running(150_000, 96_400, 21))
    labels = {"project": "support", "owner": "alice"}
    work = world.batch("support-tickets.jsonl", ago=112, metadata=labels)
    world.shards(work, 38, seconds=19)
    codes = {"400": 31, "request_timeout": 4, "503": 2}
    world.set(work, running(50_000, 37_963, 37, eta="29s", errorCodes=codes))
    world.batch("red-team-prompts.jsonl", ago=6, user="dana", status={"phase": "validating", "model": "Qwen/Qwen3-8B"})
    return work.id


def picture(browser: Browser, url: str, path: str, name: str, scheme: str) -> None:
    """One page in one scheme."""
    page = browser.page(url, scheme=scheme, width=WIDTH, height=HEIGHT)
    page.goto(f"{url}/ui{path}")
    file = IMAGES / f"{name}.png"
    page.screenshot(path=file, animations="disabled")
    page.context.close()
    size = file.stat().st_size
    print(f"{file.relative_to(IMAGES.parents[1])}: {size:,} bytes")
    assert size < LARGEST, f"{file} is too large"


if __name__ == "__main__":
    main()

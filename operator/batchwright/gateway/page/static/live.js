// Keeps the region #live as the server renders it, every `data-refresh` seconds while it says so and the page is seen.
// Only what differs is changed in place: so focus, selection, scroll position and what is folded open stay.
"use strict";
(() => {
  const region = () => document.getElementById("live");
  let etag = null;
  let timer = null;
  let failures = 0;

  // Attributes that people set and the server doesn't know of.
  const own = (element, name) => element.nodeName === "DETAILS" && name === "open";

  function setAttributes(before, after) {
    for (const { name } of [...before.attributes])
      if (!after.hasAttribute(name) && !own(before, name)) before.removeAttribute(name);
    for (const { name, value } of after.attributes)
      if (before.getAttribute(name) !== value) before.setAttribute(name, value);
  }

  const same = (before, after) =>
    before.nodeType === after.nodeType && before.nodeName === after.nodeName && (before.id ?? "") === (after.id ?? "");

  // Rows have ids, so one that is new is put in, and the others keep their nodes.
  function setChildren(before, after) {
    const named = new Map([...before.children].filter((child) => child.id).map((child) => [child.id, child]));
    let current = before.firstChild;
    for (const wanted of [...after.childNodes]) {
      const kept = wanted.id ? named.get(wanted.id) : null;
      if (kept && kept !== current && kept.parentNode === before && kept.nodeName === wanted.nodeName) {
        before.insertBefore(kept, current);
        current = kept;
      }
      if (current && same(current, wanted)) {
        const next = current.nextSibling;
        change(current, wanted);
        current = next;
      } else {
        before.insertBefore(document.importNode(wanted, true), current);
      }
    }
    while (current) {
      const next = current.nextSibling;
      current.remove();
      current = next;
    }
  }

  function change(before, after) {
    if (before.nodeType !== Node.ELEMENT_NODE) {
      if (before.nodeValue !== after.nodeValue) before.nodeValue = after.nodeValue;
      return;
    }
    setAttributes(before, after);
    setChildren(before, after);
  }

  async function refresh() {
    const headers = { "X-Fragment": "1" };
    if (etag) headers["If-None-Match"] = etag;
    try {
      const answer = await fetch(location.href, {
        headers, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(15000),
      });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.status === 200) {
        const fetched = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
        if (fetched) { change(region(), fetched); etag = answer.headers.get("ETag"); }
      }
      failures = answer.status === 200 || answer.status === 304 ? 0 : failures + 1;
    } catch {
      failures += 1; // the gateway is away: what is shown stays, and is asked for again, less often
    }
    plan();
  }

  function plan() {
    clearTimeout(timer);
    const seconds = Number(region()?.dataset.refresh);
    if (seconds > 0 && !document.hidden) timer = setTimeout(refresh, 1000 * Math.min(seconds * 2 ** failures, 60));
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden && Number(region()?.dataset.refresh) > 0) refresh();
  });
  plan();
})();

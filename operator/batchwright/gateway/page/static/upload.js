// Makes the upload form better: a file can be dropped, its first line chooses the endpoint, and sending shows how far it
// is. Without this script the form is sent as it is, to the same address.
"use strict";
(() => {
  const form = document.querySelector("form[data-upload]");
  if (!form) return;
  const file = form.querySelector("input[type=file]");
  const endpoint = form.querySelector("select[name=endpoint]");
  const drop = form.querySelector("[data-drop]");
  const note = form.querySelector("[data-note]");
  const sending = form.querySelector("[data-sending]");
  const said = form.querySelector("[data-said]");
  const submit = form.querySelector("button[type=submit]");
  const bounds = note.textContent;
  const SNIFFED = 262144;

  form.querySelector("[data-drop-hint]").hidden = false;

  const size = (bytes) => {
    let unit = "B";
    for (const larger of ["kB", "MB", "GB", "TB"]) {
      if (bytes < 999.5) break;
      bytes /= 1000;
      unit = larger;
    }
    return `${unit === "B" || bytes >= 10 ? Math.round(bytes) : bytes.toFixed(1)} ${unit}`;
  };

  function complain(text) {
    document.getElementById("problem")?.remove();
    if (!text) return;
    const alert = document.createElement("div");
    alert.id = "problem";
    alert.className = "alert";
    alert.setAttribute("role", "alert");
    alert.tabIndex = -1;
    alert.textContent = text;
    form.prepend(alert);
    alert.focus();
  }

  async function look() {
    complain("");
    const chosen = file.files[0];
    if (!chosen) { note.textContent = bounds; return; }
    const largest = Number(form.dataset.largest);
    if (largest && chosen.size > largest)
      complain(`This file has ${size(chosen.size)}; at most ${size(largest)} are allowed. Split it into several batches.`);
    note.textContent = size(chosen.size);
    let start = "";
    try { start = await chosen.slice(0, SNIFFED).text(); } catch { complain("This can't be read. Is it a folder?"); }
    if (file.files[0] !== chosen) return;
    let first = {};
    try { first = JSON.parse(start.replace(/^\uFEFF/, "").split("\n").find((line) => line.trim()) ?? ""); } catch { return; }
    if ([...endpoint.options].some((option) => option.value === first?.url)) endpoint.value = first.url;
    const model = first?.body?.model;
    if (typeof model === "string") note.textContent = `${size(chosen.size)}, for ${model.slice(0, 100)}`;
  }

  const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0; // dragenter and dragleave come for every element on the way
  const mark = (over) => drop.classList.toggle("over", over);
  document.addEventListener("dragenter", (event) => { if (carriesFiles(event)) { depth += 1; mark(true); } });
  document.addEventListener("dragleave", (event) => {
    if (carriesFiles(event)) { depth = Math.max(0, depth - 1); mark(depth > 0); }
  });
  document.addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    mark(false);
    if (event.dataTransfer.files.length !== 1) { complain("Drop one file: each batch has one."); return; }
    file.files = event.dataTransfer.files;
    look();
    submit.focus();
  });
  file.addEventListener("change", look);

  function failed(text) {
    sending.hidden = true;
    submit.disabled = false;
    said.textContent = "";
    complain(text);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    complain("");
    const request = new XMLHttpRequest();
    const bar = form.querySelector("progress");
    const sent = form.querySelector("[data-sent]");
    let tenth = -1;
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      const percent = Math.floor((100 * loaded) / (total || 1));
      bar.value = percent;
      sent.textContent = percent < 100 ? `${percent}% of ${size(total)}` : "Sent. Starting the batch …";
      if (Math.floor(percent / 10) > tenth) {
        tenth = Math.floor(percent / 10);
        said.textContent = percent < 100 ? `${tenth * 10} percent uploaded` : "Uploaded, starting the batch";
      }
    });
    request.addEventListener("load", () => {
      const answer = request.response ?? {};
      if (request.status === 201 && answer.location) location.assign(answer.location);
      else if (request.status === 401) location.reload();
      else failed(answer.error?.message ?? `The gateway answered ${request.status}. Try again.`);
    });
    request.addEventListener("error", () => failed("The connection broke before the file was sent. Try again."));
    request.addEventListener("abort", () => { failed(""); submit.focus(); });
    form.querySelector("[data-abort]").onclick = () => request.abort();
    request.open("POST", form.action);
    request.responseType = "json";
    request.setRequestHeader("Accept", "application/json");
    request.send(new FormData(form));
    bar.value = 0;
    sent.textContent = "";
    sending.hidden = false;
    submit.disabled = true;
  });
  window.addEventListener("pageshow", (event) => { if (event.persisted) failed(""); });
})();

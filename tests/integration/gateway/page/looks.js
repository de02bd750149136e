// What tests ask a page in the browser about its looks and its build.

// A colour as the browser paints it over another one.
function painted(colours) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, 1, 1);
  for (const colour of colours) {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
  }
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

// Relative luminance and contrast, WCAG 2.2.
function luminance(rgb) {
  const [r, g, b] = rgb.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(one, other) {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function ancestors(element) {
  const found = [];
  for (let one = element; one; one = one.parentElement) found.unshift(one);
  return found;
}
const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

// Text with too little contrast: "4.5:1, or 3:1 where it is large".
function tooFaint() {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const controls = [...document.querySelectorAll("input, select, button")];
  const texts = controls.filter((one) => one.matches("input, select"));
  while (walker.nextNode()) if (walker.currentNode.nodeValue.trim()) texts.push(walker.currentNode.parentElement);
  for (const element of new Set(texts)) {
    if (!isShown(element) || element.closest(".unseen, [aria-hidden=true], svg, option")) continue;
    const style = getComputedStyle(element);
    const backgrounds = ancestors(element).map((one) => getComputedStyle(one).backgroundColor);
    const ratio = contrast(painted([...backgrounds, style.color]), painted(backgrounds));
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push(`${element.tagName} ${element.className} ${element.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  if (texts.length < 5) found.push("hardly any text was looked at");
  return found;
}

function accessibleName(element) {
  const ids = (element.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean);
  const labels = [...(element.labels ?? [])].map((label) => label.textContent);
  const named = ids.map((id) => document.getElementById(id)?.textContent ?? "");
  return [element.getAttribute("aria-label") ?? "", ...named, ...labels, element.textContent].join(" ").trim();
}

function badlyBuilt() {
  const found = [];
  const all = (what) => [...document.querySelectorAll(what)];
  const check = (holds, text) => { if (!holds) found.push(text); };
  check(document.documentElement.lang === "en", "no language");
  check(document.title.length > 5, "no title");
  check(all("main").length === 1, "not one main");
  check(all("header.top").length === 1, "no banner");
  check(all("h1").length === 1, "not one h1");
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6")) {
    const own = Number(heading.tagName[1]);
    check(own <= level + 1, `${heading.tagName} after h${level}: ${heading.textContent}`);
    level = own;
  }
  for (const control of all("input:not([type=hidden]):not([hidden]), select, textarea, button, a, progress"))
    check(accessibleName(control) !== "", `no name: ${control.outerHTML.slice(0, 80)}`);
  for (const control of all("input:not([type=hidden]):not([hidden]), select"))
    check(control.labels.length === 1, `no label: ${control.outerHTML.slice(0, 80)}`);
  for (const graphic of all("svg"))
    check(graphic.closest("[aria-hidden=true]") || (graphic.hasAttribute("role") && accessibleName(graphic)), `a graphic without a name: ${graphic.outerHTML.slice(0, 80)}`);
  for (const bar of all("[role=progressbar]"))
    check(["aria-valuenow", "aria-valuemin", "aria-valuemax", "aria-valuetext"].every((name) => bar.hasAttribute(name)), "a bar without values");
  for (const cell of all("table thead th")) check(cell.scope === "col", `no scope: ${cell.textContent}`);
  for (const section of all("section, nav"))
    check(section.hasAttribute("aria-label") || document.getElementById(section.getAttribute("aria-labelledby")), `a part without a name: ${section.outerHTML.slice(0, 60)}`);
  const ids = all("[id]").map((element) => element.id);
  check(new Set(ids).size === ids.length, `an id stands twice: ${ids.filter((id, place) => ids.indexOf(id) !== place)}`);
  for (const described of all("[aria-describedby]"))
    check(document.getElementById(described.getAttribute("aria-describedby")), "described by nothing");
  for (const element of all("[tabindex]")) check(element.tabIndex <= 0, "an order of its own");
  return found;
}

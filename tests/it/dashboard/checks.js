// What a reader who cannot see, or not well, would stumble over on this page:
// returns a line for each finding.
const found = [];
const say = (what, element) => found.push(element ? `${what}: ${element.outerHTML.slice(0, 200)}` : what);
const all = (css) => [...document.querySelectorAll(css)];
// What is folded away is a part of the page, too.
for (const details of all("details:not([open])")) details.open = true;
const isShown = (element) => element.checkVisibility({ visibilityProperty: true });

if (!document.documentElement.lang) say("no language");
if (!document.title.trim()) say("no title");
if (all("main").length !== 1) say(`${all("main").length} main landmarks`);
for (const nav of all("nav")) if (all("nav").length > 1 && !nameOf(nav)) say("a nav among others without a name", nav);

// Headings begin with the one of level 1 and leave no level out.
const levels = all("h1, h2, h3, h4, h5, h6").filter((h) => isShown(h) && !h.closest(".prose, dialog"));
if (levels.filter((h) => h.tagName === "H1").length !== 1) say("not one h1");
let before = 0;
for (const heading of levels) {
  const level = Number(heading.tagName[1]);
  if (level > before + 1) say(`h${level} after h${before}`, heading);
  if (!heading.textContent.trim()) say("an empty heading", heading);
  before = level;
}

const ids = new Set();
for (const element of all("[id]")) {
  if (ids.has(element.id)) say(`the id ${element.id} twice`, element);
  ids.add(element.id);
}
for (const name of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
  for (const element of all(`[${name}]`)) {
    for (const id of element.getAttribute(name).split(/\s+/)) {
      if (!document.getElementById(id)) say(`${name} names ${id}, which is not there`, element);
    }
  }
}

function nameOf(element) {
  const label = element.getAttribute("aria-label");
  if (label && label.trim()) return label.trim();
  const by = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
  const text = by.map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim();
  if (text) return text;
  if (element.labels) return [...element.labels].map((one) => one.textContent).join(" ").trim();
  return "";
}
for (const field of all("input:not([type=hidden]), select, textarea, meter, progress")) {
  if (isShown(field) && !nameOf(field)) say("a field without a label", field);
}
for (const element of all("a[href], button, summary")) {
  if (!nameOf(element) && !element.textContent.trim()) say("nothing says what this does", element);
}
for (const element of all("svg, img")) {
  const isNamed = nameOf(element) || element.getAttribute("alt") || element.querySelector(":scope > title, a[aria-label], a > title") || element.parentElement.closest("svg");
  if (!isNamed && !element.closest("[aria-hidden=true]")) say("a picture without a name", element);
}
for (const section of all("section, [role=group], dialog")) if (!nameOf(section)) say("a region without a name", section);
for (const element of all("[tabindex]")) if (element.tabIndex > 0) say("an order of its own", element);
for (const list of all("ul, ol")) {
  for (const child of list.children) if (child.tagName !== "LI") say("in a list and no item of it", child);
}
for (const term of all("dl > *")) if (!["DT", "DD", "DIV"].includes(term.tagName)) say("in a dl", term);
for (const table of all("table")) {
  for (const cell of table.closest(".prose") ? [] : table.querySelectorAll("thead th")) {
    if (!cell.textContent.trim()) say("a column without a name", cell);
    if (cell.getAttribute("scope") !== "col") say("a head of no column", cell);
  }
  if (!table.querySelector("th")) say("a table without heads", table);
}
for (const field of all("[aria-invalid=true]")) {
  if (!field.getAttribute("aria-describedby")) say("wrong, and nobody says why", field);
}
for (const element of all("[role=img] a, [role=img] button, a a, a button, button a, label label")) say("one in the other", element);
for (const element of all(".scroll, pre")) {
  const scrolls = element.scrollWidth > element.clientWidth + 1;
  if (scrolls && element.tabIndex < 0 && !element.querySelector("a, button, input, select")) say("scrolls by mouse only", element);
}

// The ring around the focus is there, and no ancestor cuts it off. Marks of charts have an
// outline of their own.
for (const element of all("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")) {
  if (!isShown(element) || element.disabled || element.closest("svg, dialog")) continue;
  element.focus();
  if (document.activeElement !== element) continue;
  const style = getComputedStyle(element);
  const width = style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth);
  if (width < 2) say("no ring around the focus", element);
  const reach = width + parseFloat(style.outlineOffset);
  const box = element.getBoundingClientRect();
  for (let around = element.parentElement; around && around !== document.body; around = around.parentElement) {
    const [x, y] = [getComputedStyle(around).overflowX, getComputedStyle(around).overflowY];
    const edge = around.getBoundingClientRect();
    const cut = [
      x !== "visible" && edge.left - box.left + reach,
      x !== "visible" && box.right + reach - edge.right,
      y !== "visible" && edge.top - box.top + reach,
      y !== "visible" && box.bottom + reach - edge.bottom,
    ];
    // Half of the ring is enough to see it.
    if (Math.max(...cut) > width / 2) say(`the ring around the focus is cut off by ${Math.max(...cut)} pixels`, element);
  }
}
document.activeElement.blur();

// Contrast: 4.5, and 3 for large text.
const parse = (text) => {
  const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
  return [r, g, b, a];
};
const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
function ground(element) {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    layers.push(colour);
    if (colour[3] === 1) break;
  }
  const base = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
  return layers.reverse().reduce((below, layer) => over(layer, below), base);
}
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
function check(element, colour, style) {
  const behind = ground(element);
  const [one, other] = [light(over(parse(colour), behind)), light(behind)];
  const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
  if (ratio < (isLarge ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)} (${colour} on ${behind.map(Math.round)})`, element);
}
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let looked = 0;
for (let node = texts.nextNode(); node; node = texts.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || !isShown(element) || element.closest("script, style, option, title, .sr, :disabled")) continue;
  const style = getComputedStyle(element);
  check(element, element.closest("svg") ? style.fill : style.color, style);
  looked += 1;
}
for (const field of all("input:not([type=hidden]), select, textarea").filter(isShown)) {
  check(field, getComputedStyle(field).color, getComputedStyle(field));
  if (field.placeholder) check(field, getComputedStyle(field, "::placeholder").color, getComputedStyle(field));
}
if (looked === 0) say("no text at all");
return found;

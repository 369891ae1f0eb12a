// How long `g` waits for its letter.
const PATH_KEY_MS = 1000;
const PATHS = { o: "/", c: "/changes", u: "/upcoming", i: "/incidents", h: "/hosts", s: "/services", a: "/activity", ",": "/settings/api-keys" };

/** Selects a row of a list: `step` is 1 for the next one, and -1 for the previous one. */
function selectRow(step) {
  const rows = [...document.querySelectorAll(".changes > li:not(.reason), .entries > li")];
  const current = rows.findIndex((row) => "current" in row.dataset);
  const next = rows[Math.min(Math.max(current + step, 0), rows.length - 1)];
  if (!next) return;
  unselectRow();
  next.dataset.current = "";
  const target = next.querySelector("a") ?? next;
  if (target === next) next.tabIndex = -1;
  target.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

/** Removes the mark of the selected row, and the focus in it. */
function unselectRow() {
  const row = document.querySelector("[data-current]");
  if (!row) return;
  delete row.dataset.current;
  if (row.contains(document.activeElement)) document.activeElement.blur();
}

/** Adds the keyboard shortcuts, which the dialog `#help` lists. */
function addShortcuts() {
  const help = document.getElementById("help");
  const open = (selector) => {
    const link = document.querySelector(selector);
    if (link) location.assign(link.href);
  };
  const actions = {
    "/": () => document.getElementById("search")?.focus(),
    j: () => selectRow(1),
    k: () => selectRow(-1),
    Escape: unselectRow,
    n: () => open("[data-new]"),
    e: () => open("main a[href$='/edit']"),
    a: () => {
      const around = document.querySelector("[data-around]");
      if (around?.matches("input")) around.select();
      else location.assign(around?.href ?? "/around");
    },
    "[": () => open("a[rel=prev]"),
    "]": () => open("a[rel=next]"),
    "?": () => help?.showModal(),
  };
  let pathKeyUntil = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    const isPathKey = Date.now() < pathKeyUntil;
    pathKeyUntil = 0;
    if (event.key === "g" && !isPathKey) {
      pathKeyUntil = Date.now() + PATH_KEY_MS;
    } else if (isPathKey) {
      if (PATHS[event.key]) location.assign(PATHS[event.key]);
    } else if (actions[event.key]) {
      actions[event.key]();
    } else {
      return;
    }
    // Escape also closes menus.
    if (event.key !== "Escape") event.preventDefault();
  });
  // A touch screen has no keys.
  const hasKeys = !matchMedia("(pointer: coarse) and (hover: none)").matches;
  for (const button of document.querySelectorAll("[data-help]")) {
    button.hidden = !hasKeys;
    button.addEventListener("click", () => help.showModal());
  }
}

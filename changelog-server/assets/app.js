// The dashboard works without this script. It shows times in the user's zone,
// refreshes pages and adds keyboard shortcuts.

const ZONE_KEY = "changelog-zone";
const REFRESH_MS = 5000;

const utc = () => localStorage.getItem(ZONE_KEY) === "utc";
const exact = (at, zone) =>
  new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", timeZone: zone }).format(at);
const short = (at, zone) => {
  const parts = new Intl.DateTimeFormat("en-CA", {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone,
  }).formatToParts(at);
  const part = (name) => parts.find((candidate) => candidate.type === name).value;
  return `${part("year")}-${part("month")}-${part("day")} ${part("hour")}:${part("minute")}${zone ? " UTC" : ""}`;
};

function relative(at) {
  const seconds = Math.round((Date.now() - at) / 1000);
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  const size = Math.abs(seconds);
  if (size < 60) return seconds >= 0 ? "just now" : "in a moment";
  if (size < 3600) return words.format(-Math.round(seconds / 60), "minute");
  if (size < 86400) return words.format(-Math.round(seconds / 3600), "hour");
  return null;
}

/** Shows times in the user's zone, or in UTC if the user chose that. */
function showTimes(within) {
  const zone = utc() ? "UTC" : undefined;
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    const text = ("relative" in time.dataset && relative(at)) || short(at, zone);
    if (time.textContent !== text) time.textContent = text;
    time.title = `${exact(at)}\n${exact(at, "UTC")}`;
  }
}

/** Switches between the user's zone and UTC. */
function addZoneSwitch() {
  const button = document.querySelector("[data-zone]");
  const note = document.querySelector("[data-zone-note]");
  if (!button) {
    showTimes(document);
    return;
  }
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const update = () => {
    note.textContent = `Times are in ${utc() ? "UTC" : name}.`;
    button.textContent = utc() ? `Show ${name}` : "Show UTC";
    showTimes(document);
  };
  // In UTC there is nothing to switch.
  button.hidden = name === "UTC";
  button.addEventListener("click", () => {
    localStorage.setItem(ZONE_KEY, utc() ? "local" : "utc");
    update();
  });
  update();
  setInterval(() => showTimes(document), 30000);
}

/** Enables the buttons that copy the text of an element. */
function addCopyButtons(within) {
  for (const button of within.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent.trim());
      const before = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = before; }, 2000);
    });
  }
}

/** Refreshes the live parts of the page, except those that the user is working in. */
function refreshLiveParts() {
  const parts = () => document.querySelectorAll("[data-live]");
  if (parts().length === 0) return;
  // The HTML as the service sent it, before `showTimes` changed it.
  const sent = new Map([...parts()].map((part) => [part.dataset.live, part.outerHTML]));
  let etag = null;
  let pending = null;
  const update = document.createElement("button");
  update.className = "primary fresh";
  update.textContent = "Show updates";
  update.hidden = true;
  document.body.append(update);
  const isTyped = (part) => [...part.querySelectorAll("input")].some((field) => field.value !== field.defaultValue);
  const isBusy = (part) =>
    part.matches(":hover") || part.contains(document.activeElement) || part.querySelector("details[open], [data-current]") || isTyped(part);
  const apply = (page, force) => {
    let isLeft = false;
    for (const part of parts()) {
      const name = part.dataset.live;
      const next = page.querySelector(`[data-live="${name}"]`);
      if (!next || next.outerHTML === sent.get(name)) continue;
      if (!force && isBusy(part)) { isLeft = true; continue; }
      const top = window.scrollY;
      sent.set(name, next.outerHTML);
      part.replaceWith(next);
      showTimes(next);
      addCopyButtons(next);
      window.scrollTo({ top, behavior: "instant" });
    }
    pending = isLeft ? page : null;
    update.hidden = !isLeft;
  };
  update.addEventListener("click", () => pending && apply(pending, true));
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const headers = etag ? { "if-none-match": etag } : {};
      const response = await fetch(location.href, { headers, redirect: "error" });
      if (response.status !== 200) return;
      etag = response.headers.get("etag");
      apply(new DOMParser().parseFromString(await response.text(), "text/html"), false);
    } catch {
      // The next refresh tries again.
    }
  };
  setInterval(refresh, REFRESH_MS);
  document.addEventListener("visibilitychange", refresh);
}

/** `/` searches, `j` and `k` select a change, `n` creates one, `g` and a letter open a page. */
function addShortcuts() {
  const help = document.getElementById("help");
  const paths = { o: "/", c: "/changes", h: "/hosts", s: "/services", a: "/activity" };
  let isPathKeyNext = false;
  const rows = () => [...document.querySelectorAll(".changes > li")];
  const select = (step) => {
    const all = rows();
    const current = all.findIndex((row) => "current" in row.dataset);
    const next = all[Math.min(Math.max(current + step, 0), all.length - 1)];
    if (!next) return;
    if (current >= 0) delete all[current].dataset.current;
    next.dataset.current = "";
    next.querySelector("a").focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    const key = event.key;
    if (isPathKeyNext) {
      isPathKeyNext = false;
      if (paths[key]) location.assign(paths[key]);
      return;
    }
    const search = document.getElementById("search");
    const create = document.querySelector("[data-new]");
    if (key === "/" && search) search.focus();
    else if (key === "j") select(1);
    else if (key === "k") select(-1);
    else if (key === "n" && create) location.assign(create.href);
    else if (key === "g") isPathKeyNext = true;
    else if (key === "?" && help) help.showModal();
    else return;
    event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-help]")) {
    button.hidden = false;
    button.addEventListener("click", () => help.showModal());
  }
}

/** Closes menus on a click outside of them and on Escape. */
function closeMenus() {
  const close = (keep) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== keep) menu.open = false;
  };
  document.addEventListener("click", (event) => close(event.target.closest("details.menu")));
  document.addEventListener("keydown", (event) => event.key === "Escape" && close(null));
}

refreshLiveParts();
addZoneSwitch();
addCopyButtons(document);
addShortcuts();
closeMenus();

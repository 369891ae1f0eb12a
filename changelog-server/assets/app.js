// Everything works without this; with it times are the reader's own, pages
// refresh themselves, and keys do what the mouse does.

const ZONE = "changelog-zone";
const EVERY = 5000;

const utc = () => localStorage.getItem(ZONE) === "utc";
const exact = (at, zone) =>
  new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", timeZone: zone }).format(at);
const short = (at, zone) => {
  const parts = new Intl.DateTimeFormat("en-CA", {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone,
  }).formatToParts(at);
  const part = (name) => parts.find((one) => one.type === name).value;
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

/** Writes times in the reader's zone, or in UTC where that was chosen. */
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

function zoneSwitch() {
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
  // Who is in UTC has nothing to switch.
  button.hidden = name === "UTC";
  button.addEventListener("click", () => {
    localStorage.setItem(ZONE, utc() ? "local" : "utc");
    update();
  });
  update();
  setInterval(() => showTimes(document), 30000);
}

/** Buttons that copy what stands in an element. */
function copying(within) {
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

/** Puts what is new into the live parts of the page, unless somebody is busy there. */
function live() {
  const parts = () => document.querySelectorAll("[data-live]");
  if (parts().length === 0) return;
  // What the service sent, before times were written anew.
  const sent = new Map([...parts()].map((part) => [part.dataset.live, part.outerHTML]));
  let seen = null;
  let waiting = null;
  const fresh = document.createElement("button");
  fresh.className = "primary fresh";
  fresh.textContent = "Show what is new";
  fresh.hidden = true;
  document.body.append(fresh);
  const isBusy = (part) =>
    part.matches(":hover") || part.contains(document.activeElement) || part.querySelector("details[open], [data-current]");
  const apply = (page, force) => {
    let left = false;
    for (const part of parts()) {
      const name = part.dataset.live;
      const next = page.querySelector(`[data-live="${name}"]`);
      if (!next || next.outerHTML === sent.get(name)) continue;
      if (!force && isBusy(part)) { left = true; continue; }
      const top = window.scrollY;
      sent.set(name, next.outerHTML);
      part.replaceWith(next);
      showTimes(next);
      copying(next);
      window.scrollTo({ top, behavior: "instant" });
    }
    waiting = left ? page : null;
    fresh.hidden = !left;
  };
  fresh.addEventListener("click", () => waiting && apply(waiting, true));
  const look = async () => {
    if (document.hidden) return;
    try {
      const headers = seen ? { "if-none-match": seen } : {};
      const answer = await fetch(location.href, { headers, redirect: "error" });
      if (answer.status !== 200) return;
      seen = answer.headers.get("etag");
      apply(new DOMParser().parseFromString(await answer.text(), "text/html"), false);
    } catch {
      // Away for a moment: the next look will tell.
    }
  };
  setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
}

/** `/` searches, `j` and `k` walk, `n` begins, `g` and a letter go. */
function keyboard() {
  const help = document.getElementById("help");
  const places = { o: "/", c: "/changes", h: "/hosts", s: "/services", a: "/activity" };
  let going = false;
  const rows = () => [...document.querySelectorAll(".changes > li")];
  const walk = (step) => {
    const all = rows();
    const now = all.findIndex((row) => "current" in row.dataset);
    const next = all[Math.min(Math.max(now + step, 0), all.length - 1)];
    if (!next) return;
    if (now >= 0) delete all[now].dataset.current;
    next.dataset.current = "";
    next.querySelector("a").focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    const key = event.key;
    if (going) {
      going = false;
      if (places[key]) location.assign(places[key]);
      return;
    }
    const search = document.getElementById("search");
    const create = document.querySelector("[data-new]");
    if (key === "/" && search) search.focus();
    else if (key === "j") walk(1);
    else if (key === "k") walk(-1);
    else if (key === "n" && create) location.assign(create.href);
    else if (key === "g") going = true;
    else if (key === "?" && help) help.showModal();
    else return;
    event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-help]")) {
    button.hidden = false;
    button.addEventListener("click", () => help.showModal());
  }
}

/** Menus close when one clicks beside them or presses Escape. */
function menus() {
  const close = (keep) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== keep) menu.open = false;
  };
  document.addEventListener("click", (event) => close(event.target.closest("details.menu")));
  document.addEventListener("keydown", (event) => event.key === "Escape" && close(null));
}

live();
zoneSwitch();
copying(document);
keyboard();
menus();

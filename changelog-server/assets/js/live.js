// How often a page is requested again: without a stream of events; with one, for what the
// stream does not report (entries about keys and members, ranges that end now); and while
// the service does not answer.
const POLL_MS = 15000;
const REVALIDATE_MS = 60000;
// For parts that change without an event, such as deliveries.
const OFTEN_MS = 2000;
const RETRY_MS = 4000;
// The service sends an event every 5 s.
const SILENT_MS = 11000;
const ANSWER_MS = 5000;
const MARK_MS = 6000;
// A download also looks as if the page was left.
const LEAVING_MS = 10000;

/** Formats a time as the page does. */
const clock = (at) =>
  new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: document.querySelector("[data-zone]")?.dataset.zone }).format(at);

/** The key of a row of a list, by which new rows are recognized: its own, or the record's page. */
const rowKey = (row) => row.dataset.key ?? row.querySelector("a")?.getAttribute("href").match(/^\/\w+\/[0-9a-f-]{36}$/)?.[0];
const rowsOf = (part) => [...part.querySelectorAll("li, tbody tr")].filter((row) => rowKey(row));

let leftAt = -LEAVING_MS;
addEventListener("beforeunload", () => (leftAt = performance.now()));

/** Loads the page again, unless another one is being loaded: the browser would give that up. */
function reload() {
  if (performance.now() - leftAt > LEAVING_MS) location.reload();
}

/** Finds the focused element of a part in the next version of its row. */
function focusedIn(part, next) {
  const focused = document.activeElement;
  const row = rowsOf(part).find((one) => one.contains(focused));
  const after = row && rowsOf(next).find((one) => rowKey(one) === rowKey(row));
  const index = row && [...row.querySelectorAll(focused.tagName)].indexOf(focused);
  return after?.querySelectorAll(focused.tagName)[index] ?? after?.querySelector("a");
}

/**
 * Replaces the parts of the page that have changed, except those that the user is working in,
 * and returns the functions that follow: `show(page)`, `retry()` and `showAll()`.
 */
function livePage() {
  const parts = () => document.querySelectorAll("[data-live]");
  // As the service sent it, before the script changed times.
  const sent = new Map([...parts()].map((part) => [part.dataset.live, { html: part.outerHTML, text: part.textContent }]));
  let pending = null;
  const button = document.createElement("button");
  button.className = "primary fresh";
  button.textContent = "Show changes";
  button.hidden = true;
  document.body.append(button);
  const isTyped = (part) => [...part.querySelectorAll("input")].some((field) => field.value !== field.defaultValue);
  const keys = (part) => rowsOf(part).map(rowKey).join();
  // Nothing moves under the pointer or the focus if a list keeps its rows.
  const keepsRows = (part, next) => keys(part) && keys(part) === keys(next) && !part.querySelector("svg");
  const isBusy = (part, next) => {
    const isFocused = part.contains(document.activeElement);
    return ((isFocused || part.matches(":hover")) && !keepsRows(part, next)) ||
      (isFocused && !focusedIn(part, next)) ||
      part.querySelector("details[open], [data-current]") ||
      isTyped(part);
  };
  const newRows = (part, next) => {
    const known = new Set(rowsOf(part).map(rowKey));
    return rowsOf(next).filter((row) => !known.has(rowKey(row)));
  };
  const replace = (part, next) => {
    const top = window.scrollY;
    const marked = newRows(part, next);
    const focused = focusedIn(part, next);
    sent.set(next.dataset.live, { html: next.outerHTML, text: next.textContent });
    part.replaceWith(next);
    enhance(next);
    for (const row of marked) row.dataset.fresh = "";
    setTimeout(() => marked.forEach((row) => delete row.dataset.fresh), MARK_MS);
    focused?.focus({ preventScroll: true });
    window.scrollTo({ top, behavior: "instant" });
  };
  const show = (page, isForced = false) => {
    const left = [];
    for (const part of parts()) {
      const name = part.dataset.live;
      const next = page.querySelector(`[data-live="${name}"]`);
      // The page has its first content, in other parts.
      if (!next && name === "empty") return reload();
      if (!next || next.outerHTML === sent.get(name)?.html) continue;
      if (!isForced && isBusy(part, next)) left.push([part, next]);
      else replace(part, document.adoptNode(next));
    }
    pending = left.length > 0 ? page : null;
    // A link whose time has moved is not news.
    const news = left.filter(([part, next]) => next.textContent !== sent.get(part.dataset.live)?.text);
    button.hidden = news.length === 0;
    const keys = new Set(news.flatMap(([part, next]) => newRows(part, next).map(rowKey)));
    const count = news.length === 1 && keys.size;
    const isOf = (kind) => [...keys].every((key) => key.startsWith(`/${kind}s/`));
    const noun = ["change", "incident"].filter(isOf).map((kind) => [kind, `${kind}s`])[0] ?? ["entry", "entries"];
    button.textContent = count ? `Show ${count} new ${noun[count === 1 ? 0 : 1]}` : "Show updates";
  };
  button.addEventListener("click", () => pending && show(pending, true));
  // When the pointer leaves a part, what it has missed is shown.
  setInterval(() => pending && show(pending), 500);
  return show;
}

/** Says whether the page is up to date. */
function freshness() {
  const label = document.querySelector("[data-freshness]");
  const main = document.getElementById("main");
  let updatedAt = new Date();
  let banner = null;
  return {
    updated(isLive) {
      updatedAt = new Date();
      banner?.remove();
      banner = null;
      if (!label) return;
      label.hidden = false;
      label.dataset.freshness = isLive ? "live" : "";
      const text = isLive ? "Live" : `Updated ${clock(updatedAt)}`;
      if (label.textContent !== text) label.textContent = text;
    },
    lost(reason, retry) {
      if (banner?.dataset.reason === reason) return;
      banner?.remove();
      banner = document.createElement("div");
      banner.className = "lost";
      banner.dataset.reason = reason;
      banner.setAttribute("role", "alert");
      const text = { "signed out": "you were signed out. ", gone: "this page is no longer available. " };
      banner.append(`Not updating since ${clock(updatedAt)}: ${text[reason] ?? "the service does not answer. "}`);
      const action = document.createElement(reason === "signed out" ? "a" : "button");
      if (reason === "signed out") {
        action.href = `/sign-in?${new URLSearchParams({ next: location.pathname + location.search })}`;
        action.textContent = "Sign in again";
      } else {
        action.type = "button";
        action.textContent = "Retry";
        action.addEventListener("click", retry);
      }
      banner.append(action);
      main.before(banner);
      if (label) {
        label.dataset.freshness = "lost";
        label.textContent = `Updated ${clock(updatedAt)}`;
      }
    },
  };
}

/** Keeps the live parts of the page up to date while the page is visible. */
function followPage() {
  if (!document.querySelector("[data-live]")) return;
  const show = livePage();
  const state = freshness();
  let etag = null;
  let events = null;
  let isLive = false;
  let heardAt = 0;
  let askedAt = Date.now();
  let openAfter = 0;
  let failures = 0;
  let isAsking = false;
  let isAskedAgain = false;

  const close = () => {
    events?.close();
    events = null;
    isLive = false;
  };
  const open = () => {
    // The stream is held by the visible tab only: browsers allow six connections.
    if (events || document.hidden || Date.now() < openAfter) return;
    events = new EventSource("/events");
    const hear = () => { heardAt = Date.now(); };
    hear();
    events.addEventListener("alive", () => {
      hear();
      if (isLive) return;
      isLive = true;
      // What was recorded between the page and the stream.
      refresh();
    });
    events.addEventListener("changed", () => { hear(); refresh(); });
    events.addEventListener("error", () => {
      close();
      // The limit on streams may be reached.
      openAfter = Date.now() + POLL_MS;
      refresh();
    });
  };
  const lost = (reason) => {
    close();
    failures += 1;
    // A service that restarts is back before the second attempt.
    if (reason !== "unreachable" || failures > 1) state.lost(reason, refresh);
  };
  const load = async () => {
    const headers = etag ? { "if-none-match": etag } : {};
    const response = await fetch(location.href, { headers, redirect: "manual", signal: AbortSignal.timeout(ANSWER_MS) });
    if (response.type === "opaqueredirect") return lost("signed out");
    if ([403, 404].includes(response.status)) return lost("gone");
    // A list whose filters are refused is an answer, too.
    const isPage = response.ok || response.status === 400;
    if (response.status !== 304 && !isPage) return lost("unreachable");
    if (isPage) {
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const now = page.querySelector("[data-organization]")?.dataset.organization;
      if (now !== organization()) return reload();
      etag = response.headers.get("etag");
      show(page);
    }
    failures = 0;
    state.updated(isLive);
    open();
  };
  const refresh = async () => {
    if (document.hidden) return;
    isAskedAgain = isAsking;
    if (isAsking) return;
    isAsking = true;
    askedAt = Date.now();
    try {
      await load();
    } catch {
      lost("unreachable");
    }
    isAsking = false;
    if (isAskedAgain) refresh();
  };
  setInterval(() => {
    if (document.hidden) return;
    if (isLive && Date.now() - heardAt > SILENT_MS) {
      close();
      refresh();
    }
    const isOften = document.querySelector("[data-live-often]");
    const pause = failures > 0 ? RETRY_MS : isOften ? OFTEN_MS : isLive ? REVALIDATE_MS : POLL_MS;
    if (Date.now() - askedAt >= pause) refresh();
  }, 1000);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : refresh()));
  state.updated(false);
  open();
}

const REFRESH_MS = 5000;

/** Refreshes the live parts of the page, except those that the user is working in. */
function refreshLiveParts() {
  const parts = () => document.querySelectorAll("[data-live]");
  if (parts().length === 0) return;
  // The HTML as the service sent it, before `showAges` changed it.
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
      showAges(next);
      addCopyButtons(next);
      useTimelines(next);
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

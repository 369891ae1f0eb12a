const UTC_KEY = "changelog-utc";

const localZone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const wantedZone = () => (localStorage.getItem(UTC_KEY) ? "UTC" : localZone);

/** Makes the service show times in this zone, from the next page on. */
function setZone() {
  document.cookie = `changelog_zone=${wantedZone()}; path=/; max-age=31536000; samesite=lax`;
}

/** Loads the page again if it is not in the wanted zone. */
function useZone() {
  setZone();
  const button = document.querySelector("[data-zone]");
  if (!button) return;
  // In UTC there is nothing to switch.
  button.hidden = localZone === "UTC";
  const isUtc = button.dataset.zone === "UTC";
  button.textContent = `Switch to ${isUtc ? localZone : "UTC"}`;
  button.addEventListener("click", () => {
    const isTyped = document.querySelector("main [role=alert] ~ form") || draftsOf("").length > 0;
    if (isTyped && !confirm("Switch the time zone and discard what you typed?")) return;
    if (isUtc) localStorage.removeItem(UTC_KEY);
    else localStorage.setItem(UTC_KEY, "1");
    setZone();
    replacePage();
  });
  // Once for each zone: the service may not know it, or the browser may refuse the cookie.
  const wanted = wantedZone();
  const isFirst = sessionStorage.getItem("changelog-zone") !== wanted;
  sessionStorage.setItem("changelog-zone", wanted);
  // A secret or an error would be lost.
  const isPlain = !document.querySelector(".secret, [role=alert]");
  if (button.dataset.zone !== wanted && isFirst && isPlain) replacePage();
}

/** Requests the page again, without sending a form again. An address with a fragment would
 * only scroll. */
function replacePage() {
  location.replace(location.href.replace(/#.*/, ""));
}

/** How long ago a time was, in its largest unit: "9 h ago". */
function age(at) {
  const seconds = Math.round((Date.now() - at) / 1000);
  const size = Math.abs(seconds);
  if (size < 60) return seconds >= 0 ? "just now" : "in a moment";
  const units = [["y", 31557600], ["mo", 2629800], ["d", 86400], ["h", 3600], ["min", 60]];
  const [unit, length] = units.find(([, length]) => size >= length);
  const words = `${Math.floor(size / length)} ${unit}`;
  return seconds > 0 ? `${words} ago` : `in ${words}`;
}

/** Adds ages to times. */
function showAges(within) {
  for (const element of within.querySelectorAll("[data-age]")) {
    const at = new Date(element.dataset.age);
    const text = Number.isNaN(at.valueOf()) ? "" : age(at);
    if (element.textContent !== text) element.textContent = text;
  }
}

const ZONE_KEY = "changelog-zone";

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

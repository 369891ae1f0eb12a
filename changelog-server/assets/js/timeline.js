const FOCUS_KEY = "changelog-timeline";
/** The page that a timeline leads to. */
const pageOf = (timeline) => timeline.dataset.timeline.split("?")[0];

/** Moves and zooms timelines by keys, the wheel and the pointer: each view has an address. */
function useTimelines(within) {
  for (const timeline of within.querySelectorAll("[data-timeline]")) useTimeline(timeline);
}

/** Keeps the focus of the keyboard in the timeline of the next page. */
function keepTimelineFocus() {
  const timelines = [...document.querySelectorAll("[data-timeline]")];
  const focused = sessionStorage.getItem(FOCUS_KEY);
  timelines.find((timeline) => pageOf(timeline) === focused)?.focus({ preventScroll: true });
  sessionStorage.removeItem(FOCUS_KEY);
  window.addEventListener("pagehide", () => {
    const timeline = document.activeElement?.closest("[data-timeline]");
    if (timeline) sessionStorage.setItem(FOCUS_KEY, pageOf(timeline));
  });
}

/** The minimum distance of a drag, in pixels. */
const DRAG_PX = 8;

function useTimeline(timeline) {
  const plot = timeline.querySelector(".timeline-plot");
  const grid = timeline.querySelector(".timeline-grid");
  const [from, to] = [Number(timeline.dataset.from), Number(timeline.dataset.to)];
  const follow = (move) => {
    const link = timeline.querySelector(`[data-move="${move}"]`);
    if (link) location.assign(link.href);
    return Boolean(link);
  };
  const show = (start, end) => {
    const address = new URL(timeline.dataset.timeline, location.href);
    const time = (at) => `${new Date(Math.round(at)).toISOString().slice(0, 19)}Z`;
    address.searchParams.set("from", time(start));
    address.searchParams.set("to", time(end));
    location.assign(address);
  };
  const marks = () => {
    const left = (mark) => mark.getBoundingClientRect().left;
    return [...timeline.querySelectorAll(".timeline-marks a")].sort((one, other) => left(one) - left(other));
  };
  const select = (step) => {
    const all = marks();
    const current = all.indexOf(document.activeElement);
    const next = current < 0 ? (step > 0 ? 0 : all.length - 1) : current + step;
    if (!all[next]) return false;
    all[next].focus();
    return true;
  };
  timeline.tabIndex = 0;
  timeline.setAttribute("role", "group");
  timeline.setAttribute("aria-label", plot.getAttribute("aria-label"));
  timeline.querySelector(".keys").hidden = false;
  const keys = {
    ArrowLeft: () => follow("earlier"),
    ArrowRight: () => follow("later"),
    "+": () => follow("in"),
    "=": () => follow("in"),
    "-": () => follow("out"),
    ArrowDown: () => select(1),
    ArrowUp: () => select(-1),
    Escape: () => timeline.focus(),
  };
  timeline.addEventListener("keydown", (event) => {
    const isPlotted = event.target === timeline || plot.contains(event.target);
    if (!isPlotted || event.ctrlKey || event.metaKey || event.altKey) return;
    if (keys[event.key]?.() !== false && event.key in keys) event.preventDefault();
  });
  plot.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    follow(event.deltaY < 0 ? "in" : "out");
  }, { passive: false });
  selectByPointer(timeline, plot, grid, (start, end) => show(from + (to - from) * start, from + (to - from) * end));
}

/** Calls `done` with the two ends of a drag, as parts of the width of the grid. */
function selectByPointer(timeline, plot, grid, done) {
  const part = (event) => {
    const box = grid.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  };
  let start = null;
  let band = null;
  // The window is listened to only during a drag: live timelines are replaced often.
  let drag = null;
  const stop = () => {
    band?.remove();
    timeline.classList.remove("is-selecting");
    drag?.abort();
    start = band = drag = null;
  };
  plot.addEventListener("pointerdown", (event) => {
    // Touch scrolls the page.
    if (event.button !== 0 || event.pointerType === "touch" || event.clientX < grid.getBoundingClientRect().left) return;
    stop();
    start = { x: event.clientX, part: part(event) };
    drag = new AbortController();
    const { signal } = drag;
    window.addEventListener("pointermove", move, { signal });
    window.addEventListener("pointerup", end, { signal });
    window.addEventListener("keydown", (key) => key.key === "Escape" && stop(), { signal });
  });
  plot.addEventListener("dragstart", (event) => event.preventDefault());
  const move = (event) => {
    if (!band && Math.abs(event.clientX - start.x) < DRAG_PX) return;
    if (!band) {
      band = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      band.setAttribute("class", "timeline-selection");
      band.setAttribute("height", "100%");
      grid.append(band);
      timeline.classList.add("is-selecting");
    }
    const [left, right] = [start.part, part(event)].sort((one, other) => one - other);
    band.setAttribute("x", `${left * 100}%`);
    band.setAttribute("width", `${(right - left) * 100}%`);
  };
  const end = (event) => {
    const [left, right] = [start.part, part(event)].sort((one, other) => one - other);
    const isDrag = band !== null && right - left > 0.005;
    stop();
    if (!isDrag) return;
    // The click at the end of a drag would open a change.
    plot.addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true });
    done(left, right);
  };
}

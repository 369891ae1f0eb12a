/** The mark of a chart that a key leads to: arrows move by days, in the calendar also by weeks. */
function nextMark(mark, key) {
  const chart = mark.closest(".chart");
  const marks = [...chart.querySelectorAll("a")];
  const index = marks.indexOf(mark);
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[key];
  if (key === "Home") return marks[0];
  if (key === "End") return marks[marks.length - 1];
  if (!step) return null;
  const isCalendar = chart.matches(".calendar");
  const isVertical = key === "ArrowUp" || key === "ArrowDown";
  if (isCalendar === isVertical) return marks[index + step];
  if (isVertical) return null;
  // Weeks are next to each other: the next day in the same row.
  const top = (one) => Math.round(one.querySelector("rect").getBoundingClientRect().top);
  const row = top(mark);
  const following = step > 0 ? marks.slice(index + 1) : marks.slice(0, index).reverse();
  return following.find((one) => top(one) === row);
}

/** Lets the arrow keys move between the marks of a chart, one of which is a tab stop. */
function addChartKeys() {
  document.addEventListener("keydown", (event) => {
    const mark = event.target.closest(".chart a");
    if (!mark || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const next = nextMark(mark, event.key);
    if (next === null) return;
    event.preventDefault();
    if (!next) return;
    mark.setAttribute("tabindex", "-1");
    next.removeAttribute("tabindex");
    next.focus();
  });
}

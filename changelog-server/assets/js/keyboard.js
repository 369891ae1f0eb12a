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

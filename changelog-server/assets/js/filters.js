const NAMES_DELAY_MS = 150;

/** Lists the names that a field may have while the user types. */
function completeNames(within) {
  for (const field of within.querySelectorAll("[data-names]")) {
    const list = document.createElement("datalist");
    list.id = `${field.id}-names`;
    field.after(list);
    field.setAttribute("list", list.id);
    // Names of all lists so far; a list that is complete answers for all longer prefixes.
    let complete = null;
    let timer = 0;
    const show = async () => {
      // Of several names, the last one is being typed.
      const start = "several" in field.dataset ? field.value.lastIndexOf(",") + 1 : 0;
      const before = field.value.slice(0, start);
      const prefix = field.value.slice(start).trimStart();
      if (complete !== null && prefix.toLowerCase().startsWith(complete) && !before) return;
      try {
        const query = new URLSearchParams({ prefix });
        const response = await fetch(`/names/${field.dataset.names}?${query}`, { redirect: "error" });
        if (!response.ok) return;
        const { names, has_more } = await response.json();
        complete = has_more || before ? null : prefix.toLowerCase();
        list.replaceChildren(...names.map((name) => new Option("", before ? `${before} ${name}` : name)));
      } catch {
        // The name can be typed without a list.
      }
    };
    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(show, NAMES_DELAY_MS);
    };
    field.addEventListener("focus", show);
    field.addEventListener("input", later);
  }
}

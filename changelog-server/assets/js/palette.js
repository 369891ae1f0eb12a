// How many services, hosts and incidents the palette lists.
const PALETTE_NAMES = 6;

/**
 * Returns links to the changes of the services or hosts whose names begin with a text, or to
 * the incidents whose titles have it.
 */
async function namedLinks(kind, parameter, prefix) {
  const response = await fetch(`/names/${kind}?${new URLSearchParams({ prefix })}`, { redirect: "error" }).catch(() => null);
  if (!response?.ok) return [];
  const { names, addresses } = await response.json();
  const link = (name, index) =>
    addresses ? [`Incident: ${name}`, addresses[index]] : [`Changes of ${name}`, `/changes?${new URLSearchParams({ [parameter]: name })}`];
  return names.slice(0, PALETTE_NAMES).map(link);
}

/** Adds the palette, which Ctrl+K and ⌘K open: it lists pages, services, hosts and incidents. */
function addPalette() {
  if (!document.querySelector("[data-person]")) return;
  const dialog = document.createElement("dialog");
  const input = document.createElement("input");
  const list = document.createElement("ul");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Go to");
  Object.assign(input, { type: "search", autocomplete: "off", placeholder: "Go to a page, service, host or incident" });
  input.setAttribute("aria-label", input.placeholder);
  dialog.append(input, list);
  document.body.append(dialog);
  const links = () => [...list.querySelectorAll("a")];
  const render = (entries) => {
    list.replaceChildren(
      ...entries.map(([name, address]) => {
        const link = Object.assign(document.createElement("a"), { textContent: name, href: address, dir: "auto" });
        const item = document.createElement("li");
        item.append(link);
        return item;
      }),
    );
  };
  let asked = 0;
  const show = async () => {
    const text = input.value.trim();
    const pages = [...document.querySelectorAll("nav[aria-label=Main] a, a[data-new], .menu a[href='/account']")]
      .map((link) => [link.textContent.trim(), link.href])
      .filter(([name]) => name.toLowerCase().includes(text.toLowerCase()));
    const search = text ? [[`Search changes for “${text}”`, `/changes?${new URLSearchParams({ text })}`]] : [];
    asked += 1;
    const number = asked;
    render([...pages, ...search]);
    if (!text) return;
    const named = await Promise.all([
      namedLinks("services", "service", text),
      namedLinks("hosts", "host", text),
      namedLinks("incidents", "", text),
    ]);
    if (number === asked && !list.contains(document.activeElement)) render([...pages, ...named.flat(), ...search]);
  };
  input.addEventListener("input", show);
  dialog.addEventListener("keydown", (event) => {
    const all = [input, ...links()];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
    else if (event.key === "Enter" && document.activeElement === input) links()[0]?.click();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "k" || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    input.value = "";
    dialog.showModal();
    show();
  });
}

/** Returns the organization that the page was shown for. */
function organization() {
  return document.querySelector("[data-organization]")?.dataset.organization;
}

/** Has each form name the organization of its page: another tab may have switched to another one since. */
function nameOrganization() {
  document.addEventListener("submit", ({ target: form, submitter }) => {
    if (form.method !== "post" || !organization()) return;
    const [element, name] = submitter?.hasAttribute("formaction") ? [submitter, "formaction"] : [form, "action"];
    const action = element.getAttribute(name);
    const address = new URL(action, location.href);
    address.searchParams.set("organization", organization());
    element.setAttribute(name, address.href);
    // Drafts are found by it.
    setTimeout(() => element.setAttribute(name, action));
  });
}

// What was typed into forms, in case the session ends before it is sent. It is kept by this
// tab only, until the next page that shows that nothing was lost.
const DRAFTS_KEY = "changelog-drafts";

const readDrafts = () => JSON.parse(sessionStorage.getItem(DRAFTS_KEY) ?? "[]");
const writeDrafts = (drafts) => {
  if (drafts.length === 0) sessionStorage.removeItem(DRAFTS_KEY);
  else sessionStorage.setItem(DRAFTS_KEY, JSON.stringify(drafts));
};

/** The fields of a form that people fill; never passwords. */
const typedFields = (form) =>
  [...form.elements].filter((field) => field.name && !["hidden", "password", "file", "submit", "button"].includes(field.type));
const isToggle = (field) => ["checkbox", "radio"].includes(field.type);
const isChanged = (field) => {
  if (isToggle(field)) return field.checked !== field.defaultChecked;
  if (field.options) return [...field.options].some((option) => option.selected !== option.defaultSelected);
  return field.value !== field.defaultValue;
};

/** Returns what was typed into the forms of this page. */
function draftsOf(person) {
  return [...document.querySelectorAll("main form[method=post]")]
    .map((form) => ({ form, fields: typedFields(form) }))
    .filter(({ fields }) => fields.some(isChanged))
    .map(({ form, fields }) => ({
      person,
      action: form.getAttribute("action"),
      fields: fields.map((field) => [field.name, isToggle(field) ? field.checked : field.value]),
    }));
}

/** Fills the form of a draft; returns whether this page has the form. */
function restoreDraft(draft) {
  const names = JSON.stringify(draft.fields.map(([name]) => name));
  const form = [...document.querySelectorAll("main form[method=post]")].find(
    (form) => form.getAttribute("action") === draft.action && JSON.stringify(typedFields(form).map((field) => field.name)) === names,
  );
  if (!form) return false;
  typedFields(form).forEach((field, index) => {
    const value = draft.fields[index][1];
    if (isToggle(field)) field.checked = value;
    else field.value = value;
    field.closest("details")?.setAttribute("open", "");
  });
  const note = document.createElement("p");
  note.className = "note";
  note.setAttribute("role", "status");
  note.textContent = "Your session had ended. What you typed was restored; it is not saved yet.";
  form.before(note);
  return true;
}

/** Keeps what was typed over the end of a session. */
function keepDrafts() {
  if (document.querySelector("form[action='/sign-in']")) {
    // The last page was left because the session had ended.
    const drafts = readDrafts().map((draft) => ({ ...draft, isInterrupted: true }));
    writeDrafts(drafts);
    const kept = document.querySelector("[data-kept]");
    if (kept) kept.hidden = drafts.length === 0;
    return;
  }
  const person = document.querySelector("[data-person]")?.dataset.person;
  if (!person) return;
  const interrupted = readDrafts().filter((draft) => draft.isInterrupted && draft.person === person);
  writeDrafts(interrupted.filter((draft) => !restoreDraft(draft)));
  let isLeaving = false;
  document.addEventListener("submit", (event) => { isLeaving = event.target.getAttribute("action") === "/sign-out"; });
  addEventListener("pagehide", () => writeDrafts(isLeaving ? [] : [...readDrafts(), ...draftsOf(person)]));
}

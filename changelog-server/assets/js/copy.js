/** Copies the text of an element; without https, as the selection. */
async function copyText(element) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(element.textContent.trim());
    return true;
  }
  const selection = getSelection();
  selection.selectAllChildren(element);
  const isCopied = document.execCommand("copy");
  if (isCopied) selection.removeAllRanges();
  return isCopied;
}

/** Enables the buttons that copy the text of an element. */
function addCopyButtons(within) {
  for (const button of within.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    const name = button.textContent;
    button.addEventListener("click", async () => {
      const isCopied = await copyText(document.getElementById(button.dataset.copy)).catch(() => false);
      // What could not be copied is selected.
      button.textContent = isCopied ? "Copied" : "Press Ctrl+C";
      setTimeout(() => { button.textContent = name; }, 2000);
    });
  }
}

/** Makes a reload of the page that shows a new secret open its list, and not send the form again. */
function forgetForm() {
  const address = document.querySelector("[data-address]")?.dataset.address;
  if (address) history.replaceState(null, "", address);
}

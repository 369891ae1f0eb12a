/** Closes menus on a click outside of them and on Escape. */
function closeMenus() {
  const close = (keep) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== keep) menu.open = false;
  };
  document.addEventListener("click", (event) => close(event.target.closest("details.menu")));
  document.addEventListener("keydown", (event) => event.key === "Escape" && close(null));
}

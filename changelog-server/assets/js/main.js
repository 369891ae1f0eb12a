// The dashboard works without this script. It shows times in the user's zone,
// refreshes pages and adds keyboard shortcuts. `parts/assets.rs` joins the files.

refreshLiveParts();
addZoneSwitch();
addCopyButtons(document);
addShortcuts();
closeMenus();

// The dashboard works without this script. It shows times in the user's zone,
// refreshes pages and adds keyboard shortcuts. `parts/assets.rs` joins the files.

refreshLiveParts();
useZone();
showAges(document);
setInterval(() => showAges(document), 30000);
addCopyButtons(document);
useTimelines(document);
addShortcuts();
closeMenus();
chooseTheme();

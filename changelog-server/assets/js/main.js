// The dashboard works without this script. It shows times in the user's zone,
// refreshes pages and adds keyboard shortcuts. `parts/assets.rs` joins the files.

/** Adds what the script adds to a page or to a part of it. */
function enhance(within) {
  showAges(within);
  addCopyButtons(within);
  useTimelines(within);
}

forgetForm();
nameOrganization();
keepDrafts();
followPage();
useZone();
enhance(document);
keepTimelineFocus();
setInterval(() => showAges(document), 30000);
addShortcuts();
addChartKeys();
addPalette();
closeMenus();
chooseTheme();
completeNames(document);

/** Enables the choice of a theme, which the service remembers in a cookie. */
function chooseTheme() {
  const choice = document.querySelector("[data-themes]");
  if (!choice) return;
  choice.hidden = false;
  choice.addEventListener("change", (event) => {
    const theme = event.target.value;
    document.cookie = `changelog_theme=${theme}; path=/; max-age=${theme ? 31536000 : 0}; samesite=lax`;
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  });
}

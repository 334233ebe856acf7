// The color theme of the page: system, light, or dark. The browser stores the choice.

import { h } from "./dom.js";

const THEME_KEY = "gdn-studio-theme";
const THEMES = ["system", "light", "dark"];

const theme = () => THEMES.find((one) => one === localStorage.getItem(THEME_KEY)) ?? "system";

function apply() {
  document.documentElement.dataset.theme = theme();
}

apply();
// Applies a change in another tab.
addEventListener("storage", (event) => event.key === THEME_KEY && apply());

/** Creates the field to choose the theme. */
export function themeChoice() {
  const choice = h("select.theme", { "aria-label": "Colors", title: "Colors" }, THEMES.map((one) => h("option", { value: one, selected: one === theme() }, `${one[0].toUpperCase()}${one.slice(1)}`)));
  choice.addEventListener("change", () => {
    if (choice.value === "system") localStorage.removeItem(THEME_KEY);
    else localStorage.setItem(THEME_KEY, choice.value);
    apply();
  });
  return choice;
}

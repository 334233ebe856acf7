// The colors of the page: those of the system, light, or dark. The choice is kept for this browser.

import { h } from "./dom.js";

const KEPT = "gdn-studio-theme";
const THEMES = ["system", "light", "dark"];

const theme = () => THEMES.find((one) => one === localStorage.getItem(KEPT)) ?? "system";

function apply() {
  document.documentElement.dataset.theme = theme();
}

apply();
// Another tab has changed the colors.
addEventListener("storage", (event) => event.key === KEPT && apply());

/** Returns the field to choose the colors. */
export function themeChoice() {
  const choice = h("select.theme", { "aria-label": "Colors", title: "Colors" }, THEMES.map((one) => h("option", { value: one, selected: one === theme() }, `${one[0].toUpperCase()}${one.slice(1)}`)));
  choice.addEventListener("change", () => {
    if (choice.value === "system") localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, choice.value);
    apply();
  });
  return choice;
}

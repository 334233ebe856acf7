// A menu of actions that a button opens.

import { h } from "./dom.js";

/**
 * Creates a menu. It closes after an action, on Escape, and on a click or a move of the focus elsewhere.
 * @param {string} label
 * @param {{isOpen: boolean}} remembered whether the menu is open, for a menu that is drawn again
 * @param {...import("./dom.js").Child} actions buttons
 */
export function menu(label, remembered, ...actions) {
  const summary = h("summary", {}, label);
  const element = /** @type {HTMLDetailsElement} */ (h("details.menu", { open: remembered.isOpen }, summary, h("div.menu-actions", {}, ...actions)));
  const close = () => {
    remembered.isOpen = false;
    element.open = false;
  };
  const closeIfElsewhere = (event) => {
    if (!element.isConnected) document.removeEventListener("pointerdown", closeIfElsewhere);
    else if (!element.contains(event.target)) close();
  };
  // The browser opens the menu after this event. A later event is too late if the menu is drawn again in between.
  summary.addEventListener("click", () => (remembered.isOpen = !element.open));
  element.addEventListener("toggle", () => {
    if (element.open) document.addEventListener("pointerdown", closeIfElsewhere);
    else document.removeEventListener("pointerdown", closeIfElsewhere);
  });
  element.addEventListener("click", (event) => /** @type {Element} */ (event.target).closest("button") && close());
  element.addEventListener("focusout", (event) => event.relatedTarget && !element.contains(/** @type {Node} */ (event.relatedTarget)) && close());
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.open) return;
    close();
    summary.focus();
  });
  return element;
}

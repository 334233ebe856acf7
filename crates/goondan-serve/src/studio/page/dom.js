// Creates elements. All text passes through this file, so that it is never parsed as HTML.

import { splitHidden, escapeHidden } from "./shown.js";

/** @typedef {Node|string|number|null|undefined|false|Child[]} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Creates an element. Strings among its children become text, with hidden characters as escapes.
 * @param {string} tag such as `p` or `p.class.other`
 * @param {Record<string, any>} [properties] attributes; `on` contains listeners, `data` contains data-* attributes
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, properties, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  set(element, properties ?? {});
  append(element, children);
  return element;
}

/**
 * Creates an SVG element.
 * @param {string} name
 * @param {Record<string, any>} properties
 */
export function svg(name, properties = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  set(element, properties);
  append(element, children);
  return element;
}

function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      for (const [key, text] of Object.entries(value)) element.dataset[key] = String(text);
    } else if (name === "class") {
      element.classList.add(...String(value).split(" ").filter(Boolean));
    } else if (name === "value" || name === "checked" || name === "open" || name === "disabled" || name === "selected") {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? "" : escapeHidden(String(value)));
    }
  }
}

/**
 * Appends children to an element.
 * @param {Node} element
 * @param {Child} children
 */
export function append(element, children) {
  for (const child of Array.isArray(children) ? children.flat(Infinity) : [children]) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) element.appendChild(child);
    else for (const node of text(String(child))) element.appendChild(node);
  }
}

/**
 * Returns the nodes of a text.
 * @param {string} content
 * @returns {Node[]}
 */
export function text(content) {
  return splitHidden(content).map((piece) => {
    if (!piece.isEscape) return document.createTextNode(piece.text);
    const escape = document.createElement("span");
    escape.className = "escape";
    escape.title = "Invisible character";
    escape.textContent = piece.text;
    return escape;
  });
}

/**
 * Replaces the children of an element.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * Creates a button.
 * @param {string} label
 * @param {() => any} onClick action; the button is disabled until it ends
 * @param {Record<string, any>} [properties]
 */
export function button(label, onClick, properties = {}) {
  const element = h("button", { type: "button", ...properties }, label);
  element.addEventListener("click", async () => {
    element.disabled = true;
    try {
      await onClick();
    } finally {
      element.disabled = false;
    }
  });
  return element;
}

// Elements. Every text goes through here, and becomes text and nothing else.

import { pieces, shown } from "./shown.js";

/** @typedef {Node|string|number|null|undefined|false|Child[]} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Text among its children is shown as text, with hidden characters as escapes.
 * @param {string} tag such as `p` or `p.class.other`
 * @param {Record<string, any>} [properties] attributes; `on` has listeners, `data` what stands in data-*
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
 * An element of SVG.
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
      element.setAttribute(name, value === true ? "" : shown(String(value)));
    }
  }
}

/**
 * Puts children behind those that an element has.
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
 * A text as nodes.
 * @param {string} words
 * @returns {Node[]}
 */
export function text(words) {
  return pieces(words).map((piece) => {
    if (!piece.isEscape) return document.createTextNode(piece.text);
    const escape = document.createElement("span");
    escape.className = "escape";
    escape.title = "Invisible character";
    escape.textContent = piece.text;
    return escape;
  });
}

/**
 * Puts other children in place of those that an element has.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/**
 * A button.
 * @param {string} words
 * @param {() => any} press what it does; while that lasts, it can't be pressed again
 * @param {Record<string, any>} [properties]
 */
export function button(words, press, properties = {}) {
  const made = h("button", { type: "button", ...properties }, words);
  made.addEventListener("click", async () => {
    made.disabled = true;
    try {
      await press();
    } finally {
      made.disabled = false;
    }
  });
  return made;
}

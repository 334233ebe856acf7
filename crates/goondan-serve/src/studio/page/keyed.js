// Updates lists of elements without replacing unchanged ones, so that focus, selection and open details stay.

/**
 * An element of a list. `make` creates it if its key is new or its signature has changed. `update` then changes its content.
 * @typedef {{key: string, signature?: string, make: () => Element, update?: (element: any) => void}} Item
 */

/** @type {WeakMap<Element, Map<string, {signature: string|undefined, element: Element}>>} */
const shownItems = new WeakMap();

/**
 * Makes items the only children of an element, in their order.
 * @param {Element} parent
 * @param {(Item|null|undefined|false)[]} items
 */
export function updateChildren(parent, items) {
  const before = shownItems.get(parent) ?? new Map();
  const now = new Map();
  for (const item of items) {
    if (!item) continue;
    const known = before.get(item.key);
    const element = known && known.signature === item.signature ? known.element : item.make();
    item.update?.(element);
    now.set(item.key, { signature: item.signature, element });
  }
  shownItems.set(parent, now);
  const elements = [...now.values()].map((one) => one.element);
  const kept = new Set(elements);
  for (const child of [...parent.childNodes]) if (!kept.has(/** @type {Element} */ (child))) child.remove();
  let next = parent.firstChild;
  for (const element of elements) {
    if (element === next) next = next.nextSibling;
    else parent.insertBefore(element, next);
  }
}

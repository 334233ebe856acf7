// Lists of elements that keep what did not change, so that focus, selection and open details stay as the user left them.

/**
 * An element of a list. `make` creates it if its key is new or its sign has changed. `update` then changes its content.
 * @typedef {{key: string, sign?: string, make: () => Element, update?: (element: any) => void}} Item
 */

/** @type {WeakMap<Element, Map<string, {sign: string|undefined, element: Element}>>} */
const shownItems = new WeakMap();

/**
 * Shows items as the only children of an element, in their order.
 * @param {Element} parent
 * @param {(Item|null|undefined|false)[]} items
 */
export function keep(parent, items) {
  const before = shownItems.get(parent) ?? new Map();
  const now = new Map();
  for (const item of items) {
    if (!item) continue;
    const known = before.get(item.key);
    const element = known && known.sign === item.sign ? known.element : item.make();
    item.update?.(element);
    now.set(item.key, { sign: item.sign, element });
  }
  shownItems.set(parent, now);
  const elements = [...now.values()].map((one) => one.element);
  const stay = new Set(elements);
  for (const child of [...parent.childNodes]) if (!stay.has(/** @type {Element} */ (child))) child.remove();
  let next = parent.firstChild;
  for (const element of elements) {
    if (element === next) next = next.nextSibling;
    else parent.insertBefore(element, next);
  }
}

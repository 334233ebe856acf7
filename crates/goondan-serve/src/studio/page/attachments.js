// Files that are attached to an input.

import { button, fill, h } from "./dom.js";
import { counted } from "./format.js";
import { notice } from "./parts.js";

/** Maximum total size of the files of an input, in bytes. The server accepts requests of up to 32 MiB, and Base64 adds a third. */
const MAX_BYTES = 20 * 1024 * 1024;

/**
 * Creates the button and the list of attached files.
 * @returns {{element: HTMLElement, list: HTMLElement, read: () => Promise<{mediaType: string, data: string, name: string}[]>, isEmpty: () => boolean, clear: () => void}}
 */
export function attachments() {
  /** @type {File[]} */
  let files = [];
  const list = h("ul.attachments", { "aria-label": "Attached files" });
  const input = h("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files to attach" });
  const draw = () => fill(list, files.map((file) => h("li", {}, h("span", {}, `${file.name} · ${counted(file.size, "byte")}`), button("×", () => set(files.filter((one) => one !== file)), { class: "quiet", "aria-label": `Remove ${file.name}` }))));
  /** @param {File[]} next */
  function set(next) {
    const bytes = next.reduce((sum, file) => sum + file.size, 0);
    if (bytes > MAX_BYTES) return notice("bad", "The files are too large.", `An input can have up to ${counted(MAX_BYTES / 1024 / 1024, "MiB", "MiB")} of files.`);
    files = next;
    draw();
  }
  input.addEventListener("change", () => {
    set([...files, ...input.files]);
    input.value = "";
  });
  return {
    element: h("span.attach", {}, input, button("Attach", () => input.click(), { title: "Attach images or other files" })),
    list,
    read: () => Promise.all(files.map(async (file) => ({ mediaType: file.type || "application/octet-stream", data: await base64(file), name: file.name }))),
    isEmpty: () => files.length === 0,
    clear: () => set([]),
  };
}

/** Returns the content of a file in Base64. */
function base64(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(String(reader.result).split(",")[1] ?? ""));
    reader.addEventListener("error", () => failed(reader.error));
    reader.readAsDataURL(file);
  });
}

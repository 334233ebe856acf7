// Files of the project: edits and saves them, with the checks of the language server.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { fileEditor, hasDraft } from "../file-editor.js";
import { viewHref, withErrorNotice, badge, emptyMessage, withHeading } from "../parts.js";

const KINDS = { resources: "YAML", text: "Prompts and texts", instructions: "Instructions", skill: "Skills", cases: "Test cases" };

/** @type {import("../app.js").View} */
export function files(container, parts) {
  const chosen = parts.length ? parts.join("/") : undefined;
  const list = h("div.file-list");
  const detail = h("section.detail", { "aria-label": chosen ? "The file" : "No file" });
  container.classList.toggle("has-chosen", chosen !== undefined);
  container.append(...withHeading("Files", h("aside.side", { "aria-label": "All files" }, list)), detail);
  let known = [];
  const draw = () => fill(list, known.length ? groups(known, chosen) : emptyMessage("No files"));
  withErrorNotice(() => get("/api/project/files")).then((response) => {
    known = response?.files ?? [];
    draw();
  });
  if (!chosen) {
    fill(detail, emptyMessage("Choose a file", "The list has the text files that the project loads."));
    return () => {};
  }
  return fileEditor(detail, chosen, draw);
}

function groups(known, chosen) {
  return Object.entries(KINDS).map(([kind, title]) => {
    const ofKind = known.filter((file) => file.kind === kind);
    if (!ofKind.length) return null;
    const items = ofKind.map(({ path }) =>
      h("li", {}, h("a.item", { href: viewHref("files", path), "aria-current": path === chosen ? "true" : undefined }, h("span", {}, path), hasDraft(path) && badge("ask", "not saved"))),
    );
    return h("section", { "aria-label": title }, h("h2", {}, title), h("ul.list", {}, items));
  });
}

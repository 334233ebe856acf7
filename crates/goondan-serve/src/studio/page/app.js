// The page: signs in, loads the swarm, and shows the view of the URL.

import { forgetSession, isSignedIn, onSignOut, ApiError, signIn, signOut } from "./api.js";
import { button, fill, h } from "./dom.js";
import { loadFeatures, follow, loadReloads, stop } from "./feed.js";
import { counted } from "./format.js";
import { viewHref, emptyMessage } from "./parts.js";
import { on, onFrame, state } from "./state.js";
import { themeChoice } from "./theme.js";
import { approvals } from "./views/approvals.js";
import { cases } from "./views/cases.js";
import { compare } from "./views/compare.js";
import { conversations } from "./views/conversations.js";
import { events } from "./views/events.js";
import { files } from "./views/files.js";
import { problemCount, problems } from "./views/problems.js";
import { reloadsView } from "./views/reloads.js";
import { swarm } from "./views/swarm.js";
import { traces } from "./views/traces.js";

/**
 * A view: fills the container, and returns a function that closes the view.
 * @typedef {(container: HTMLElement, parts: string[]) => (() => void)} View
 */

/** @type {Record<string, {title: string, view: View, count?: () => number, parent?: string, isOffered?: () => boolean}>} `parent` is the view whose navigation link is highlighted */
const VIEWS = {
  conversations: { title: "Conversations", view: conversations },
  compare: { title: "Compare", view: compare, parent: "conversations" },
  swarm: { title: "Swarm", view: swarm },
  traces: { title: "Traces", view: traces },
  events: { title: "Events", view: events },
  approvals: { title: "Approvals", view: approvals, count: () => state.approvals.size },
  problems: { title: "Problems", view: problems, count: problemCount },
  cases: { title: "Test cases", view: cases, isOffered: () => state.features.cases },
  files: { title: "Files", view: files, isOffered: () => state.features.edit },
  reloads: { title: "Reloads", view: reloadsView, count: () => (state.reloads.at(-1)?.ok === false ? 1 : 0) },
};

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
let closeView = () => {};
let shown = "";

function parts() {
  return location.hash.slice(2).split("/").filter(Boolean).map(decodeURIComponent);
}

function show() {
  if (location.hash === "#main") return;
  // The first page is the conversation with the entry agent.
  const [name = "conversations", ...rest] = location.hash.length > 2 ? parts() : ["conversations", state.swarm.entryAgent, "main"];
  document.querySelector("#notice .notice.ok")?.remove();
  if (name === "conversations" && rest.length > 1) state.lastOpened = rest;
  if (!isOffered(name)) return unknownView(name);
  const chosen = name;
  closeView();
  main.replaceChildren();
  main.className = `view-${chosen}`;
  closeView = VIEWS[chosen].view(main, rest);
  if (shown && shown !== chosen && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
  shown = chosen;
  navigation();
  currentLink();
}

/** Shows an error for a URL without a view. */
function unknownView(name) {
  closeView();
  closeView = () => {};
  main.className = "";
  fill(main, h("div.empty", {}, h("h1", {}, `The studio has no view ${name}`), h("p", {}, "Choose one at the top of the page.")));
  shown = "";
  navigation();
}

/** Sets the page title, with the number of open approval requests. The title is visible when the tab is in the background. */
function title() {
  const open = state.approvals.size;
  document.title = `${open ? `(${open}) ` : ""}${VIEWS[shown]?.title ?? "gdn"} · ${state.swarm?.name ?? "gdn"} studio`;
}

/** Shows links to approvals and problems next to the status, because a narrow page does not show all navigation links. */
function alerts() {
  const links = ["approvals", "problems"].map((name) => [name, VIEWS[name].count()]);
  const labels = { approvals: ["approval", "approvals"], problems: ["problem", "problems"] };
  fill(/** @type {Element} */ (document.getElementById("alerts")), links.map(([name, many]) => many > 0 && h("a", { href: `#/${name}` }, counted(many, ...labels[name]))));
}

/** Scrolls to the link of the current view, because a narrow page does not show all links. */
function currentLink() {
  document.querySelector("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** Returns true if a view exists and the server supports it. */
function isOffered(name) {
  return VIEWS[name] !== undefined && VIEWS[name].isOffered?.() !== false;
}

function navigation() {
  const current = VIEWS[shown]?.parent ?? shown;
  const linked = Object.entries(VIEWS).filter(([name, { parent }]) => !parent && isOffered(name));
  const links = linked.map(([name, { title, count }]) => {
    const many = count?.() ?? 0;
    const badge = many > 0 && h("span.badge", { "aria-label": `${many} open` }, many > 99 ? "99+" : many);
    const href = name === "conversations" ? viewHref(name, ...state.lastOpened) : viewHref(name);
    return h("a", { href, "aria-current": name === current ? "page" : undefined }, title, badge);
  });
  fill(/** @type {Element} */ (document.getElementById("nav")), links);
  alerts();
  title();
}

function status() {
  const live = state.isLoaded ? "Live" : "Loading events…";
  const statusText = { connecting: "Connecting…", live, lost: "Not connected" }[state.connection];
  const swarm = state.swarm;
  fill(
    /** @type {Element} */ (document.getElementById("status")),
    swarm && h("span.swarm-name", {}, swarm.name),
    swarm && h("span.muted", {}, `generation ${swarm.generation}`),
    h(`span.connection.${state.connection}`, {}, statusText),
    themeChoice(),
    isSignedIn() && button("Sign out", () => signOut(endSession), { class: "quiet" }),
  );
}

/** Ends all requests and clears the page, before the server refuses the token. */
function endSession() {
  stop();
  closeView();
  closeView = () => {};
  removeEventListener("hashchange", show);
  forgetSession();
  for (const id of ["nav", "alerts", "status", "notice"]) fill(/** @type {Element} */ (document.getElementById(id)));
  main.className = "";
  document.title = "gdn studio";
  fill(main, h("div.empty", {}, h("h1", {}, "You are signed out."), signInHint()));
}

const signInHint = () => h("p", {}, "To sign in, run ", h("code", {}, "gdn studio"), " in the project directory.");

function signedOut(error) {
  endSession();
  const code = error instanceof ApiError && error.code ? ` [${error.code}]` : "";
  fill(
    main,
    h(
      "div.empty",
      {},
      h("h1", {}, "This browser is not signed in"),
      h("p", {}, error ? `${error.message}${code}` : ""),
      signInHint(),
    ),
  );
}

async function begin() {
  try {
    await signIn();
    await Promise.all([loadReloads(), loadFeatures()]);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return signedOut(error);
    fill(main, emptyMessage("The swarm does not answer", String(error.message)));
    return;
  }
  addEventListener("hashchange", show);
  addEventListener("resize", currentLink);
  onSignOut(endSession);
  onFrame(["approvals", "deadLetters", "reloads"], navigation);
  for (const topic of /** @type {const} */ (["connection", "topology"])) on(topic, status);
  status();
  show();
  follow().catch(signedOut);
}

begin();

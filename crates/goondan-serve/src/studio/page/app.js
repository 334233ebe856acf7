// The page: signs in, follows the swarm, and shows the view that the address names.

import { forgetSession, isSignedIn, onSignOut, Problem, signIn, signOut } from "./api.js";
import { button, fill, h } from "./dom.js";
import { features, follow, reloads, stop } from "./feed.js";
import { counted } from "./format.js";
import { address, nothing } from "./parts.js";
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
 * A view: it fills the element it is given, and returns what is to be done when it goes.
 * @typedef {(place: HTMLElement, parts: string[]) => (() => void)} View
 */

/** @type {Record<string, {title: string, view: View, count?: () => number, below?: string, isOffered?: () => boolean}>} `below` names the view whose link leads to it */
const VIEWS = {
  conversations: { title: "Conversations", view: conversations },
  compare: { title: "Compare", view: compare, below: "conversations" },
  swarm: { title: "Swarm", view: swarm },
  traces: { title: "Traces", view: traces },
  events: { title: "Events", view: events },
  approvals: { title: "Approvals", view: approvals, count: () => state.questions.size },
  problems: { title: "Problems", view: problems, count: problemCount },
  cases: { title: "Test cases", view: cases, isOffered: () => state.features.cases },
  files: { title: "Files", view: files, isOffered: () => state.features.edit },
  reloads: { title: "Reloads", view: reloadsView, count: () => (state.reloads.at(-1)?.ok === false ? 1 : 0) },
};

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
let leave = () => {};
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
  leave();
  main.replaceChildren();
  main.className = `view-${chosen}`;
  leave = VIEWS[chosen].view(main, rest);
  if (shown && shown !== chosen && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
  shown = chosen;
  navigation();
  currentLink();
}

/** Says that the address names no view. */
function unknownView(name) {
  leave();
  leave = () => {};
  main.className = "";
  fill(main, h("div.empty", {}, h("h1", {}, `The studio has no view ${name}`), h("p", {}, "Choose one at the top of the page.")));
  shown = "";
  navigation();
}

/** Shows the name of the view and the number of open approval requests as the title, which a tab in the background has, too. */
function title() {
  const open = state.questions.size;
  document.title = `${open ? `(${open}) ` : ""}${VIEWS[shown]?.title ?? "gdn"} · ${state.swarm?.name ?? "gdn"} studio`;
}

/** Shows what needs a user, next to the state: on a narrow page, not all links are in sight. */
function alerts() {
  const links = ["approvals", "problems"].map((name) => [name, VIEWS[name].count()]);
  const words = { approvals: ["approval", "approvals"], problems: ["problem", "problems"] };
  fill(/** @type {Element} */ (document.getElementById("alerts")), links.map(([name, many]) => many > 0 && h("a", { href: `#/${name}` }, counted(many, ...words[name]))));
}

/** Scrolls to the link of the view: on a narrow page, the links do not all fit. */
function currentLink() {
  document.querySelector("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** Returns true for a view that exists here. */
function isOffered(name) {
  return VIEWS[name] !== undefined && VIEWS[name].isOffered?.() !== false;
}

function navigation() {
  const current = VIEWS[shown]?.below ?? shown;
  const linked = Object.entries(VIEWS).filter(([name, { below }]) => !below && isOffered(name));
  const links = linked.map(([name, { title, count }]) => {
    const many = count?.() ?? 0;
    const badge = many > 0 && h("span.badge", { "aria-label": `${many} open` }, many > 99 ? "99+" : many);
    const href = name === "conversations" ? address(name, ...state.lastOpened) : address(name);
    return h("a", { href, "aria-current": name === current ? "page" : undefined }, title, badge);
  });
  fill(/** @type {Element} */ (document.getElementById("nav")), links);
  alerts();
  title();
}

function status() {
  const live = state.isLoaded ? "Live" : "Loading events…";
  const words = { connecting: "Connecting…", live, lost: "Not connected" }[state.connection];
  const swarm = state.swarm;
  fill(
    /** @type {Element} */ (document.getElementById("status")),
    swarm && h("span.swarm-name", {}, swarm.name),
    swarm && h("span.muted", {}, `generation ${swarm.generation}`),
    h(`span.connection.${state.connection}`, {}, words),
    themeChoice(),
    isSignedIn() && button("Sign out", () => signOut(endSession), { class: "quiet" }),
  );
}

/** Ends everything that asks the server, before the server refuses it. */
function endSession() {
  stop();
  leave();
  leave = () => {};
  removeEventListener("hashchange", show);
  forgetSession();
  for (const id of ["nav", "alerts", "status", "notice"]) fill(/** @type {Element} */ (document.getElementById(id)));
  main.className = "";
  document.title = "gdn studio";
  fill(main, h("div.empty", {}, h("h1", {}, "You are signed out."), signInWords()));
}

const signInWords = () => h("p", {}, "To sign in, run ", h("code", {}, "gdn studio"), " in the project directory.");

function signedOut(error) {
  endSession();
  const code = error instanceof Problem && error.code ? ` [${error.code}]` : "";
  fill(
    main,
    h(
      "div.empty",
      {},
      h("h1", {}, "This browser is not signed in"),
      h("p", {}, error ? `${error.message}${code}` : ""),
      signInWords(),
    ),
  );
}

async function begin() {
  try {
    await signIn();
    await Promise.all([reloads(), features()]);
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return signedOut(error);
    fill(main, nothing("The swarm does not answer", String(error.message)));
    return;
  }
  addEventListener("hashchange", show);
  addEventListener("resize", currentLink);
  onSignOut(endSession);
  onFrame(["questions", "letters", "reloads"], navigation);
  for (const topic of /** @type {const} */ (["connection", "topology"])) on(topic, status);
  status();
  show();
  follow().catch(signedOut);
}

begin();

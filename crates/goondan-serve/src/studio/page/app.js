// The page: signs in, follows the swarm, and shows the view that the address names.

import { forgetSession, isSignedIn, onSignOut, Problem, signIn, signOut } from "./api.js";
import { button, fill, h } from "./dom.js";
import { follow, reloads } from "./feed.js";
import { nothing } from "./parts.js";
import { on, onFrame, state } from "./state.js";
import { approvals } from "./views/approvals.js";
import { compare } from "./views/compare.js";
import { conversations } from "./views/conversations.js";
import { events } from "./views/events.js";
import { problemCount, problems } from "./views/problems.js";
import { reloadsView } from "./views/reloads.js";
import { swarm } from "./views/swarm.js";
import { traces } from "./views/traces.js";

/**
 * A view: it fills the element it is given, and returns what is to be done when it goes.
 * @typedef {(place: HTMLElement, parts: string[]) => (() => void)} View
 */

/** @type {Record<string, {title: string, view: View, count?: () => number, below?: string}>} `below` names the view whose link leads to it */
const VIEWS = {
  conversations: { title: "Conversations", view: conversations },
  compare: { title: "Compare", view: compare, below: "conversations" },
  swarm: { title: "Swarm", view: swarm },
  traces: { title: "Traces", view: traces },
  events: { title: "Events", view: events },
  approvals: { title: "Approvals", view: approvals, count: () => state.questions.size },
  problems: { title: "Problems", view: problems, count: problemCount },
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
  const chosen = VIEWS[name] ? name : "conversations";
  leave();
  main.replaceChildren();
  main.className = `view-${chosen}`;
  leave = VIEWS[chosen].view(main, VIEWS[name] ? rest : []);
  document.title = `${VIEWS[chosen].title} · ${state.swarm?.name ?? "gdn"} studio`;
  if (shown && shown !== chosen && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
  shown = chosen;
  navigation();
}

function navigation() {
  const current = VIEWS[shown]?.below ?? shown;
  const linked = Object.entries(VIEWS).filter(([, { below }]) => !below);
  const links = linked.map(([name, { title, count }]) => {
    const many = count?.() ?? 0;
    const badge = many > 0 && h("span.badge", { "aria-label": `${many} open` }, many > 99 ? "99+" : many);
    return h("a", { href: `#/${name}`, "aria-current": name === current ? "page" : undefined }, title, badge);
  });
  fill(/** @type {Element} */ (document.getElementById("nav")), links);
}

function status() {
  const words = { connecting: "Connecting…", live: "Live", lost: "Not connected" }[state.connection];
  const swarm = state.swarm;
  fill(
    /** @type {Element} */ (document.getElementById("status")),
    swarm && h("span.swarm-name", {}, swarm.name),
    swarm && h("span.muted", {}, `generation ${swarm.generation}`),
    h(`span.connection.${state.connection}`, {}, words),
    isSignedIn() && button("Sign out", signOut, { class: "quiet" }),
  );
}

function signedOut(error) {
  forgetSession();
  leave();
  leave = () => {};
  removeEventListener("hashchange", show);
  const code = error instanceof Problem && error.code ? ` [${error.code}]` : "";
  fill(
    main,
    h(
      "div.empty",
      {},
      h("h1", {}, "This browser is not signed in"),
      h("p", {}, error ? `${error.message}${code}` : ""),
      h("p", {}, "To sign in, run ", h("code", {}, "gdn studio"), " in the project directory."),
    ),
  );
}

async function begin() {
  try {
    await signIn();
    await reloads();
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return signedOut(error);
    fill(main, nothing("The swarm does not answer", String(error.message)));
    return;
  }
  addEventListener("hashchange", show);
  onSignOut(() => location.reload());
  onFrame(["questions", "letters", "reloads"], navigation);
  for (const topic of /** @type {const} */ (["connection", "topology"])) on(topic, status);
  status();
  show();
  follow().catch(signedOut);
}

begin();

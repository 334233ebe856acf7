// The API of the swarm. The token is that of this browser's session. Only pages of this host and port can read it: the browser
// sends it to no one by itself, as it would do with a cookie. It is worthless after a sign-out and after the end of the process.

const KEPT = "gdn-studio-session";

const token = () => localStorage.getItem(KEPT);

/** An error that the server told, or that it could not be reached. */
export class Problem extends Error {
  /**
   * @param {string} message
   * @param {{code?: string, suggestion?: string, status?: number}} [more]
   */
  constructor(message, more = {}) {
    super(message);
    this.code = more.code;
    this.suggestion = more.suggestion;
    this.status = more.status;
  }
}

/**
 * The headers of a request.
 * @param {Record<string, string>} [more]
 */
export function headers(more = {}) {
  const kept = token();
  return kept ? { Authorization: `Bearer ${kept}`, ...more } : more;
}

/**
 * A segment of a path that says exactly that.
 * @param {string} text
 */
export function segment(text) {
  return encodeURIComponent(text);
}

/**
 * The address of a conversation.
 * @param {{agentName: string, instanceKey: string}} instance
 */
export function place(instance) {
  return `/api/instances/${segment(instance.agentName)}/${segment(instance.instanceKey)}`;
}

/**
 * Makes a request.
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @returns {Promise<any>}
 */
async function request(method, path, body) {
  const response = await answer(method, path, body);
  if (response.status === 204) return null;
  return response.json().catch(() => ({}));
}

/** Returns the response to a request, unless the server refuses it. */
async function answer(method, path, body) {
  const more = body === undefined ? {} : { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(path, { method, headers: headers(more), body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Problem("The swarm does not answer.", { suggestion: "The swarm may have stopped. Start it again with `gdn studio`." });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** Returns the problem that a refused response describes. */
async function problemOf(response) {
  const error = (await response.json().catch(() => ({}))).error ?? {};
  return new Problem(error.message ?? `The server returned status ${response.status}.`, { ...error, status: response.status });
}

/**
 * Makes a request whose response is a stream.
 * @param {string} path
 * @param {any} body
 * @param {AbortSignal} signal ends it
 * @returns {Promise<Response>}
 */
export async function stream(path, body, signal) {
  const head = headers({ "Content-Type": "application/json", Accept: "text/event-stream" });
  const response = await fetch(path, { method: "POST", headers: head, body: JSON.stringify(body), signal });
  if (!response.ok) throw await problemOf(response);
  return response;
}

/**
 * Returns the body of a response that is not JSON.
 * @param {string} path
 */
export async function text(path) {
  const response = await answer("GET", path);
  return response.text();
}

/** @param {string} path */
export const get = (path) => request("GET", path);
/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => request("POST", path, body);
/** @param {string} path @param {any} body */
export const put = (path, body) => request("PUT", path, body);
/** @param {string} path */
export const remove = (path) => request("DELETE", path);

/**
 * Signs in with the code behind `#code=`, and removes the code from the URL at once. A used code changes nothing in a browser
 * that is signed in. A new session ends the one before it.
 * @returns {Promise<void>}
 */
export async function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  const before = headers();
  try {
    const session = await post("/api/studio/sessions", { code });
    localStorage.setItem(KEPT, session.token);
  } catch (error) {
    if (error.status === 401 && (await isValid())) return;
    throw error;
  }
  if (before.Authorization) await fetch("/api/studio/session", { method: "DELETE", headers: before }).catch(() => null);
}

/** Returns true if the server accepts the kept token. */
async function isValid() {
  return token() !== null && (await fetch("/api/swarm", { headers: headers() }).catch(() => null))?.ok === true;
}

/** Returns true if this browser has a session. */
export function isSignedIn() {
  return token() !== null;
}

/** Removes a token that the server no longer accepts, and what this tab keeps of the swarm. */
export function forgetSession() {
  localStorage.removeItem(KEPT);
  sessionStorage.clear();
}

/**
 * Ends the session of this browser, in all of its tabs.
 * @param {() => void} stop ends all requests of this tab and forgets the session, before the server refuses the token
 */
export async function signOut(stop) {
  const before = headers();
  stop();
  await fetch("/api/studio/session", { method: "DELETE", headers: before }).catch(() => null);
}

/**
 * Calls a listener when another tab signs out.
 * @param {() => void} listener
 */
export function onSignOut(listener) {
  addEventListener("storage", (event) => {
    if (event.storageArea === localStorage && token() === null) listener();
  });
}

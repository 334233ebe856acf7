// The swarm's API. The token is that of this tab's session; no other page, tab or port can read it.

const KEPT = "gdn-studio-session";

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
  const token = sessionStorage.getItem(KEPT);
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
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
  const more = body === undefined ? {} : { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(path, { method, headers: headers(more), body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Problem("The swarm does not answer.", { suggestion: "The swarm may have stopped. Start it again with `gdn studio`." });
  }
  if (response.status === 204) return null;
  const told = await response.json().catch(() => ({}));
  if (response.ok) return told;
  const error = told.error ?? {};
  throw new Problem(error.message ?? `The server returned status ${response.status}.`, { ...error, status: response.status });
}

/** @param {string} path */
export const get = (path) => request("GET", path);
/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => request("POST", path, body);
/** @param {string} path */
export const remove = (path) => request("DELETE", path);

/**
 * Signs in with the code behind `#code=`, which goes out of the address at once.
 * @returns {Promise<void>}
 */
export async function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  sessionStorage.removeItem(KEPT);
  const { token } = await post("/api/studio/sessions", { code });
  sessionStorage.setItem(KEPT, token);
}

/** Whether this tab has signed in. */
export function isSignedIn() {
  return sessionStorage.getItem(KEPT) !== null;
}

/** Ends the session of this tab. */
export async function signOut() {
  await remove("/api/studio/session").catch(() => null);
  sessionStorage.removeItem(KEPT);
  location.reload();
}

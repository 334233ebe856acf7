// Client of the swarm API. It uses the session token of this browser. Only pages of this host and port can read the token, and
// unlike a cookie, the browser never sends it automatically. The token expires at the sign-out and when the process ends.

const SESSION_KEY = "gdn-studio-session";

const token = () => localStorage.getItem(SESSION_KEY);

/** An error response, or a failed connection to the server. */
export class ApiError extends Error {
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
 * Returns the headers of a request, with the session token.
 * @param {Record<string, string>} [more]
 */
export function headers(more = {}) {
  const savedToken = token();
  return savedToken ? { Authorization: `Bearer ${savedToken}`, ...more } : more;
}

/**
 * Encodes a path segment.
 * @param {string} text
 */
export function segment(text) {
  return encodeURIComponent(text);
}

/**
 * Returns the API path of a conversation.
 * @param {{agentName: string, instanceKey: string}} conversation
 */
export function conversationPath(conversation) {
  return `/api/instances/${segment(conversation.agentName)}/${segment(conversation.instanceKey)}`;
}

/**
 * Sends a request and returns the decoded response.
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @returns {Promise<any>}
 */
async function request(method, path, body) {
  const response = await fetchResponse(method, path, body);
  if (response.status === 204) return null;
  return response.json().catch(() => ({}));
}

/** Sends a request and returns the response. Throws an `ApiError` for an error status. */
async function fetchResponse(method, path, body) {
  const more = body === undefined ? {} : { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(path, { method, headers: headers(more), body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new ApiError("The swarm does not answer.", { suggestion: "The swarm may have stopped. Start it again with `gdn studio`." });
  }
  if (!response.ok) throw await toApiError(response);
  return response;
}

/** Creates the error of an error response. */
async function toApiError(response) {
  const error = (await response.json().catch(() => ({}))).error ?? {};
  return new ApiError(error.message ?? `The server returned status ${response.status}.`, { ...error, status: response.status });
}

/**
 * Sends a request whose response is a stream.
 * @param {string} path
 * @param {any} body
 * @param {AbortSignal} signal ends the stream
 * @returns {Promise<Response>}
 */
export async function stream(path, body, signal) {
  const requestHeaders = headers({ "Content-Type": "application/json", Accept: "text/event-stream" });
  const response = await fetch(path, { method: "POST", headers: requestHeaders, body: JSON.stringify(body), signal });
  if (!response.ok) throw await toApiError(response);
  return response;
}

/**
 * Returns the body of a response that is not JSON.
 * @param {string} path
 */
export async function text(path) {
  const response = await fetchResponse("GET", path);
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
 * Signs in with the code after `#code=`, and removes the code from the URL at once. A signed-in browser ignores a used code. A
 * new session ends the previous one.
 * @returns {Promise<void>}
 */
export async function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  const before = headers();
  try {
    const session = await post("/api/studio/sessions", { code });
    localStorage.setItem(SESSION_KEY, session.token);
  } catch (error) {
    if (error.status === 401 && (await isValid())) return;
    throw error;
  }
  if (before.Authorization) await fetch("/api/studio/session", { method: "DELETE", headers: before }).catch(() => null);
}

/** Returns true if the server accepts the saved token. */
async function isValid() {
  return token() !== null && (await fetch("/api/swarm", { headers: headers() }).catch(() => null))?.ok === true;
}

/** Returns true if this browser has a session. */
export function isSignedIn() {
  return token() !== null;
}

/** Removes the saved token and the data of this tab. */
export function forgetSession() {
  localStorage.removeItem(SESSION_KEY);
  sessionStorage.clear();
}

/**
 * Ends the session of this browser, in all of its tabs.
 * @param {() => void} stop ends all requests of this tab and removes the token, before the server refuses it
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

// A recorded model call: its request and response, without secrets.

import { get, segment } from "./api.js";
import { button, fill, h } from "./dom.js";
import { counted, duration, money, retry } from "./format.js";
import { viewHref, incompleteBadge, data } from "./parts.js";
import { reasoning } from "./reasoning.js";

/** Matches a header value with a variable instead of a key. */
const VARIABLE = /^(Bearer )?\$[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Creates a closed section for the model call of a message. The call is loaded when the section is opened.
 * @param {import("./facts.js").ModelCall} call
 */
export function modelCallDetails(call) {
  const details = h("details.call-link", {}, h("summary", { title: "Show the request and the response of the model" }, "Model call"));
  const load = () => details.append(modelCall(call), h("p", {}, h("a", { href: viewHref("traces", call.traceId, call.spanId) }, "Show in the trace")));
  details.addEventListener("toggle", load, { once: true });
  return details;
}

/**
 * Returns a recorded call. Throws an error with the reason if the call is not recorded.
 * @param {import("./facts.js").ModelCall} requested
 */
async function recorded({ spanId, startedAt }) {
  // The list explains a missing call. A direct request for a missing call would log an error in the browser console.
  const { calls, limit } = await get("/api/model-calls");
  if (calls.some((call) => call.spanId === spanId)) return get(`/api/model-calls/${segment(spanId)}`);
  throw new Error(`This model call is not recorded. ${missing(calls, limit, Date.parse(startedAt))}`);
}

/** Returns the reason why a call is not recorded. `at` is its start time. */
function missing(calls, limit, at) {
  const setting = "`policy.telemetry.modelCalls` of the Swarm";
  if (!limit) return `Set ${setting} to record model calls.`;
  const isAfterOldest = calls.length > 0 && at > Date.parse(calls[0].startedAt);
  if (isAfterOldest) return "Another process or node made it.";
  if (calls.length < limit) return "The process records model calls in memory, and this call was made before the process started.";
  return `The process records its latest ${limit} model calls in memory, and none from before its start. To keep more, set ${setting}.`;
}

/**
 * Creates the view of a recorded call, and loads the call.
 * @param {import("./facts.js").ModelCall} requested
 * @returns {HTMLElement}
 */
export function modelCall(requested) {
  const container = h("div.model-call", { role: "group", "aria-label": "Model call" }, h("p.muted", {}, "Loading…"));
  const path = `/api/model-calls/${segment(requested.spanId)}`;
  recorded(requested).then(
    ({ call, hasHttp }) => fill(container, retryLines(requested.retries, call), request(call), response(call), hasHttp ? http(path) : h("p.muted", {}, "This model is not called over HTTP, so there is no raw body.")),
    (error) => fill(container, h("p.muted", {}, error.message, " ", error.suggestion ?? "")),
  );
  return container;
}

function retryLines(retries, call) {
  if (!call.retries) return null;
  const lines = retries.length ? retries.map(retry) : [`The call was retried ${counted(call.retries, "time")}.`];
  return h("div", {}, h("h3", {}, "Retries"), lines.map((line) => h("p.muted", {}, line)));
}

/** Creates a closed section with a title and a detail, such as a count. */
function part(title, detail, ...children) {
  return h("details", {}, h("summary", {}, title, detail && h("span.muted", {}, ` ${detail}`)), children);
}

function request({ request: modelRequest }) {
  const params = Object.keys(modelRequest.params);
  const omitted = modelRequest.leftOut > 0 && `, ${modelRequest.leftOut} older ones omitted`;
  return h(
    "div.call-side",
    { role: "group", "aria-label": "Request" },
    h("h3", {}, "Request"),
    modelRequest.system ? part("System prompt", counted(modelRequest.system.length, "character"), h("div.words.prompt", { dir: "auto", tabindex: 0, role: "group", "aria-label": "System prompt" }, modelRequest.system)) : h("p.muted", {}, "No system prompt"),
    part("Messages", `${modelRequest.messages.length}${omitted || ""}`, modelRequest.messages.map(message)),
    part("Tools", String(modelRequest.tools.length), modelRequest.tools.map(tool)),
    params.length ? part("Parameters", params.join(", "), data(modelRequest.params, "Parameters")) : h("p.muted", {}, "Parameters: the defaults of the provider"),
    modelRequest.output && part("Answer schema", "", data(modelRequest.output, "Answer schema")),
  );
}

function message({ role, content }) {
  return h("article.call-message", { "aria-label": `Message: ${role}` }, h("p.field-name", {}, role), content.map(partElement));
}

function tool({ name, description, parameters }) {
  return part(name, "", h("p", { dir: "auto" }, description), data(parameters, `Parameters of ${name}`));
}

function partElement(one) {
  switch (one.type) {
    case "text":
      return h("div.words", { dir: "auto" }, one.text);
    case "reasoning":
      return one.text ? reasoning(one.text) : null;
    case "tool-call":
      return [h("p", {}, "Call of ", h("code", {}, one.toolName)), data(one.input, `Arguments of ${one.toolName}`)];
    case "tool-result":
      return [h("p", {}, "Result of ", h("code", {}, one.toolName)), data(one.error ?? one.output, `Result of ${one.toolName}`)];
    case "opaque":
      return null;
    default:
      return data(one, one.type);
  }
}

function response({ response: answer, error, durationMs }) {
  const usage = answer?.usage;
  const cached = usage?.cachedTokens ? ` (${usage.cachedTokens.toLocaleString("en")} from the cache)` : "";
  const written = usage?.cacheWriteTokens && `${counted(usage.cacheWriteTokens, "token")} written to the cache`;
  const tokens = usage && `${counted(usage.promptTokens, "input token")}${cached}, ${counted(usage.completionTokens, "output token")}`;
  const cost = answer?.cost && money(answer.cost.amount, answer.cost.currency);
  return h(
    "div.call-side",
    { role: "group", "aria-label": "Response" },
    h("h3", {}, "Response", incompleteBadge(answer?.finishReason)),
    h("p.muted", {}, [answer && `Finish reason: ${answer.finishReason}`, duration(durationMs), tokens, written, cost].filter(Boolean).join(" · ")),
    error && h("p.bad", {}, error),
    answer?.parts.map(partElement),
  );
}

/** Creates the buttons for the HTTP exchange, which is loaded on demand. */
function http(path) {
  const raw = h("div.raw");
  const status = h("span.muted", { role: "status" });
  const load = () => get(`${path}/http`).then(({ exchange }) => exchange);
  const failed = (error) => fill(status, error.message);
  const copy = () =>
    load()
      .then((exchange) => {
        if (exchange.body === undefined) throw new Error("The request body is too large to be recorded.");
        return navigator.clipboard.writeText(curl(exchange));
      })
      .then(() => fill(status, "Copied. The key is a variable that your shell must have."), failed);
  const show = () =>
    load().then(
      ({ url, status, body, response: answer }) =>
        fill(raw, h("p.muted", {}, `POST ${url}${status ? ` · status ${status}` : ""}`), rawBody("Request body", body), rawBody("Response body", answer)),
      failed,
    );
  return h("div", {}, h("div.actions", {}, button("Copy as curl", copy), button("Show raw bodies", show), status), raw);
}

/** Shows a body, indented if it is JSON. The button copies the original body. */
function rawBody(title, body) {
  if (body === undefined || body === null) return [h("h3", {}, title), h("p.muted", {}, "The body is too large to be recorded.")];
  const status = h("span.muted", { role: "status" });
  const copy = () =>
    navigator.clipboard.writeText(body).then(
      () => fill(status, "Copied."),
      () => fill(status, "The browser denied access to the clipboard."),
    );
  return [h("div.row", {}, h("h3", {}, title), button("Copy", copy, { class: "quiet", "aria-label": `Copy the ${title.toLowerCase()}` }), status), data(indented(body), title)];
}

/** Returns JSON with indentation, and other text unchanged. */
function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Quotes a text for a POSIX shell. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * Returns a request as a command for a POSIX shell. Keys stay variables, and the body is ASCII, so that it has no hidden characters.
 * @param {{url: string, headers: [string, string][], body: string}} exchange
 */
export function curl({ url, headers, body }) {
  const header = ([name, value]) => (VARIABLE.test(value) ? `"${name}: ${value}"` : quoted(`${name}: ${value}`));
  const ascii = body.replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return [`curl ${quoted(url)}`, ...headers.map((one) => `-H ${header(one)}`), `--data-raw ${quoted(ascii)}`].join(" \\\n  ");
}

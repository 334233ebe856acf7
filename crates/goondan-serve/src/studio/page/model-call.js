// A model call: the request and the response as the process recorded them, without secrets.

import { get, segment } from "./api.js";
import { button, fill, h } from "./dom.js";
import { counted, duration, money, retry } from "./format.js";
import { address, cut, data } from "./parts.js";
import { reasoning } from "./reasoning.js";

/** Finds the value of a header that ends with a variable in place of a key. */
const VARIABLE = /^(Bearer )?\$[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Creates the closed part of a message that shows its model call. The call is loaded when the part is opened.
 * @param {import("./facts.js").ModelCall} call
 */
export function modelCallDetails(call) {
  const details = h("details.call-link", {}, h("summary", { title: "Show the request and the response of the model" }, "Model call"));
  const load = () => details.append(modelCall(call), h("p", {}, h("a", { href: address("traces", call.traceId, call.spanId) }, "Show in the trace")));
  details.addEventListener("toggle", load, { once: true });
  return details;
}

/**
 * Returns a recorded call. Fails with the reason if the process has not recorded it.
 * @param {import("./facts.js").ModelCall} wanted
 */
async function recorded({ spanId, startedAt }) {
  // The list shows why a call is missing, and a request for a missing call would be an error in the console.
  const { calls, limit } = await get("/api/model-calls");
  if (calls.some((call) => call.spanId === spanId)) return get(`/api/model-calls/${segment(spanId)}`);
  throw new Error(`This model call is not recorded. ${missing(calls, limit, Date.parse(startedAt))}`);
}

/** Returns the reason why a call that began at a time is not among the recorded ones. */
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
 * @param {import("./facts.js").ModelCall} wanted
 * @returns {HTMLElement}
 */
export function modelCall(wanted) {
  const place = h("div.model-call", { role: "group", "aria-label": "Model call" }, h("p.muted", {}, "Loading…"));
  const path = `/api/model-calls/${segment(wanted.spanId)}`;
  recorded(wanted).then(
    ({ call, hasHttp }) => fill(place, retryLines(wanted.retries, call), request(call), response(call), hasHttp ? http(path) : h("p.muted", {}, "This model is not called over HTTP, so there is no raw body.")),
    (error) => fill(place, h("p.muted", {}, error.message, " ", error.suggestion ?? "")),
  );
  return place;
}

function retryLines(retries, call) {
  if (!call.retries) return null;
  const lines = retries.length ? retries.map(retry) : [`The call was retried ${counted(call.retries, "time")}.`];
  return h("div", {}, h("h3", {}, "Retries"), lines.map((line) => h("p.muted", {}, line)));
}

/** A closed part with a title and a count. */
function part(title, told, ...children) {
  return h("details", {}, h("summary", {}, title, told && h("span.muted", {}, ` ${told}`)), children);
}

function request({ request: asked }) {
  const params = Object.keys(asked.params);
  const omitted = asked.leftOut > 0 && `, ${asked.leftOut} older ones omitted`;
  return h(
    "div.call-side",
    { role: "group", "aria-label": "Request" },
    h("h3", {}, "Request"),
    asked.system ? part("System prompt", counted(asked.system.length, "character"), h("div.words.prompt", { dir: "auto", tabindex: 0, role: "group", "aria-label": "System prompt" }, asked.system)) : h("p.muted", {}, "No system prompt"),
    part("Messages", `${asked.messages.length}${omitted || ""}`, asked.messages.map(message)),
    part("Tools", String(asked.tools.length), asked.tools.map(tool)),
    params.length ? part("Parameters", params.join(", "), data(asked.params, "Parameters")) : h("p.muted", {}, "Parameters: the defaults of the provider"),
    asked.output && part("Answer schema", "", data(asked.output, "Answer schema")),
  );
}

function message({ role, content }) {
  return h("article.call-message", { "aria-label": `Message: ${role}` }, h("p.field-name", {}, role), content.map(piece));
}

function tool({ name, description, parameters }) {
  return part(name, "", h("p", { dir: "auto" }, description), data(parameters, `Parameters of ${name}`));
}

function piece(one) {
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
    h("h3", {}, "Response", cut(answer?.finishReason)),
    h("p.muted", {}, [answer && `Finish reason: ${answer.finishReason}`, duration(durationMs), tokens, written, cost].filter(Boolean).join(" · ")),
    error && h("p.bad", {}, error),
    answer?.parts.map(piece),
  );
}

/** The buttons for the HTTP exchange, which is loaded on demand. */
function http(path) {
  const raw = h("div.raw");
  const told = h("span.muted", { role: "status" });
  const load = () => get(`${path}/http`).then(({ exchange }) => exchange);
  const failed = (error) => fill(told, error.message);
  const copy = () =>
    load()
      .then((exchange) => {
        if (exchange.body === undefined) throw new Error("The request body is too large to be recorded.");
        return navigator.clipboard.writeText(curl(exchange));
      })
      .then(() => fill(told, "Copied. The key is a variable that your shell must have."), failed);
  const show = () =>
    load().then(
      ({ url, status, body, response: answer }) =>
        fill(raw, h("p.muted", {}, `POST ${url}${status ? ` · status ${status}` : ""}`), rawBody("Request body", body), rawBody("Response body", answer)),
      failed,
    );
  return h("div", {}, h("div.actions", {}, button("Copy as curl", copy), button("Show raw bodies", show), told), raw);
}

/** Shows a body, indented if it is JSON. The copy is the body as it was sent. */
function rawBody(title, body) {
  if (body === undefined || body === null) return [h("h3", {}, title), h("p.muted", {}, "The body is too large to be recorded.")];
  const told = h("span.muted", { role: "status" });
  const copy = () =>
    navigator.clipboard.writeText(body).then(
      () => fill(told, "Copied."),
      () => fill(told, "The browser denied access to the clipboard."),
    );
  return [h("div.row", {}, h("h3", {}, title), button("Copy", copy, { class: "quiet", "aria-label": `Copy the ${title.toLowerCase()}` }), told), data(indented(body), title)];
}

/** Returns JSON with indentation, and any other text as it is. */
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
 * Returns a request as a command for a POSIX shell. Keys stay variables, and the body is ASCII: no character of it is hidden.
 * @param {{url: string, headers: [string, string][], body: string}} exchange
 */
export function curl({ url, headers, body }) {
  const header = ([name, value]) => (VARIABLE.test(value) ? `"${name}: ${value}"` : quoted(`${name}: ${value}`));
  const ascii = body.replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return [`curl ${quoted(url)}`, ...headers.map((one) => `-H ${header(one)}`), `--data-raw ${quoted(ascii)}`].join(" \\\n  ");
}

// The OpenAI-compatible door, as the official client for Node sees it.
//
// Usage: openai.mjs FOLDER URL TOKEN, with the package `openai` in FOLDER/node_modules and the swarm of tests/doors/swarm behind
// URL. Prints a line for each check; fails at the first that does not hold.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [folder, url, token] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const OpenAI = require("openai");
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, timeout: 30_000 });

function check(what, holds, seen) {
  if (!holds) {
    console.error(`FAILED: ${what}:`, seen);
    process.exit(1);
  }
  console.log(`ok: ${what}`);
}

async function get(path) {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
  return response.json();
}

const instances = async () => (await get("/api/instances?agent=echo")).instances.map((meta) => meta.instanceKey);
const user = (content) => ({ role: "user", content });
const ask = (messages, more = {}) => client.chat.completions.create({ model: "echo", messages, ...more });
const text = (completion) => completion.choices[0].message.content;

async function refused(what, kind, call, wanted = {}) {
  try {
    await call();
  } catch (error) {
    const seen = Object.fromEntries(Object.keys(wanted).map((name) => [name, error[name]]));
    check(what, error instanceof kind && JSON.stringify(seen) === JSON.stringify(wanted), error);
    return;
  }
  check(what, false, "nothing was refused");
}

async function models() {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  check("models are listed", names.join() === "doors,asker,careful,changer,echo,stumbler", names);
  check("a model is shown", (await client.models.retrieve("echo")).object === "model");
}

async function completions() {
  const completion = await ask([user("hello")]);
  check("an answer", text(completion) === "1: hello", completion);
  const history = [user("hello"), completion.choices[0].message, user("again")];
  check("a conversation", text(await ask(history)) === "2: again");
  const stream = await ask([user("shout hey")], { stream: true, stream_options: { include_usage: true } });
  let content = "";
  let last;
  for await (const chunk of stream) {
    content += chunk.choices[0]?.delta.content ?? "";
    last = chunk;
  }
  check("a stream", content === "One moment.\n\nSHOUT HEY!", content);
  check("with usage", last.choices.length === 0 && last.usage.total_tokens === 0, last);
  const helped = client.chat.completions.stream({ model: "echo", messages: [user("hello")] });
  check("a stream with its helper", (await helped.finalContent()) === "1: hello");
}

async function errors() {
  const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: "not-the-token-of-it" });
  await refused("a wrong key", OpenAI.AuthenticationError, () => stranger.models.list(), { code: "invalid_api_key" });
  await refused("an unknown model", OpenAI.NotFoundError, () => ask([user("hi")], { model: "nobody" }), {
    code: "model_not_found",
    param: "model",
  });
  await refused("tools of the client", OpenAI.BadRequestError, () =>
    ask([user("hi")], { tools: [{ type: "function", function: { name: "f" } }] }), { param: "tools" });
  const before = (await instances()).length;
  await refused("a turn that fails", OpenAI.APIError, () => ask([user("overload")]), { status: 502, code: "E_MODEL_STATUS" });
  check("is not begun again", (await instances()).length === before + 1);
  let seen = "";
  await refused("a turn that fails while it is streamed", OpenAI.APIError, async () => {
    for await (const chunk of await ask([user("half")], { stream: true })) seen += chunk.choices[0].delta.content ?? "";
  }, { code: "E_MODEL_STATUS" });
  check("what was said before is there", seen === "Half of it.", seen);
}

async function twenty() {
  const before = (await instances()).length;
  const talks = await Promise.all([...Array(20).keys()].map(async (number) => {
    const history = [];
    for (let turn = 1; turn <= 3; turn += 1) {
      history.push(user(`${number}.${turn}`));
      let content = "";
      for await (const chunk of await ask(history, { stream: true })) content += chunk.choices[0].delta.content ?? "";
      history.push({ role: "assistant", content });
    }
    return history.map((message) => message.content).join("|");
  }));
  const wrong = talks.filter((talk, number) =>
    talk !== [1, 2, 3].map((turn) => `${number}.${turn}|${turn}: ${number}.${turn}`).join("|"));
  check("twenty streams at once, three turns each, do not mix", wrong.length === 0, wrong);
  check("they are twenty conversations", (await instances()).length === before + 20);
}

// Takes the first request to the server and loses the answer; passes the next on.
async function retries() {
  const counts = [];
  const proxy = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const retry = request.headers["x-stainless-retry-count"];
    counts.push(retry);
    const headers = { "content-type": "application/json", authorization: request.headers.authorization, "x-stainless-retry-count": retry };
    const answer = await fetch(url + request.url, { method: "POST", headers, body });
    const json = await answer.text();
    if (counts.length === 1) request.socket.destroy();
    else response.writeHead(answer.status, { "content-type": "application/json" }).end(json);
  });
  await new Promise((listening) => proxy.listen(0, "127.0.0.1", listening));
  const through = new OpenAI({ baseURL: `http://127.0.0.1:${proxy.address().port}/v1`, apiKey: token });
  const before = (await instances()).length;
  const completion = await through.chat.completions.create({ model: "echo", messages: [user("lost in Node")] });
  check("the client tried again", counts.join() === "0,1", counts);
  check("and got its answer", text(completion) === "1: lost in Node", completion);
  check("a retry begins no second turn", (await instances()).length === before + 1);
  proxy.closeAllConnections();
  proxy.close();
  const key = { idempotencyKey: "node-7", headers: { "Idempotency-Key": "node-7" } };
  const params = { model: "echo", messages: [user("once")] };
  const ids = [await client.chat.completions.create(params, key), await client.chat.completions.create(params, key)].map((c) => c.id);
  check("the same key is the same request", ids[0] === ids[1], ids);
}

async function responses() {
  const first = await client.responses.create({ model: "echo", input: "one" });
  check("a response", first.output_text === "1: one" && first.status === "completed", first);
  const second = await client.responses.create({ model: "echo", input: "two", previous_response_id: first.id });
  check("previous_response_id", second.output_text === "2: two", second.output_text);
  check("a response is found again", (await client.responses.retrieve(second.id)).output_text === "2: two");
  const stream = client.responses.stream({ model: "echo", input: "shout hey" });
  const kinds = new Set();
  for await (const event of stream) kinds.add(event.type);
  const final = await stream.finalResponse();
  check("a streamed response", final.output.map((item) => item.content[0].text).join("|") === "One moment.|SHOUT HEY!", final);
  check("with its events", kinds.has("response.output_text.delta") && kinds.has("response.completed"), kinds);
  const failed = await client.responses.create({ model: "echo", input: "half", stream: true });
  let last;
  for await (const event of failed) last = event;
  check("a response that fails while it is streamed", last.type === "response.failed" && last.response.status === "failed", last);
}

console.log(`openai ${JSON.parse(readFileSync(`${folder}/node_modules/openai/package.json`)).version}`);
for (const part of [models, completions, errors, twenty, retries, responses]) await part();

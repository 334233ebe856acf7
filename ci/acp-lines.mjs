// Holds every line of an agent against the published schema of the Agent Client Protocol: as a message, and as what its method says.
// acp-lines.mjs FOLDER-WITH-NODE-MODULES LINES-OF-THE-CLIENT LINES-OF-THE-AGENT
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [folder, said, told] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const { default: Ajv } = require("ajv/dist/2020.js");
const schema = require("@agentclientprotocol/sdk/schema/schema.json");

const ajv = new Ajv({ strict: false, validateFormats: false, discriminator: false });
ajv.addSchema(schema, "acp");
const agent = schema.anyOf.findIndex((side) => side.title === "Agent");
const message = ajv.getSchema(`acp#/anyOf/${agent}`);

// What a method takes and gives: by its name, and whether it is a request, a response or a notification.
const shapes = new Map();
for (const [name, shape] of Object.entries(schema.$defs)) {
  const kind = ["Request", "Response", "Notification"].find((kind) => name.endsWith(kind));
  if (shape["x-method"] && kind) shapes.set(`${shape["x-method"]} ${kind}`, ajv.getSchema(`acp#/$defs/${name}`));
}

const lines = (file) => readFileSync(file, "utf8").split("\n").filter((line) => line !== "");
// Several agents may have written the same ids, one after another: each of them begins with the answer to `initialize`.
const asked = [];
for (const line of lines(said)) {
  const { id, method } = JSON.parse(line);
  if (method === "initialize") asked.push(new Map());
  if (method && id !== undefined) asked.at(-1).set(JSON.stringify(id), method);
}

let faults = 0;
let process_ = -1;
const seen = new Map();
for (const line of lines(told)) {
  const fault = (what) => {
    faults += 1;
    console.error(`${what}: ${line}`);
  };
  let it;
  try {
    it = JSON.parse(line);
  } catch {
    fault("not JSON");
    continue;
  }
  if (it.result?.protocolVersion !== undefined) process_ += 1;
  if (!message(it)) fault(`not a message: ${ajv.errorsText(message.errors)}`);
  const [method, kind, body] = it.method === undefined
    ? [asked[process_]?.get(JSON.stringify(it.id)), "Response", it.result]
    : [it.method, it.id === undefined ? "Notification" : "Request", it.params];
  if (it.error !== undefined) {
    seen.set(`${method} Error`, (seen.get(`${method} Error`) ?? 0) + 1);
    continue;
  }
  const shape = shapes.get(`${method} ${kind}`);
  if (!shape) fault(`no shape for ${method} ${kind}`);
  else if (!shape(body)) fault(`${method} ${kind}: ${ajv.errorsText(shape.errors)}`);
  const label = method === "session/update" ? `${method} ${body.update.sessionUpdate}` : `${method} ${kind}`;
  seen.set(label, (seen.get(label) ?? 0) + 1);
}
for (const [label, count] of [...seen].sort()) console.log(`${String(count).padStart(4)} ${label}`);
const wanted = [
  "initialize Response", "session/new Response", "session/load Response", "session/resume Response", "session/prompt Response",
  "session/prompt Error", "session/request_permission Request", "session/update agent_message_chunk",
  "session/update user_message_chunk", "session/update tool_call", "session/update tool_call_update", "session/update plan",
];
for (const label of wanted.filter((label) => !seen.has(label))) {
  faults += 1;
  console.error(`never seen: ${label}`);
}
if (faults > 0) process.exit(1);
console.log(`${lines(told).length} lines, all as the schema wants them`);

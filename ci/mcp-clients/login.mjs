// Logins at a protected MCP server, in a real browser: node login.mjs TOOLS GDN PROJECT

import { spawn } from "node:child_process";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { holds, launch } from "../studio-clients/browser.mjs";
import { LIFE, start } from "./protected.mjs";

const [, , folder, gdn, project] = process.argv;
const servers = await start(folder);
const browser = await launch();
const state = `${project}/state`;

writeFileSync(`${project}/goondan.yaml`, `apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: m, options: {default: {text: "I do without."}}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec: {mcp: {url: "${servers.resource}"}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, permissions: {default: allow}, tools: [{ref: Tool/notes}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: s}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
`);

/** Runs gdn. `page` is told of the address of the page to log in on. */
function run(args, page) {
  const env = { ...process.env, GOONDAN_STATE_ROOT: state, GOONDAN_TRUST: "1", NO_COLOR: "1" };
  const child = spawn(gdn, args, { cwd: project, env, stdio: ["ignore", "pipe", "pipe"] });
  const told = { stdout: "", stderr: "" };
  let visited = !page;
  child.stdout.on("data", (text) => (told.stdout += text));
  child.stderr.on("data", (text) => {
    told.stderr += text;
    const address = /^\s*(https?:\/\/\S+)\s*$/m.exec(told.stderr);
    if (address && !visited) {
      visited = true;
      page(address[1]).catch((error) => {
        console.error(error);
        child.kill();
      });
    }
  });
  return new Promise((done) => child.on("close", (code) => done({ code, ...told, all: told.stdout + told.stderr })));
}

const who = () => run(["tool", "call", "notes__who", "--args", "{}"]);
const login = (page) => run(["mcp", "login", "notes", "--no-browser"], page);
const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

/** A person who logs in as `user` and agrees; or who does not. */
function person(user, agrees = true) {
  return async (address) => {
    const context = await browser.newContext();
    // The pages want a font from elsewhere.
    await context.route((to) => to.hostname !== "127.0.0.1", (route) => route.abort());
    const page = await context.newPage();
    await page.goto(address, { waitUntil: "domcontentloaded" });
    await page.fill("input[name=login]", user);
    await page.fill("input[name=password]", "not looked at");
    await page.click("button[type=submit]");
    await page.waitForSelector("input[name=prompt][value=consent]", { state: "attached" });
    await (agrees ? page.click("button[type=submit]") : page.click("a[href$=abort]"));
    await page.waitForURL(/\/callback\?/);
    await page.getByText("You can close this page").waitFor();
    await context.close();
  };
}

function says(outcome, code, ...words) {
  const is = outcome.code === code && words.every((word) => outcome.all.includes(word));
  if (!is) throw new Error(`wanted ${code} and ${words}, got:\n${JSON.stringify(outcome, null, 2)}\n${servers.seen.grants.join("\n")}`);
  console.log(`  ok  ${words.join(", ")}`);
}

const tokenFiles = () => readdirSync(`${state}/mcp/tokens`).filter((name) => name.endsWith(".json"));

async function withoutLogin() {
  console.log("nobody is logged in, and there is no browser");
  says(await who(), 1, "requires a login", "gdn mcp login notes");
  says(await run(["mcp", "list", "--connect"]), 1, "requires a login", "gdn mcp login notes");
  says(await run(["validate", "--connect"]), 0, "W_MCP_CATALOG", "gdn mcp login notes");
  says(await run(["run", "--input", "hi"]), 0, "I do without.");
}

async function loggedIn() {
  console.log("a person logs in");
  says(await login(person("jo", false)), 1, "access_denied");
  holds(servers.seen.grants.length === 0, "who refuses gets nothing");
  const outcome = await login(person("jo"));
  says(outcome, 0, "Logged in");
  const [file] = tokenFiles();
  holds((statSync(`${state}/mcp/tokens/${file}`).mode & 0o777) === 0o600, "the token is for its owner alone");
  says(await who(), 0, "notes of jo");
  const kept = readFileSync(`${state}/mcp/tokens/${file}`, "utf8");
  holds([...servers.seen.tokens].every((token) => !outcome.all.includes(token)), "it is not printed");
  holds([...servers.seen.tokens].some((token) => kept.includes(token)), "it is kept");
}

async function renewed() {
  console.log("a token that has run out");
  const renewals = () => servers.seen.grants.filter((grant) => grant === "refresh_token").length;
  await sleep(LIFE + 1);
  const before = renewals();
  const list = () => run(["mcp", "list", "--connect"]);
  const outcomes = await Promise.all(Array.from({ length: 6 }, list));
  outcomes.forEach((outcome) => says(outcome, 0, "notes__who"));
  holds(renewals() > before, `it is renewed (${renewals() - before} times for six processes at once)`);
  holds(!servers.seen.grants.some((grant) => grant === "revoked" || grant.startsWith("invalid")), "and nobody renews with a token that was used");
}

async function wider() {
  console.log("a tool that wants more than was granted");
  const write = () => run(["tool", "call", "notes__write", "--args", "{}"]);
  says(await write(), 1, "E_MCP_AUTH", "gdn mcp login notes");
  says(await login(person("jo")), 0, "Logged in");
  says(await write(), 0, "written");
  says(await who(), 0, "notes of jo");
}

async function takenAway() {
  console.log("a login that the server takes away");
  const grants = new Set();
  for (const token of servers.seen.tokens) grants.add((await servers.provider.AccessToken.find(token))?.grantId);
  for (const grant of grants) {
    if (!grant) continue;
    await servers.provider.RefreshToken.revokeByGrantId(grant);
    await servers.provider.AccessToken.revokeByGrantId(grant);
  }
  says(await who(), 1, "E_MCP_AUTH", "gdn mcp login notes");
  says(await login(person("max")), 0, "Logged in");
  says(await who(), 0, "notes of max");
}

async function loggedOut() {
  console.log("a logout");
  says(await run(["mcp", "logout", "notes"]), 0, "Logged out of");
  holds(tokenFiles().length === 0, "the token is gone");
  says(await run(["mcp", "logout", "notes"]), 0, "Was not logged in");
  says(await who(), 1, "E_MCP_AUTH", "gdn mcp login notes");
}

try {
  await withoutLogin();
  await loggedIn();
  await renewed();
  await wider();
  await takenAway();
  await loggedOut();
  console.log("logins: as they should be");
} finally {
  await browser.close();
  servers.end();
}

// Generates updates of Slack, Telegram, Discord and GitHub from their published types, as JSON lines.
// Usage: node ci/platform-updates.mjs FOLDER COUNT SEED. FOLDER contains node_modules; the files are FOLDER/PLATFORM.jsonl.
// Each line has `body`, `event` (the header of GitHub) and `names`: a log line must contain one of them.
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const folder = resolve(process.argv[2]);
const count = Number(process.argv[3]);
const seed = Number(process.argv[4]);
const require = createRequire(join(folder, "package.json"));
const ts = require("typescript");

/** Returns a function that returns an integer from 0 to below its argument. The seed determines all of them. */
function random(state) {
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

// A shape is one of {kind: "value", value}, {kind: "string" | "number" | "any", format}, {kind: "array", item},
// {kind: "tuple", items}, {kind: "union", members} and {kind: "object", properties, rest}.

/** Returns the shapes of TypeScript types. Properties are computed when they are needed, because types contain each other. */
function typescriptShapes(checker) {
  const known = new Map();
  const property = (symbol) => ({
    name: symbol.name,
    isOptional: (symbol.flags & ts.SymbolFlags.Optional) !== 0,
    shape: () => shape(checker.getTypeOfSymbol(symbol)),
  });
  const object = (type) => ({
    kind: "object",
    properties: checker.getPropertiesOfType(type).map(property),
    rest: checker.getIndexInfosOfType(type).map((info) => () => shape(info.type))[0],
  });
  const read = (type) => {
    const is = (flags) => (type.flags & flags) !== 0;
    if (type.isUnion()) {
      // Optional properties have `undefined` as a member. An intersection without properties has no values.
      const isEmpty = (member) => member.isIntersection() && checker.getPropertiesOfType(member).length === 0;
      const members = type.types.filter((member) => !(member.flags & ts.TypeFlags.Undefined) && !isEmpty(member));
      return { kind: "union", members: members.map((member) => () => shape(member)) };
    }
    if (is(ts.TypeFlags.StringLiteral | ts.TypeFlags.NumberLiteral)) return { kind: "value", value: type.value };
    if (is(ts.TypeFlags.BooleanLiteral)) return { kind: "value", value: type.intrinsicName === "true" };
    if (is(ts.TypeFlags.Null)) return { kind: "value", value: null };
    if (is(ts.TypeFlags.Undefined | ts.TypeFlags.Never)) return { kind: "value", value: undefined };
    if (is(ts.TypeFlags.StringLike)) return { kind: "string" };
    if (is(ts.TypeFlags.NumberLike | ts.TypeFlags.BigIntLike)) return { kind: "number" };
    if (checker.isTupleType(type)) return { kind: "tuple", items: checker.getTypeArguments(type).map((item) => () => shape(item)) };
    if (checker.isArrayType(type)) return { kind: "array", item: () => shape(checker.getTypeArguments(type)[0]) };
    return is(ts.TypeFlags.Object | ts.TypeFlags.Intersection) ? object(type) : { kind: "any" };
  };
  const shape = (type) => {
    if (!known.has(type)) known.set(type, read(type));
    return known.get(type);
  };
  return shape;
}

/** Returns the shapes of a JSON schema. */
function schemaShapes(root) {
  const known = new Map();
  const resolved = (schema) => (schema.$ref ? resolved(root.definitions[schema.$ref.split("/").at(-1)]) : schema);
  const fields = (schema) => {
    const merged = { properties: {}, required: [], rest: undefined };
    for (const part of [schema, ...(schema.allOf ?? [])].map(resolved)) {
      const own = part === schema ? { ...part, rest: part.additionalProperties } : fields(part);
      Object.assign(merged.properties, own.properties ?? {});
      merged.required.push(...(own.required ?? []));
      if (typeof own.rest === "object") merged.rest = own.rest;
    }
    return merged;
  };
  const object = (schema) => {
    const { properties, required, rest } = fields(schema);
    const property = ([name, value]) => ({ name, isOptional: !required.includes(name), shape: () => shape(value) });
    return { kind: "object", properties: Object.entries(properties).map(property), rest: rest && (() => shape(rest)) };
  };
  const union = (members) => ({ kind: "union", members: members.map((member) => () => shape(member)) });
  const read = (schema) => {
    const members = schema.oneOf ?? schema.anyOf;
    if (members) return union(members.map((member) => ({ ...member, allOf: schema.properties && [schema] })));
    if (schema.enum) return { kind: "union", members: schema.enum.map((value) => () => ({ kind: "value", value })) };
    if ("const" in schema) return { kind: "value", value: schema.const };
    if (Array.isArray(schema.type)) return union(schema.type.map((type) => ({ ...schema, type })));
    if (schema.properties || schema.allOf || schema.type === "object") return object(schema);
    if (schema.type === "array") return { kind: "array", item: () => shape(schema.items ?? {}) };
    if (schema.type === "string") return { kind: "string", format: schema.format };
    if (schema.type === "integer" || schema.type === "number") return { kind: "number" };
    if (schema.type === "boolean") return { kind: "union", members: [true, false].map((value) => () => ({ kind: "value", value })) };
    return { kind: "value", value: null };
  };
  const shape = (schema) => {
    const key = schema.$ref ?? schema;
    if (!known.has(key)) known.set(key, read(resolved(schema)));
    return known.get(key);
  };
  return shape;
}

const TEXTS = [
  "", " ", "hello", "why is the build red?", "/ask me", "\u0000", "\ud83d", "cut \udc00 here", "😀 our page", "\u202egnp.exe", "```\n<!-- x -->",
  "<@U1> &lt;b&gt; &amp; <https://example.com|here>", "line one\nline two\r\n\ttabbed", "/approve 0123456789abcdef", "gdn:allow:0123456789abcdef",
  "\ufeffmark", "é".repeat(5000), "null", "-1", "{\"type\": \"event_callback\"}",
];
const NUMBERS = [0, 1, 2, 7, 42, -1, -100, 1.5, 2 ** 31, 2 ** 53, -(2 ** 53), 2 ** 63, 2 ** 64, 1e308, -1e-308];
const IDS = ["7", "77", "U1", "C1", "100000000000000001"];
/** Depth below which objects have no optional properties, and arrays no items. */
const MAX_DEPTH = 7;

/** Makes values of shapes. Takes the members of each union, and the optional properties of each object, in turn. */
class Maker {
  constructor(pick) {
    this.pick = pick;
    this.turns = new Map();
  }

  turn(shape) {
    const turn = this.turns.get(shape) ?? 0;
    this.turns.set(shape, turn + 1);
    return turn;
  }

  one(list) {
    return list[this.pick(list.length)];
  }

  make(shape, name = "", depth = 0) {
    switch (shape.kind) {
      case "value":
        return shape.value;
      case "string":
        return this.string(name, shape.format);
      case "number":
        return this.pick(3) === 0 ? this.one(NUMBERS) : 1 + this.pick(1000);
      case "any":
        return this.one([null, true, "x", 1e300, [], {}, { a: [{ b: "\ud83d" }] }]);
      case "array":
        return Array.from({ length: depth > MAX_DEPTH ? 0 : this.pick(3) }, () => this.make(shape.item(), name, depth + 1) ?? null);
      case "tuple":
        return shape.items.map((item) => this.make(item(), name, depth + 1) ?? null);
      case "union":
        return this.make(this.member(shape, depth), name, depth);
      default:
        return this.object(shape, depth);
    }
  }

  /** Deep values take the first member without a structure, so that they end. */
  member(shape, depth) {
    const next = shape.members[this.turn(shape) % shape.members.length]();
    if (depth <= MAX_DEPTH) return next;
    const isPlain = (member) => ["value", "string", "number"].includes(member.kind);
    return shape.members.map((member) => member()).find(isPlain) ?? next;
  }

  string(name, format) {
    if (format === "uri" || /url$/.test(name)) return this.one(["https://example.com/file", "", "no url"]);
    if (format === "date-time") return "2026-01-02T03:04:05Z";
    const isId = /(^|_)(id|user|channel|team)$/.test(name);
    return this.pick(10) < 7 ? (isId ? this.one(IDS) : `text ${this.pick(1000)}`) : this.one(TEXTS);
  }

  object(shape, depth) {
    const value = {};
    const turn = depth > MAX_DEPTH ? 0 : this.turn(shape);
    const optional = shape.properties.filter((property) => property.isOptional);
    // None, each one in turn, and some of them.
    const wanted = [() => false, (property) => property === optional[(turn >> 2) % optional.length], () => this.pick(6) === 0, () => this.pick(2) === 0];
    const isWanted = (turn >> 2) % 2 === 0 && turn % 4 === 3 ? wanted[3] : wanted[Math.min(turn % 4, 2)];
    for (const property of shape.properties) {
      // JSON objects have no methods.
      if (property.isOptional ? !isWanted(property) : depth > 3 * MAX_DEPTH) continue;
      const made = this.make(property.shape(), property.name, depth + 1);
      if (made !== undefined) value[property.name] = made;
    }
    if (shape.rest && depth <= MAX_DEPTH && shape.properties.length === 0) {
      for (const id of IDS.slice(0, this.pick(3))) value[id] = this.make(shape.rest(), id, depth + 1) ?? null;
    }
    return value;
  }
}

const TYPES = `
import type { Update } from "@grammyjs/types";
import type { SlackEvent } from "@slack/types";
import type * as bolt from "@slack/bolt";
import type { APIInteraction } from "discord-api-types/v10";
export type Telegram = Update;
export type SlackEnvelope = bolt.EnvelopedEvent<SlackEvent>;
export type SlackInteraction = bolt.SlackAction | bolt.SlackShortcut | bolt.SlackViewAction | bolt.SlackOptions;
export type SlackCommand = bolt.SlashCommand;
export type Discord = APIInteraction;
`;

/** Returns a function that returns the shape of an exported type of TYPES. */
function exportedShapes() {
  const file = join(folder, "platform-types.ts");
  writeFileSync(file, TYPES);
  const options = { strict: true, skipLibCheck: true, noEmit: true, types: [], module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext };
  const program = ts.createProgram([file], options);
  const source = program.getSourceFile(file);
  const errors = program.getSemanticDiagnostics(source);
  if (errors.length > 0) throw new Error(ts.flattenDiagnosticMessageText(errors[0].messageText, "\n"));
  const checker = program.getTypeChecker();
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(source));
  const shape = typescriptShapes(checker);
  return (name) => shape(checker.getDeclaredTypeOfSymbol(exported.find((symbol) => symbol.name === name)));
}

/** Each function returns a function that makes the update with a number. */
const PLATFORMS = {
  telegram(maker, exported) {
    const kinds = exported("Telegram").properties.filter((property) => property.isOptional);
    const message = kinds.find((kind) => kind.name === "message");
    return (number) => {
      const kind = number % 2 === 0 ? message : kinds[(number >> 1) % kinds.length];
      const content = maker.make(kind.shape(), kind.name, 1);
      if (kind === message && number % 4 === 0) content.from.is_bot = false;
      // Albums wait for further messages, so few updates are part of one.
      if (content.media_group_id !== undefined && number % 200 !== 0) delete content.media_group_id;
      return { names: [kind.name], body: JSON.stringify({ update_id: 1000 + number, [kind.name]: content }) };
    };
  },
  slack(maker, exported) {
    const [envelope, interaction, command] = ["SlackEnvelope", "SlackInteraction", "SlackCommand"].map(exported);
    const messages = envelope.properties.find((property) => property.name === "event").shape();
    const written = messages.members.map((member) => member()).filter(isWritten);
    return (number) => {
      if (number % 20 === 1) return { names: ["the slash command"], body: new URLSearchParams(maker.make(command)).toString() };
      if (number % 20 === 2) {
        const payload = inOneWorkspace(maker.make(interaction));
        return { names: [payload.type], body: new URLSearchParams({ payload: JSON.stringify(payload) }).toString() };
      }
      const payload = maker.make(envelope);
      if (number % 2 === 0) payload.event = maker.make(written[(number >> 1) % written.length], "event", 1);
      const event = payload.event;
      if ("ts" in event) event.ts = `1700000000.${String(number).padStart(6, "0")}`;
      inOneWorkspace(payload);
      return { names: event.type === "message" ? ["message"] : [event.type, "a message"], body: JSON.stringify(payload) };
    };
  },
  discord(maker, exported) {
    const interaction = exported("Discord");
    return (number) => {
      const body = maker.make(interaction);
      body.id = String(number);
      if (number % 10 !== 0) {
        body.token = "aW50-_x";
        body.application_id = "2";
        if (body.member === undefined) body.user ??= { id: "7", username: "ada" };
      }
      return { names: [`type ${body.type}`], body: JSON.stringify(body) };
    };
  },
  github(maker) {
    const root = JSON.parse(readFileSync(require.resolve("@octokit/webhooks-schemas"), "utf8"));
    const shape = schemaShapes(root);
    const names = root.oneOf.map((event) => event.$ref.split("/").at(-1));
    const wanted = names.filter((name) => /^(issues|issue_comment|pull_request|push)(_event|\$event)$/.test(name));
    return (number) => {
      const list = number % 2 === 0 ? wanted : names;
      const name = list[(number >> 1) % list.length];
      const event = name.replace(/(_event|\$event)$/, "");
      const body = maker.make(shape({ $ref: name }), event);
      if (body.repository && number % 10 !== 0) body.repository.full_name = "octo/hello";
      return { event, names: [event, "a comment of gdn"], body: JSON.stringify(body) };
    };
  },
};

/** Replaces the workspace ids of Slack, because updates of other workspaces are ignored. */
function inOneWorkspace(value) {
  for (const [name, inner] of Object.entries(value ?? {})) {
    if (/^(team|team_id|user_team|source_team)$/.test(name) && typeof inner === "string") value[name] = "T1";
    else if (name === "team" && inner?.id) inner.id = "T1";
    else if (typeof inner === "object") inOneWorkspace(inner);
  }
  return value;
}

/** Returns true for the messages of Slack that people write. */
function isWritten(shape) {
  const value = (name) => shape.properties?.find((property) => property.name === name)?.shape().value;
  const isMessage = value("type") === "message" && [undefined, "me_message", "file_share", "thread_broadcast"].includes(value("subtype"));
  return isMessage || value("type") === "app_mention";
}

const exported = exportedShapes();
for (const [name, platform] of Object.entries(PLATFORMS)) {
  const update = platform(new Maker(random(seed)), exported);
  const lines = Array.from({ length: count }, (_, number) => JSON.stringify(update(number)));
  writeFileSync(join(folder, `${name}.jsonl`), lines.join("\n") + "\n");
}

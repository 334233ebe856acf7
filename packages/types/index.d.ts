/**
 * What gdn gives to tools and extensions in JavaScript and TypeScript. The pages docs/hosts.md and docs/extensions.md of gdn
 * explain it. A test of gdn compares the members of these interfaces with those that are there when a module runs.
 */

/** What travels as JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** A JSON object. */
export type JsonObject = { [name: string]: Json };

/** Writes log lines: a text, and fields behind it. */
export interface Logger {
  debug(...args: unknown[]): void;
  trace(...args: unknown[]): void;
  info(...args: unknown[]): void;
  log(...args: unknown[]): void;
  dir(...args: unknown[]): void;
  table(...args: unknown[]): void;
  warn(...args: unknown[]): void;
  error(...args: unknown[]): void;
  assert(holds: unknown, ...args: unknown[]): void;
}

/** What a message says. */
export interface MessageData {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: Part[];
}

/** A part of a message: `text`, `tool-call`, `tool-result` or another one. */
export interface Part {
  type: string;
  [field: string]: any;
}

/** A message of a conversation. */
export interface Message {
  id: string;
  data: MessageData;
  metadata: JsonObject;
  createdAt: Date;
  source: { type: string; [field: string]: any };
}

/** A message before it is one: its text may stand for its parts, and what is left out is filled in. */
export interface NewMessage {
  id?: string;
  data: { role: MessageData['role']; content: string | (string | Part)[] };
  metadata?: JsonObject;
  createdAt?: Date | string;
  source?: unknown;
}

/** A change to a conversation, as an extension makes it. */
export type MessageEvent =
  | { type: 'append'; message: NewMessage | Message }
  | { type: 'replace'; targetId: string; message: NewMessage | Message }
  | { type: 'remove'; targetId: string }
  | { type: 'truncate' };

// ---- tools ----

/** What an export may need. */
export type Permission = 'read' | 'write' | 'execute' | 'network';

/** A text, or a text with more to say, for another agent. */
export type AgentInput = string | { input?: unknown; type?: string; instanceKey?: string; metadata?: JsonObject };

/** What a question to another agent brings back. */
export interface AgentAnswer {
  eventId: string;
  target: string;
  response?: Json;
  correlationId: string;
  accepted: boolean;
  async: boolean;
}

/** The other agents of the swarm, as a tool reaches them. */
export interface AgentRuntime {
  request(target: string, event: AgentInput, options?: { timeoutMs?: number; async?: boolean }): Promise<AgentAnswer>;
  send(target: string, event: AgentInput): Promise<{ eventId: string; target: string; accepted: boolean }>;
  spawn(
    target: string,
    options?: { instanceKey?: string; cwd?: string },
  ): Promise<{ target: string; instanceKey: string; spawned: boolean; cwd?: string }>;
  list(options?: { includeAll?: boolean }): Promise<{ agents: AgentInstance[] }>;
  catalog(): Promise<AgentCatalog>;
}

/** An instance as others see it. */
export interface AgentInstance {
  target: string;
  instanceKey: string;
  ownerAgent: string;
  ownerInstanceKey: string;
  createdAt: string;
  cwd?: string;
}

/** The agents of a swarm. */
export interface AgentCatalog {
  swarmName: string;
  entryAgent: string;
  selfAgent: string;
  availableAgents: string[];
  callableAgents: string[];
}

/** A result with more than its value. */
export interface Output {
  output: unknown;
  title?: string;
  metadata?: JsonObject;
  attachments?: { mediaType: string; data: string; name?: string }[];
}

/** What a handler of a tool knows about its call, and what it may do. */
export interface ToolContext<Config = any> {
  readonly agentName: string;
  readonly instanceKey: string;
  readonly turnId: string;
  readonly traceId: string;
  readonly toolCallId: string;
  readonly message: Message;
  readonly workdir: string;
  readonly projectDir: string;
  readonly permissions: Permission[];
  readonly config: Config;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly runtime: AgentRuntime;
  progress(title: string, metadata?: JsonObject): void;
  progress(progress: { title: string; metadata?: JsonObject }): void;
  output(output: unknown, more?: Omit<Output, 'output'>): Output;
}

/** A handler: it returns JSON, or what `ctx.output` makes. */
export type Handler<Input = any, Config = any> = (ctx: ToolContext<Config>, input: Input) => unknown;

/** What the module of a tool exports as `handlers`. */
export type Handlers = Record<string, Handler>;

// ---- extensions ----

/** What the module of an extension exports as `register`. */
export type Register<Config = any> = (api: ExtensionApi<Config>, config: Config) => void | Promise<void>;

/** What an extension registers with, and for which conversation. */
export interface ExtensionApi<Config = any, State = any> {
  readonly agentName: string;
  readonly instanceKey: string;
  readonly workdir: string;
  readonly projectDir: string;
  readonly config: Config;
  readonly logger: Logger;
  readonly pipeline: Pipeline;
  readonly tools: ExtensionTools;
  readonly state: ExtensionState<State>;
  readonly events: ExtensionEvents;
}

/** Where layers are registered. */
export interface Pipeline {
  register<K extends keyof Layers>(kind: K, layer: Layers[K], options?: { priority?: number }): void;
}

/** The three kinds of layers. */
export interface Layers {
  turn: Layer<TurnLayerContext, TurnResult>;
  step: Layer<StepLayerContext, StepResult>;
  toolCall: Layer<ToolCallLayerContext, ToolCallResult>;
}

/** A layer: it returns what `next` gave to it, changed or not, or a result of its own. */
export type Layer<Context, Result> = (ctx: Context, next: () => Promise<Result>) => Result | Promise<Result>;

/** Where tools are offered. */
export interface ExtensionTools {
  register<Input = any>(
    item: { name: string; description?: string; parameters?: object },
    handler: Handler<Input>,
  ): void;
}

/** What an extension keeps for a conversation: `null` at first. */
export interface ExtensionState<State = any> {
  get(): Promise<State | null>;
  set(value: State): Promise<void>;
}

/** Events of the runtime in this conversation, and events between its extensions. */
export interface ExtensionEvents {
  on<Name extends RuntimeEvent['type']>(name: Name, handler: (event: Extract<RuntimeEvent, { type: Name }>) => void): () => void;
  on(name: string, handler: (...args: any[]) => void): () => void;
  emit(name: string, ...args: unknown[]): void;
}

/** What all events of the runtime have. */
interface RuntimeEventBase {
  /** ISO 8601. */
  timestamp: string;
  agentName: string;
  instanceKey: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
}

/** What a model has used. */
export interface TokenUsage {
  promptTokens: number;
  completionTokens: number;
  totalTokens: number;
  cachedTokens?: number;
}

/** The events of turns, steps and tool calls. docs/events.md has more, and all fields. */
export type RuntimeEvent = RuntimeEventBase & { turnId: string } & (
  | { type: 'turn.started'; eventId: string; eventType: string }
  | { type: 'turn.completed'; stepCount: number; duration: number; finishReason: string; tokenUsage?: TokenUsage }
  | { type: 'turn.failed'; duration: number; errorMessage: string; errorCode?: string; tokenUsage?: TokenUsage }
  | { type: 'step.started'; stepId: string; stepIndex: number }
  | { type: 'step.completed'; stepId: string; stepIndex: number; toolCallCount: number; duration: number; tokenUsage?: TokenUsage }
  | { type: 'step.failed'; stepId: string; stepIndex: number; duration: number; errorMessage: string; errorCode?: string }
  | { type: 'tool.called'; stepId: string; toolCallId: string; toolName: string; arguments?: unknown }
  | { type: 'tool.completed'; stepId: string; toolCallId: string; toolName: string; status: 'ok' | 'error'; duration: number; title?: string; metadata?: JsonObject; output?: unknown; error?: { code: string; message: string } }
  | { type: 'tool.progress'; toolCallId: string; toolName: string; title: string; metadata: JsonObject }
);

/** What all layers have. */
export interface LayerContext {
  readonly agentName: string;
  readonly instanceKey: string;
  readonly turnId: string;
  readonly traceId: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  metadata: JsonObject;
}

/** What layers around turns and steps have besides. */
export interface ConversationLayerContext extends LayerContext {
  readonly inputEvent: InputEvent;
  readonly conversationState: ConversationState;
  readonly agents: LayerAgents;
  readonly runtime: Runtime;
  emitMessageEvent(event: MessageEvent): void;
}

/** What a layer around a turn sees. */
export interface TurnLayerContext extends ConversationLayerContext {
  next(): Promise<TurnResult>;
}

/** What a layer around a step sees. */
export interface StepLayerContext extends ConversationLayerContext {
  readonly turn: Turn;
  readonly stepIndex: number;
  readonly stepId: string;
  toolCatalog: CatalogItem[];
  next(): Promise<StepResult>;
}

/** What a layer around a tool call sees. */
export interface ToolCallLayerContext extends LayerContext {
  readonly stepIndex: number;
  readonly toolName: string;
  readonly toolCallId: string;
  args: any;
  next(): Promise<ToolCallResult>;
}

/** The turn of a step. */
export interface Turn {
  id: string;
  agentName: string;
  instanceKey: string;
  inputEvent: InputEvent;
  metadata: JsonObject;
}

/** What a turn is about. */
export interface InputEvent {
  id: string;
  type: string;
  createdAt: Date;
  traceId: string;
  source: { kind: 'agent' | 'connector'; name: string };
  input: string;
  instanceKey: string;
  metadata: JsonObject;
  replyTo?: { target: string; correlationId: string };
}

/** A tool that a model is offered. */
export interface CatalogItem {
  name: string;
  description?: string;
  parameters?: any;
}

/** The conversation of a turn. */
export interface ConversationState {
  readonly baseMessages: Message[];
  readonly events: MessageEvent[];
  readonly nextMessages: Message[];
  toLlmMessages(): MessageData[];
}

/** The other agents of the swarm, as a layer reaches them. */
export interface LayerAgents {
  request(what: LayerQuestion): Promise<{ target: string; response: string; correlationId: string; accepted: boolean; async: boolean }>;
  send(what: Omit<LayerQuestion, 'timeoutMs' | 'async'>): Promise<{ accepted: boolean }>;
}

/** What a layer says to another agent. */
export interface LayerQuestion {
  target: string;
  input?: unknown;
  instanceKey?: string;
  timeoutMs?: number;
  async?: boolean;
  metadata?: JsonObject;
}

/** Where a turn is. */
export interface Runtime {
  agent: { name: string; bundleRoot: string; prompt?: { system: string } };
  swarm: AgentCatalog;
  inbound: {
    eventId: string;
    eventType: string;
    sourceKind: 'agent' | 'connector';
    sourceName: string;
    createdAt: string;
    instanceKey: string;
    eventMetadata: JsonObject;
  };
  call?: {
    callerAgent: string;
    callerInstanceKey: string;
    callStack: string[];
    callerTurnId?: string;
    replyTo?: { target: string; correlationId: string };
  };
}

/** What a turn came to. */
export interface TurnResult {
  turnId?: string;
  finishReason: string;
  responseMessage?: Message | NewMessage | null;
  error?: { message?: string; code?: string };
}

/** What a step came to. */
export interface StepResult {
  status?: 'completed' | 'failed';
  shouldContinue?: boolean;
  hasToolCalls?: boolean;
  toolCalls?: { id: string; toolCallId: string; name: string; toolName: string; args: any; input: any }[];
  toolResults?: ToolCallResult[];
  metadata?: JsonObject;
  error?: { message?: string; code?: string };
}

/** What a tool call came to. */
export interface ToolCallResult {
  toolCallId?: string;
  toolName?: string;
  status: 'ok' | 'error';
  output?: any;
  error?: { message?: string; code?: string; suggestion?: string; name?: string; helpUrl?: string };
  title?: string;
  metadata?: JsonObject;
  attachments?: { mediaType: string; data: string; name?: string }[];
}

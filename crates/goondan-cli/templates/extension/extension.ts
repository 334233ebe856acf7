// The used part of `api` and `ctx`. See docs/extensions.md for all of it.
interface TurnResult {
  readonly finishReason: string;
}

interface TurnContext {
  emitMessageEvent(event: { type: 'append'; message: { data: { role: 'system'; content: string } } }): void;
  next(): Promise<TurnResult>;
}

interface ExtensionApi {
  readonly pipeline: { register(kind: 'turn', layer: (ctx: TurnContext) => Promise<TurnResult>): void };
  readonly state: { get(): Promise<unknown>; set(value: unknown): Promise<void> };
  readonly logger: Pick<Console, 'debug' | 'info' | 'warn' | 'error'>;
}

// Registers layers around turns, steps (`step`) and tool calls (`toolCall`), once per conversation. Code before `ctx.next()` runs
// before the wrapped turn, step or call; the rest runs after it.
export function register(api: ExtensionApi, config: { what: string }): void {
  api.pipeline.register('turn', async (ctx) => {
    // The state belongs to the conversation and survives a restart.
    const { turns } = ((await api.state.get()) ?? { turns: 0 }) as { turns: number };
    await api.state.set({ turns: turns + 1 });
    const content = `This is ${config.what} ${turns + 1} of the conversation.`;
    ctx.emitMessageEvent({ type: 'append', message: { data: { role: 'system', content } } });
    const result = await ctx.next();
    api.logger.debug('the turn is over', { reason: result.finishReason });
    return result;
  });
}

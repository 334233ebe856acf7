// Registers layers around turns, steps (`step`) and tool calls (`toolCall`), once per conversation. Code before `ctx.next()` runs
// before the wrapped turn, step or call; the rest runs after it. See docs/extensions.md for `api` and `ctx`.
/** @type {import('@goondan/types').Register<{ what: string }>} */
export function register(api, config) {
  api.pipeline.register('turn', async (ctx) => {
    // The state belongs to the conversation and survives a restart.
    const { turns } = (await api.state.get()) ?? { turns: 0 };
    await api.state.set({ turns: turns + 1 });
    const content = `This is ${config.what} ${turns + 1} of the conversation.`;
    ctx.emitMessageEvent({ type: 'append', message: { data: { role: 'system', content } } });
    const result = await ctx.next();
    api.logger.debug('the turn is over', { reason: result.finishReason });
    return result;
  });
}

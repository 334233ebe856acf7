// Registers layers around turns, steps (`step`) and tool calls (`toolCall`), once for each conversation. What a layer does before
// `ctx.next()` happens before what it wraps, the rest after it. The page docs/extensions.md of gdn lists what `api` and `ctx` have.
/** @type {import('@goondan/types').Register<{ what: string }>} */
export function register(api, config) {
  api.pipeline.register('turn', async (ctx) => {
    // What is kept belongs to the conversation, and is there again after a restart.
    const { turns } = (await api.state.get()) ?? { turns: 0 };
    await api.state.set({ turns: turns + 1 });
    const content = `This is ${config.what} ${turns + 1} of the conversation.`;
    ctx.emitMessageEvent({ type: 'append', message: { data: { role: 'system', content } } });
    const result = await ctx.next();
    api.logger.debug('the turn is over', { reason: result.finishReason });
    return result;
  });
}

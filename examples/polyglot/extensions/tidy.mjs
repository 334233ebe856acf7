// Tidies up what the model passes to tools, and offers a tool that tells how often it had to.
/** @type {import('@goondan/types').Register<{ longest: number }>} */
export function register(api, config) {
  api.pipeline.register('toolCall', async (ctx) => {
    if (typeof ctx.args.text !== 'string') return ctx.next();
    const text = ctx.args.text.trim().replace(/\s+/g, ' ').slice(0, config.longest);
    if (text !== ctx.args.text) {
      const { tidied } = (await api.state.get()) ?? { tidied: 0 };
      await api.state.set({ tidied: tidied + 1 });
      ctx.args = { ...ctx.args, text };
    }
    return ctx.next();
  });

  api.tools.register(
    { name: 'tidy__count', description: 'How many texts were tidied up in this conversation.', parameters: { type: 'object', properties: {} } },
    async () => (await api.state.get()) ?? { tidied: 0 },
  );
}

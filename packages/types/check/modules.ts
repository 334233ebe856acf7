// What modules are written with these types, and what they must not say.
import type { ExtensionApi, Handlers, Register, ToolContext } from '@goondan/types';
import { register as template } from '../../../crates/goondan-cli/templates/extension/extension.ts';
import { handlers as tool } from '../../../crates/goondan-cli/templates/tool/tool.ts';

// What `gdn new` writes says by itself what it uses of these.
export const registers: Register<{ what: string }> = template;
export const handles: Handlers = tool;

interface Kept {
  turns: number;
}

export function register(api: ExtensionApi<{ words: string[] }, Kept>): void {
  api.pipeline.register('turn', async (ctx) => {
    const { turns } = (await api.state.get()) ?? { turns: 0 };
    await api.state.set({ turns: turns + 1 });
    ctx.emitMessageEvent({ type: 'append', message: { data: { role: 'system', content: `turn ${turns}` } } });
    ctx.emitMessageEvent({ type: 'replace', targetId: 'a', message: ctx.conversationState.nextMessages[0]! });
    const { response } = await ctx.agents.request({ target: 'other', input: ctx.inputEvent.input });
    api.logger.info('heard', { response, since: ctx.inputEvent.createdAt.getTime() });
    const result = await ctx.next();
    return { ...result, finishReason: result.finishReason };
  }, { priority: -1 });
  api.pipeline.register('step', async (ctx) => {
    ctx.toolCatalog = ctx.toolCatalog.filter((item) => item.name !== 'bash__exec');
    const result = await ctx.next();
    return { ...result, shouldContinue: result.shouldContinue || ctx.turn.metadata['again'] === true };
  });
  api.pipeline.register('toolCall', async (ctx, next) => {
    // @ts-expect-error layers around tool calls ask nobody
    ctx.agents;
    // @ts-expect-error nor do they change the conversation
    ctx.emitMessageEvent({ type: 'truncate' });
    if (api.config.words.some((word) => JSON.stringify(ctx.args).includes(word))) {
      return { status: 'error', error: { code: 'NOT_SAID', message: 'this is not said here' } };
    }
    return next();
  });
  api.tools.register<{ note: string }>({ name: 'notes__add' }, (ctx, input) => ctx.output(input.note, { title: 'noted' }));
  const off = api.events.on('noted', (note: string) => api.logger.debug(note));
  api.events.emit('noted', 'a');
  api.events.on('turn.completed', (event) => api.logger.debug(event.stepCount.toFixed(), event.tokenUsage?.totalTokens));
  off();
  // @ts-expect-error there is no such kind
  api.pipeline.register('week', async () => ({ finishReason: 'text_response' }));
  // @ts-expect-error a message event has a type that is known
  api.pipeline.register('turn', async (ctx) => { ctx.emitMessageEvent({ type: 'prepend' }); return ctx.next(); });
}

export const handlers = {
  async ask(ctx: ToolContext<{ target: string }>, input: { text: string }) {
    ctx.progress('asking', { target: ctx.config.target });
    const answer = await ctx.runtime.request(ctx.config.target, { input: input.text }, { timeoutMs: 1000 });
    if (ctx.signal.aborted || !ctx.permissions.includes('network')) return null;
    return { answer: answer.response ?? '', others: (await ctx.runtime.catalog()).callableAgents };
  },
} satisfies Handlers;

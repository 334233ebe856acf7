// `module.py` does the same.
import fs from 'node:fs';
import process from 'node:process';

const read = (file) => { try { return fs.readFileSync(file, 'utf8'); } catch { return ''; } };

// Each is an operation, and at one of them somebody is killed.
function operation(name) {
  fs.appendFileSync('operations', `${name}\n`);
  const { number, who } = JSON.parse(read('plan'));
  if (read('operations').split('\n').length - 1 !== number || read('killed')) return;
  fs.writeFileSync('killed', name);
  if (who === 'host') process.kill(process.pid, 'SIGKILL');
  while (!read('pid')) { /* it is about to be written */ }
  process.kill(Number(read('pid')), 'SIGKILL');
  for (;;) { /* the end */ }
}

export const handlers = {
  async act(ctx) {
    operation('handler begins');
    fs.appendFileSync('ledger', `${ctx.toolCallId}\n`);
    operation('handler has acted');
    await ctx.runtime.request('other', 'from the tool');
    operation('handler has asked');
    return 'acted';
  },
};

export function register(api) {
  const text = (content) => ({ type: 'append', message: { data: { role: 'user', content } } });
  api.pipeline.register('turn', async (ctx) => {
    if (ctx.inputEvent.input !== 'go') return ctx.next();
    operation('turn begins');
    await api.state.set({ turns: ((await api.state.get())?.turns ?? 0) + 1 });
    ctx.emitMessageEvent(text('begun'));
    operation('turn has a state and a message');
    await ctx.agents.request({ target: 'other', input: 'from the turn' });
    operation('turn has asked');
    await ctx.agents.send({ target: 'other', input: 'told by the turn' });
    operation('turn has told');
    const result = await ctx.next();
    operation('turn is over');
    ctx.emitMessageEvent(text('ended'));
    operation('turn ends');
    return result;
  });
  api.pipeline.register('step', async (ctx) => {
    if (ctx.turn.inputEvent.input !== 'go') return ctx.next();
    operation('step begins');
    const result = await ctx.next();
    operation('step ends');
    return result;
  });
  api.pipeline.register('toolCall', async (ctx) => {
    operation('call begins');
    const result = await ctx.next();
    operation('call ends');
    const state = await api.state.get();
    await api.state.set({ ...state, calls: (state.calls ?? 0) + 1 });
    operation('call is counted');
    return result;
  });
}

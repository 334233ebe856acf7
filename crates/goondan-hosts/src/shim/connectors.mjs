
// Connectors: a function that runs as long as its connection does. This is the last part of the same file.

// So many events may wait for their acceptance; further ones wait here.
const MOST_EMITTED = 32;

// What is typed where gdn runs, a line at a time. It is asked for when somebody reads.
function typed(id) {
  return new Readable({
    read() {
      ask(id, 'connector.line', {}).then(({ line }) => this.push(typeof line === 'string' ? line + '\n' : null), () => this.push(null));
    },
  });
}

function emitting(id) {
  const waiting = [];
  let open = 0;
  return async (event) => {
    if (open >= MOST_EMITTED) await new Promise((resolve) => waiting.push(resolve));
    open += 1;
    try {
      await ask(id, 'connector.emit', json(event, 'the event'));
    } finally {
      open -= 1;
      waiting.shift()?.();
    }
  };
}

// Answers are sent by a function of the connector, one after another. What it throws is why an answer was not sent.
function replying(id) {
  let isReplying = false;
  return (send) => {
    if (typeof send !== 'function') throw new TypeError('`onReply` needs a function that sends an answer');
    if (isReplying) throw new Error('`onReply` was already called');
    isReplying = true;
    void (async () => {
      for (;;) {
        const { reply } = await ask(id, 'connector.reply', {});
        if (!reply) return;
        const { number, ...answer } = reply;
        let error;
        try {
          await send(answer);
        } catch (thrownBySend) {
          error = short(thrown(thrownBySend).message || 'no reason given', 300);
        }
        await ask(id, 'connector.replied', { number, error });
      }
    })().catch(() => {});
  };
}

async function connect(message) {
  const { id, connection, connector, config, secrets } = message;
  try {
    const stdin = typed(id);
    Object.defineProperty(process, 'stdin', { configurable: true, get: () => stdin });
    await current.run(message, async () => {
      const module = await load(message);
      const main = [module.default, module.default?.default].find((found) => typeof found === 'function');
      if (!main) throw new Fault('module', 'its module has no function as its default export', 'Write `export default async function (ctx) { … }`.');
      await main({ connection, connector, config, secrets, emit: emitting(id), onReply: replying(id), logger: consoleOf(() => id) });
    });
    done(id, null);
  } catch (error) {
    failed(id, error);
  }
}


// Runs connectors: a connector is a function that runs as long as its connection.

// Maximum number of events that gdn has not accepted yet. Further `emit` calls wait.
const MAX_CONCURRENT_EMITS = 32;

// Returns a stream of the lines typed in the terminal of gdn. Each read requests one line.
function terminalInput(id) {
  return new Readable({
    read() {
      request(id, 'connector.line', {}).then(({ line }) => this.push(typeof line === 'string' ? line + '\n' : null), () => this.push(null));
    },
  });
}

function emitFunction(id) {
  const waiting = [];
  let unaccepted = 0;
  return async (event) => {
    if (unaccepted >= MAX_CONCURRENT_EMITS) await new Promise((resolve) => waiting.push(resolve));
    unaccepted += 1;
    try {
      await request(id, 'connector.emit', json(event, 'the event'));
    } finally {
      unaccepted -= 1;
      waiting.shift()?.();
    }
  };
}

// Returns `onReply`. Its argument sends answers, one after another. An error that it throws is the reason for the failure.
function onReplyFunction(id) {
  let isRegistered = false;
  return (send) => {
    if (typeof send !== 'function') throw new TypeError('`onReply` needs a function that sends an answer');
    if (isRegistered) throw new Error('`onReply` was already called');
    isRegistered = true;
    void (async () => {
      for (;;) {
        const { reply } = await request(id, 'connector.reply', {});
        if (!reply) return;
        const { number, ...answer } = reply;
        let error;
        try {
          await send(answer);
        } catch (sendError) {
          error = truncated(errorFields(sendError).message || 'no reason given', 300);
        }
        await request(id, 'connector.replied', { number, error });
      }
    })().catch(() => {});
  };
}

async function connect(message) {
  const { id, connection, connector, config, secrets } = message;
  try {
    const stdin = terminalInput(id);
    Object.defineProperty(process, 'stdin', { configurable: true, get: () => stdin });
    await currentCall.run(message, async () => {
      const module = await load(message);
      const main = [module.default, module.default?.default].find((found) => typeof found === 'function');
      if (!main) throw new Fault('module', 'its module has no function as its default export', 'Write `export default async function (ctx) { … }`.');
      await main({ connection, connector, config, secrets, emit: emitFunction(id), onReply: onReplyFunction(id), logger: consoleOf(() => id) });
    });
    sendResult(id, null);
  } catch (error) {
    sendFailure(id, error);
  }
}

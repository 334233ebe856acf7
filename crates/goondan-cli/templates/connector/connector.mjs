import { createInterface } from 'node:readline';

// Runs as long as the connection does. Each line that somebody types is an event; ask your platform for its messages instead. The
// page docs/connections.md of gdn lists what `ctx` has.
export default async function (ctx) {
  // An answer that can't be sent has failed: throw an error that says why.
  ctx.onReply(async ({ origin, text }) => {
    ctx.logger.info(text, { room: origin.room });
  });
  const { room } = ctx.config;
  for await (const line of createInterface({ input: process.stdin })) {
    // It returns once the event is on disk. Where the platform has an id of the message, pass it as `id`: the same id starts one
    // turn, however often it comes.
    await ctx.emit({ name: 'line', message: line, instanceKey: room, origin: { room } });
  }
}

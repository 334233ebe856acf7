import { createInterface } from 'node:readline';

// Runs as long as the connection. Each typed line is an event; fetch your platform's messages instead.
// See docs/connections.md for `ctx`.
export default async function (ctx) {
  // If the answer can't be sent, throw an error with the reason.
  ctx.onReply(async ({ origin, text }) => {
    ctx.logger.info(text, { room: origin.room });
  });
  const { room } = ctx.config;
  for await (const line of createInterface({ input: process.stdin })) {
    // Returns once the event is on disk. If the platform has a message id, pass it as `id`: events with the
    // same id start only one turn.
    await ctx.emit({ name: 'line', message: line, instanceKey: room, origin: { room } });
  }
}

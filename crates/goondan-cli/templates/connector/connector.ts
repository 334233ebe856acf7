import { createInterface } from 'node:readline';

// The used part of `ctx`. See docs/connections.md for all of it.
interface Event {
  name: string;
  message: string;
  id?: string;
  instanceKey?: string;
  origin?: Origin;
}

// Target of the answer, in a format of your choice. It is returned with the answer.
interface Origin {
  room: string;
}

interface Context {
  readonly config: { room: string };
  readonly logger: Pick<Console, 'debug' | 'info' | 'warn' | 'error'>;
  emit(event: Event): Promise<void>;
  onReply(send: (reply: { origin: Origin; text: string }) => Promise<void>): void;
}

// Runs as long as the connection. Each typed line is an event; fetch your platform's messages instead.
export default async function (ctx: Context): Promise<void> {
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

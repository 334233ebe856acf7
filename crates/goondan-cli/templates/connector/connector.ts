import { createInterface } from 'node:readline';

// What is used of `ctx`. The page docs/connections.md of gdn lists all of it.
interface Event {
  name: string;
  message: string;
  id?: string;
  instanceKey?: string;
  origin?: Origin;
}

// Where an answer goes, in words of your own: the answer brings it back.
interface Origin {
  room: string;
}

interface Context {
  readonly config: { room: string };
  readonly logger: Pick<Console, 'debug' | 'info' | 'warn' | 'error'>;
  emit(event: Event): Promise<void>;
  onReply(send: (reply: { origin: Origin; text: string }) => Promise<void>): void;
}

// Runs as long as the connection does. Each line that somebody types is an event; ask your platform for its messages instead.
export default async function (ctx: Context): Promise<void> {
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

// What is used of the context that a handler gets. The page docs/hosts.md of gdn lists all of it.
interface Context {
  readonly workdir: string;
  readonly logger: Pick<Console, 'debug' | 'info' | 'warn' | 'error'>;
}

interface Input {
  text: string;
}

// Each function is the export of the same name in the Tool resource. It gets a context (whose call it is, the folder to work
// in, a logger, other agents) and the arguments, which were checked against `parameters`. It returns a JSON value.
export const handlers = {
  async reverse(ctx: Context, input: Input): Promise<{ result: string }> {
    ctx.logger.debug('turning around', { length: input.text.length });
    return { result: [...input.text].reverse().join('') };
  },
};

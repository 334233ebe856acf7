// The used part of the handler context. See docs/hosts.md for all of it.
interface Context {
  readonly workdir: string;
  readonly logger: Pick<Console, 'debug' | 'info' | 'warn' | 'error'>;
}

interface Input {
  text: string;
}

// Each function implements the export of the same name in the Tool resource. It receives a context (caller, working directory,
// logger, other agents) and the arguments, already validated against `parameters`. It returns a JSON value.
export const handlers = {
  async reverse(ctx: Context, input: Input): Promise<{ result: string }> {
    ctx.logger.debug('turning around', { length: input.text.length });
    return { result: [...input.text].reverse().join('') };
  },
};

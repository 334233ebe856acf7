// Each function implements the export of the same name in the Tool resource. It receives a context (caller, working directory,
// logger, other agents) and the arguments, already validated against `parameters`. It returns a JSON value.
/** @type {import('@goondan/types').Handlers} */
export const handlers = {
  reverse(ctx, input) {
    ctx.logger.debug('turning around', { length: input.text.length });
    return { result: [...input.text].reverse().join('') };
  },
};

// Each function is the export of the same name in the Tool resource. It gets a context (whose call it is, the folder to work
// in, a logger, other agents) and the arguments, which were checked against `parameters`. It returns a JSON value.
/** @type {import('@goondan/types').Handlers} */
export const handlers = {
  reverse(ctx, input) {
    ctx.logger.debug('turning around', { length: input.text.length });
    return { result: [...input.text].reverse().join('') };
  },
};

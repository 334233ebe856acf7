// Each function is the export of the same name in goondan.yaml.
/** @type {import('@goondan/types').Handlers} */
export const handlers = {
  count(ctx, input) {
    const words = input.text.toLowerCase().match(/\p{L}+/gu) ?? [];
    const seen = new Map();
    for (const word of words) seen.set(word, (seen.get(word) ?? 0) + 1);
    const sorted = [...seen].sort((a, b) => b[1] - a[1]);
    ctx.logger.info('counted', { words: words.length });
    const result = { most: sorted[0]?.[0] ?? null, counts: sorted.map(([, count]) => count) };
    return ctx.output(result, { title: `Counted ${words.length} words` });
  },
};

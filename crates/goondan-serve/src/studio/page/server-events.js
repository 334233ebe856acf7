// Reads server-sent events of a response. The browser's EventSource cannot send a token.

/**
 * Reads the events of a response until it ends.
 * @param {Response} response
 * @param {(name: string, body: any, id: string) => void} each
 */
export async function readEvents(response, each) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) read(block, each);
  }
}

/** @param {string} block an event of the stream */
function read(block, each) {
  let name = "message";
  let id = "";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("id:")) id = line.slice(3).trim();
    else if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (data.length) each(name, JSON.parse(data.join("\n")), id);
}

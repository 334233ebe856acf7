// A model that says a word when it is told to, by the protocol of OpenAI.

import { createServer } from "node:http";

/** Begins to listen: `say` sends a piece of the answer, `end` the end of it. */
export async function provider() {
  let response = null;
  let came = () => {};
  const asked = new Promise((resolve) => (came = resolve));
  const chunk = (delta, reason = null) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "slow", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
  const server = createServer((request, answer) => {
    request.resume();
    answer.writeHead(200, { "content-type": "text/event-stream" });
    response = answer;
    came();
  });
  await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
  server.unref();
  return {
    address: `http://127.0.0.1:${server.address().port}/v1`,
    asked,
    say: (words) => response.write(chunk({ role: "assistant", content: words })),
    end: () => {
      response.end(`${chunk({}, "stop")}data: [DONE]\n\n`);
      server.close();
    },
  };
}

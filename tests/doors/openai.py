"""The OpenAI-compatible door, as the official client for Python sees it, and LangChain's and LiteLLM's.

Usage: openai.py URL TOKEN, with the swarm of tests/doors/swarm behind URL. Prints a line for each check; fails at the first that
does not hold.
"""

import asyncio
import base64
import json
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# This file has the name of the package.
sys.path.pop(0)
import openai  # noqa: E402

URL, TOKEN = sys.argv[1], sys.argv[2]
BASE = URL + "/v1"
client = openai.OpenAI(base_url=BASE, api_key=TOKEN, max_retries=2, timeout=30)


def check(what, holds, seen=None):
    if not holds:
        sys.exit(f"FAILED: {what}: {seen!r}")
    print(f"ok: {what}")


def get(path):
    request = urllib.request.Request(URL + path, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def instances(agent="echo"):
    return {meta["instanceKey"] for meta in get(f"/api/instances?agent={agent}")["instances"]}


def said(key, agent="echo"):
    """What the user has said in a conversation."""
    messages = get(f"/api/instances/{agent}/{key}/messages")["messages"]
    users = [message for message in messages if message["data"]["role"] == "user"]
    return ["".join(part.get("text", "") for part in message["data"]["content"]) for message in users]


def user(text):
    return {"role": "user", "content": text}


def ask(*messages, model="echo", **more):
    return client.chat.completions.create(model=model, messages=list(messages), **more)


def text(completion):
    return completion.choices[0].message.content


def fails(what, kind, call, **wanted):
    try:
        call()
    except kind as error:
        for name, value in wanted.items():
            check(f"{what}: {name}", getattr(error, name) == value, getattr(error, name))
        return error
    sys.exit(f"FAILED: {what}: nothing was refused")


def models():
    names = [model.id for model in client.models.list()]
    check("models are listed", names == ["doors", "asker", "careful", "changer", "echo", "stumbler"], names)
    check("a model is shown", client.models.retrieve("echo").owned_by == "doors")
    fails("unknown model", openai.NotFoundError, lambda: client.models.retrieve("nobody"), code="model_not_found")


def completions():
    completion = ask(user("hello"), temperature=0.3, max_tokens=5, user="someone")
    check("an answer", text(completion) == "1: hello", completion)
    check("usage", (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (7, 5), completion.usage)
    check("finish_reason stop", completion.choices[0].finish_reason == "stop")
    check("the swarm's name is its entry agent", text(ask(user("hello"), model="doors")) == "1: hello")
    completion = ask(user("shout hey"))
    check("all steps of the turn", text(completion) == "One moment.\n\nSHOUT HEY!", text(completion))
    check("only the agent's own words", text(ask(user("hey"), model="asker")) == "I ask.\n\nIt said <1: hey>")
    endless = ask(user("endless"))
    check("finish_reason length", endless.choices[0].finish_reason == "length", endless)
    raw = client.chat.completions.with_raw_response.create(model="echo", messages=[user("hi")])
    check("the conversation is named", raw.headers["x-goondan-instance"] in instances())
    check("the request has an id", raw.parse()._request_id.startswith("evt-openai-"))


def streamed(*messages, **more):
    chunks = list(ask(*messages, stream=True, **more))
    content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    return content, chunks


def streams():
    content, chunks = streamed(user("shout hey"), stream_options={"include_usage": True})
    check("a streamed answer is the same", content == "One moment.\n\nSHOUT HEY!", content)
    check("the role comes first", chunks[0].choices[0].delta.role == "assistant")
    check("usage comes last, alone", chunks[-1].choices == [] and chunks[-1].usage is not None, chunks[-1])
    check("no other chunk has usage", all(chunk.usage is None for chunk in chunks[:-1]))
    check("finish_reason of a stream", chunks[-2].choices[0].finish_reason == "stop")
    check("no usage unasked", all(chunk.usage is None for chunk in streamed(user("hi"))[1]))
    check("a streamed turn without an end", streamed(user("endless"))[1][-1].choices[0].finish_reason == "length")
    check("only the agent's own words are streamed", streamed(user("hey"), model="asker")[0] == "I ask.\n\nIt said <1: hey>")
    content, _ = streamed(user("go"), model="stumbler")
    check("an answer that is begun again in the same words", content == "one two three", content)
    fails("an answer that is begun again in other words", openai.APIError, lambda: streamed(user("go"), model="changer"),
          code="answer_begun_again")


def errors():
    stranger = openai.OpenAI(base_url=BASE, api_key="not-the-token-of-it")
    fails("a wrong key", openai.AuthenticationError, stranger.models.list, code="invalid_api_key")
    fails("unknown model of a completion", openai.NotFoundError, lambda: ask(user("hi"), model="nobody"), param="model")
    for more in (
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"n": 2},
        {"logprobs": True},
        {"stop": ["x"]},
        {"modalities": ["text", "audio"]},
    ):
        error = fails(f"{more}", openai.BadRequestError, lambda: ask(user("hi"), **more), code="unsupported_parameter")
        check("the parameter is named", error.param.split(".")[0] in more, error.param)
    check("what changes nothing is fine", text(ask(user("hi"), n=1, tools=[], response_format={"type": "text"})) == "1: hi")
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "sum", "strict": True, "schema": schema}}
    check("an answer as data", json.loads(text(ask(user("as data"), response_format=wanted))) == {"sum": 3})
    fails("an answer that is no data", openai.InternalServerError,
          lambda: ask(user("hi"), response_format={"type": "json_object"}), code="E_MODEL_OUTPUT")
    fails("no message", openai.BadRequestError, lambda: ask(), param="messages")
    before = len(instances())
    fails("a turn that fails", openai.APIStatusError, lambda: ask(user("overload")), status_code=502, code="E_MODEL_STATUS")
    check("is not begun again", len(instances()) == before + 1)
    fails("a provider that refuses", openai.RateLimitError, lambda: ask(user("limited")), code="E_MODEL_STATUS")
    check("is not begun again, either", len(instances()) == before + 2)
    seen = []

    def half():
        for chunk in ask(user("half"), stream=True):
            seen.append(chunk.choices[0].delta.content)

    fails("a turn that fails while it is streamed", openai.APIError, half, code="E_MODEL_STATUS")
    check("what was said before is there", "".join(seen) == "Half of it.", seen)


def images():
    pixel = base64.b64encode(b"\x89PNG....").decode()

    def look(url):
        return [{"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}]}]

    raw = client.chat.completions.with_raw_response.create(model="echo", messages=look(f"data:image/png;base64,{pixel}"))
    key = raw.headers["x-goondan-instance"]
    content = get(f"/api/instances/echo/{key}/messages")["messages"][0]["data"]["content"]
    check("an image arrives", [part["type"] for part in content] == ["text", "file"] and content[1]["data"] == pixel, content)
    fails("an address of an image", openai.BadRequestError, lambda: ask(*look("http://127.0.0.1:1/a.png")),
          param="messages[0].content[1].image_url")


def conversations():
    history, keys = [], set()
    for number, word in enumerate(["one", "two", "three"], 1):
        history.append(user(word))
        raw = client.chat.completions.with_raw_response.create(model="echo", messages=history, stream=False)
        answer = text(raw.parse())
        check(f"message {number} of a conversation", answer == f"{number}: {word}", answer)
        keys.add(raw.headers["x-goondan-instance"])
        history.append({"role": "assistant", "content": answer})
    check("it is one conversation", len(keys) == 1 and said(*keys) == ["one", "two", "three"], keys)
    history[1] = {"role": "assistant", "content": "edited"}
    raw = client.chat.completions.with_raw_response.create(model="echo", messages=[*history, user("four")])
    other = raw.headers["x-goondan-instance"]
    check("an edited one is another", other not in keys and said(other) == ["one", "two", "three", "four"], said(other))
    before = len(instances())
    same = [user("hi"), {"role": "assistant", "content": "1: hi"}]
    for _ in range(2):
        ask(user("hi"))
    check("two who say the same have two conversations", len(instances()) == before + 2)
    secrets = [client.chat.completions.with_raw_response.create(model="echo", messages=[*same, user(f"secret {number}")])
               .headers["x-goondan-instance"] for number in range(3)]
    check("and go on in two", len(set(secrets)) == 3)
    check("nobody hears of the other", all(said(key)[-1] == f"secret {n}" and len(said(key)) == 2 for n, key in enumerate(secrets)))
    named = {"extra_headers": {"X-Goondan-Instance": "mine"}}
    ask(user("a"), **named)
    ask(user("a"), {"role": "assistant", "content": "whatever"}, user("b"), metadata={"instanceKey": "mine"})
    check("a conversation with a name", said("mine") == ["a", "b"], said("mine"))


def twenty():
    async def all_of_them():
        many = openai.AsyncOpenAI(base_url=BASE, api_key=TOKEN)

        async def talk(number):
            history = []
            for turn in range(1, 4):
                history.append(user(f"{number}.{turn}"))
                parts = []
                async for chunk in await many.chat.completions.create(model="echo", messages=history, stream=True):
                    parts.append(chunk.choices[0].delta.content or "")
                history.append({"role": "assistant", "content": "".join(parts)})
            return [message["content"] for message in history]

        return await asyncio.gather(*(talk(number) for number in range(20)))

    before = len(instances())
    for number, talk in enumerate(asyncio.run(all_of_them())):
        wanted = [words for turn in range(1, 4) for words in (f"{number}.{turn}", f"{turn}: {number}.{turn}")]
        if talk != wanted:
            sys.exit(f"FAILED: stream {number}: {talk}")
    check("twenty streams at once, three turns each, do not mix", len(instances()) == before + 20, len(instances()) - before)


class Breaking(BaseHTTPRequestHandler):
    """Passes requests on, and breaks the connection of the first of them before its answer comes."""

    protocol_version = "HTTP/1.0"
    seen: list = []
    turn_begun = threading.Event()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Breaking.seen.append(dict(self.headers))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "content-length", "connection")}
        request = urllib.request.Request(URL + self.path, data=body, headers=headers)
        if len(Breaking.seen) == 1:
            # The request arrives, its answer gets lost.
            threading.Thread(target=lambda: urllib.request.urlopen(request).read(), daemon=True).start()
            while not any("lost" in said(key) for key in instances()):
                time.sleep(0.05)
            self.close_connection = True
            self.connection.close()
            return
        with urllib.request.urlopen(request) as response:
            answer = response.read()
            self.send_response(response.status)
            self.send_header("content-type", response.headers["content-type"])
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, *_):
        pass


def retries():
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Breaking)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    through = openai.OpenAI(base_url=f"http://127.0.0.1:{proxy.server_port}/v1", api_key=TOKEN, max_retries=2)
    before = len(instances())
    completion = through.chat.completions.create(model="echo", messages=[user("lost")])
    counts = [headers.get("x-stainless-retry-count") for headers in Breaking.seen]
    check("the client tried again", counts == ["0", "1"], counts)
    check("and got its answer", text(completion) == "1: lost")
    check("a retry begins no second turn", len(instances()) == before + 1, len(instances()) - before)
    proxy.shutdown()

    before = len(instances())
    impatient = client.with_options(timeout=1.0, max_retries=3)
    answer = text(impatient.chat.completions.create(model="echo", messages=[user("slowly please")]))
    check("a client that waits too briefly gets its answer in the end", answer == "1: slowly please", answer)
    check("of one turn", len(instances()) == before + 1, len(instances()) - before)

    before = len(instances())
    key = {"extra_headers": {"Idempotency-Key": "order-7"}}
    answers = [ask(user("once"), **key) for _ in range(3)]
    check("the same key is the same request", len({answer.id for answer in answers}) == 1)
    check("one turn for it", len(instances()) == before + 1)
    check("another body under the key is another", text(ask(user("twice"), **key)) == "1: twice")
    ask(user("once"))
    check("without a key it is a new one", len(instances()) == before + 3)


def responses():
    first = client.responses.create(model="echo", input="one", metadata={"ticket": "7"})
    check("a response", (first.output_text, first.status) == ("1: one", "completed"), first)
    check("its usage", (first.usage.input_tokens, first.usage.output_tokens) == (7, 5), first.usage)
    second = client.responses.create(model="echo", input=[{"role": "user", "content": "two"}], previous_response_id=first.id)
    check("previous_response_id", second.output_text == "2: two", second.output_text)
    fork = client.responses.create(model="echo", input="three", previous_response_id=first.id)
    check("from an older response a conversation of its own begins", fork.output_text == "2: three", fork.output_text)
    third = client.responses.create(model="echo", input="three", previous_response_id=second.id)
    check("and the other goes on", third.output_text == "3: three", third.output_text)
    again = client.responses.retrieve(second.id)
    check("a response is found again", (again.output_text, again.previous_response_id) == ("2: two", first.id), again)
    check("with its metadata", client.responses.retrieve(first.id).metadata == {"ticket": "7"})
    fleeting = client.responses.create(model="echo", input="x", store=False)
    fails("a response that is not stored", openai.NotFoundError, lambda: client.responses.retrieve(fleeting.id))
    fails("an unknown previous response", openai.BadRequestError,
          lambda: client.responses.create(model="echo", input="x", previous_response_id="resp_x"), code="previous_response_not_found")
    fails("tools", openai.BadRequestError,
          lambda: client.responses.create(model="echo", input="x", tools=[{"type": "web_search"}]), param="tools")
    parts = client.responses.create(model="echo", input="shout hey", instructions="Be loud.")
    check("an item for each step", [item.content[0].text for item in parts.output] == ["One moment.", "SHOUT HEY!"], parts.output)
    history = [user("shout hey"), *parts.output, user("and now")]
    check("items go back as they came", client.responses.create(model="echo", input=history, instructions="Be loud.").output_text == "2: and now")
    endless = client.responses.create(model="echo", input="endless")
    check("a turn without an end is incomplete", endless.status == "incomplete", endless.status)
    fails("a response that fails", openai.APIStatusError, lambda: client.responses.create(model="echo", input="overload"), status_code=502)
    return second.id


def response_streams():
    kinds = []
    with client.responses.stream(model="echo", input="shout hey") as stream:
        for event in stream:
            kinds.append(event.type)
        final = stream.get_final_response()
    step = ["response.output_item.added", "response.content_part.added", "response.output_text.delta",
            "response.output_text.done", "response.content_part.done", "response.output_item.done"]
    wanted = ["response.created", "response.in_progress", *step, *step, "response.completed"]
    check("the events of a response", [kind for kind, last in zip(kinds, [None, *kinds]) if kind != last] == wanted, kinds)
    check("its text", final.output_text == "One moment.SHOUT HEY!", final.output_text)
    events = list(client.responses.create(model="echo", input="half", stream=True))
    check("a response that fails while it is streamed", events[-1].type == "response.failed", events[-1])
    check("says why", "E_MODEL_STATUS" in events[-1].response.error.message, events[-1].response.error)
    check("events are numbered", [event.sequence_number for event in events] == list(range(len(events))))
    before = set(instances())
    # A stream that is only dropped is closed by the garbage collector, possibly inside the client's own lock.
    with client.responses.create(model="echo", input="slowly, I will not wait", stream=True) as stream:
        event = next(event for event in stream if event.type == "response.created")
    (key,) = set(instances()) - before
    deadline = time.monotonic() + 60
    while client.responses.retrieve(event.response.id).status == "in_progress" and time.monotonic() < deadline:
        time.sleep(0.1)
    gone = client.responses.retrieve(event.response.id)
    check("a turn goes on without its client", gone.output_text == "1: slowly, I will not wait", gone)


def langchain():
    try:
        from langchain_openai import ChatOpenAI
    except ImportError:
        return print("skipped: langchain-openai is not installed")
    model = ChatOpenAI(model="echo", base_url=BASE, api_key=TOKEN)
    answer = model.invoke("hello chain")
    check("LangChain: invoke", answer.content == "1: hello chain", answer)
    check("LangChain: usage", answer.usage_metadata["total_tokens"] == 12, answer.usage_metadata)
    again = model.invoke([("user", "hello chain"), answer, ("user", "again")])
    check("LangChain: a conversation", again.content == "2: again", again)
    check("LangChain: stream", "".join(chunk.content for chunk in model.stream("shout hey")) == "One moment.\n\nSHOUT HEY!")
    by_response = ChatOpenAI(model="echo", base_url=BASE, api_key=TOKEN, use_responses_api=True, use_previous_response_id=True)
    answer = by_response.invoke("hello chain")
    check("LangChain: responses", answer.text == "1: hello chain", answer)
    again = by_response.invoke([("user", "hello chain"), answer, ("user", "again")])
    check("LangChain: previous_response_id", again.text == "2: again", again)


def litellm():
    try:
        import litellm
    except ImportError:
        return print("skipped: litellm is not installed")
    to = {"model": "openai/echo", "api_base": BASE, "api_key": TOKEN}
    answer = litellm.completion(messages=[user("hello lite")], **to)
    check("LiteLLM: completion", answer.choices[0].message.content == "1: hello lite", answer)
    chunks = litellm.completion(messages=[user("shout hey")], stream=True, **to)
    check("LiteLLM: stream", "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "One moment.\n\nSHOUT HEY!")


def after_restart(response_id):
    """What holds after a restart of the server."""
    check("a response is found after a restart", client.responses.retrieve(response_id).output_text == "2: two")
    begun = client.responses.create(model="echo", input="late", previous_response_id=response_id)
    check("and goes on", begun.output_text == "3: late", begun.output_text)
    before = len(instances())
    answer = ask(user("once"), extra_headers={"Idempotency-Key": "order-7"})
    check("a key holds after a restart", text(answer) == "1: once" and len(instances()) == before)


if len(sys.argv) > 3:
    after_restart(sys.argv[3])
else:
    print(f"openai {openai.__version__}")
    for part in (models, completions, streams, errors, images, conversations, twenty, retries):
        part()
    response_id = responses()
    for part in (response_streams, langchain, litellm):
        part()
    # For the run after the restart.
    print(f"response: {response_id}")

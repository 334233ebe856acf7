"""The A2A door, as the official client for Python sees it, in the versions 1.0 and 0.3.

Usage: a2a.py URL TOKEN [TASK], with the swarm of tests/doors/swarm behind URL. Prints a line for each check; fails at the first
that does not hold. With TASK, checks that the task of an earlier server is still known.
"""

import asyncio
import json
import sys
import urllib.request
import uuid

# This file has the name of the package.
sys.path.pop(0)
import httpx  # noqa: E402
from a2a.client import ClientConfig, create_client  # noqa: E402
from a2a.client.card_resolver import A2ACardResolver  # noqa: E402
from a2a.types import (  # noqa: E402
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils import errors  # noqa: E402
from google.protobuf.json_format import ParseDict  # noqa: E402
from google.protobuf.struct_pb2 import Value  # noqa: E402

URL, TOKEN = sys.argv[1], sys.argv[2]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
COMPLETED, INPUT_REQUIRED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED
CANCELED, FAILED, WORKING = TaskState.TASK_STATE_CANCELED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_WORKING


def check(what, holds, seen=None):
    if not holds:
        sys.exit(f"FAILED: {what}: {seen!r}")
    print(f"ok: {what}", flush=True)


def get(path):
    request = urllib.request.Request(URL + path, headers=HEADERS)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def turns(context, agent="echo"):
    """How often something was said to an agent in a conversation."""
    messages = get(f"/api/instances/{agent}/{context}/messages")["messages"]
    return sum(message["data"]["role"] == "user" for message in messages)


def message(*parts, **more):
    parts = [Part(text=part) if isinstance(part, str) else part for part in parts]
    return Message(role=Role.ROLE_USER, message_id=more.pop("message_id", str(uuid.uuid4())), parts=parts, **more)


def text(artifacts):
    return "".join(part.text for artifact in artifacts for part in artifact.parts)


async def connect(agent, http, streaming=False, polling=False, version="1.0"):
    resolver = A2ACardResolver(http, f"{URL}/a2a/{agent}")
    card = await resolver.get_agent_card()
    kept = [interface for interface in card.supported_interfaces if interface.protocol_version == version]
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(kept)
    return await create_client(card, ClientConfig(streaming=streaming, polling=polling, httpx_client=http))


async def ask(client, said):
    """The task that a message gives."""
    async for response in client.send_message(SendMessageRequest(message=said)):
        return response.task


async def stream(client, said):
    return [response async for response in client.send_message(SendMessageRequest(message=said))]


def states(pieces):
    return [piece.status_update.status.state for piece in pieces if piece.HasField("status_update")]


def streamed(pieces):
    """The answer, as the pieces make it."""
    answer = ""
    for update in (piece.artifact_update for piece in pieces if piece.HasField("artifact_update")):
        answer = (answer if update.append else "") + text([update.artifact])
    return answer


async def fails(what, kind, call):
    try:
        seen = await call
    except kind as error:
        check(what, True)
        return error
    check(what, False, seen)


async def cards(http):
    entry = await A2ACardResolver(http, URL).get_agent_card()
    check("the entry agent has a card", entry.name == "echo" and entry.supported_interfaces[0].url == f"{URL}/a2a/echo", entry)
    careful = await A2ACardResolver(http, f"{URL}/a2a/careful").get_agent_card()
    check("another agent has one, with its description", careful.description == "Writes notes down.", careful)
    check("what is not there is not promised", not careful.capabilities.push_notifications, careful)
    async with httpx.AsyncClient() as stranger:
        await fails("a card needs the token", Exception, A2ACardResolver(stranger, URL).get_agent_card())


async def sends(http, version):
    plain, live = await connect("echo", http, version=version), await connect("echo", http, streaming=True, version=version)
    said = message("hello")
    task = await ask(plain, said)
    check("a message is answered", (task.status.state, text(task.artifacts)) == (COMPLETED, "1: hello"), task)
    check("the history holds the message", task.history[0].message_id == said.message_id, task.history)
    again = await ask(plain, said)
    check("sent again, it is the same task", (again.id, turns(task.context_id)) == (task.id, 1), again)
    again = await stream(live, said)
    check("also as a stream", again[0].task.id == task.id and len(again) == 1, again)
    more = await ask(plain, message("more", context_id=task.context_id))
    check("a context goes on", (more.context_id, text(more.artifacts)) == (task.context_id, "2: more"), more)
    own = await ask(plain, message("mine", context_id=f"own-{version}"))
    check("a client may name the context", (own.context_id, text(own.artifacts)) == (f"own-{version}", "1: mine"), own)
    known = await plain.get_task(GetTaskRequest(id=task.id, history_length=1))
    check("a task is known", (text(known.artifacts), len(known.history)) == ("1: hello", 1), known)
    data = await ask(plain, message("look", Part(data=ParseDict({"n": 1}, Value()))))
    check("data is taken", '"n":1' in text(data.artifacts).replace(" ", ""), data)
    file = message("see", Part(raw=b"GIF89a", media_type="image/gif", filename="a.gif"))
    sent = await ask(plain, file)
    check("a file is taken", sent.history[0].parts[1].raw == b"GIF89a", sent.history)
    bad = await ask(plain, message("overload"))
    check("a turn that fails fails the task", bad.status.state == FAILED and "that is too much" in str(bad.status), bad)
    await fails("a task that is over takes nothing", errors.UnsupportedOperationError, ask(plain, message("x", task_id=task.id)))
    await fails("an unknown task", errors.TaskNotFoundError, plain.get_task(GetTaskRequest(id="nothing")))
    await fails("its cancellation", errors.TaskNotFoundError, plain.cancel_task(CancelTaskRequest(id="nothing")))
    await fails("the end of what is over", errors.TaskNotCancelableError, plain.cancel_task(CancelTaskRequest(id=task.id)))
    return task.id


async def streams(http, version):
    live = await connect("echo", http, streaming=True, version=version)
    pieces = await stream(live, message("a b c d"))
    check("a stream begins with the task", pieces[0].HasField("task"), pieces)
    check("it brings the answer in pieces", streamed(pieces) == "1: a b c d", pieces)
    check("in more than one", sum(piece.HasField("artifact_update") for piece in pieces) > 2, pieces)
    check("it ends with the end", states(pieces)[-1] == COMPLETED, pieces)
    pieces = await stream(live, message("shout hi"))
    told = [part.text for piece in pieces for part in piece.status_update.status.message.parts]
    check("it tells of tool calls", "echo: text-transform__case" in told, told)
    check("the answer is that of the last step", streamed(pieces) == "SHOUT HI!", pieces)
    stumbler = await connect("stumbler", http, streaming=True, version=version)
    pieces = await stream(stumbler, message("go"))
    check("an answer that is begun again is whole", streamed(pieces) in ("one two three", "1: go"), pieces)
    asker = await connect("asker", http, streaming=True, version=version)
    pieces = await stream(asker, message("bees"))
    check("what other agents say is not the answer", streamed(pieces).startswith("It said <"), pieces)


async def cancels(http, version):
    polls, live = await connect("echo", http, polling=True, version=version), await connect("echo", http, streaming=True, version=version)
    said = message("slowly please")
    task = await ask(polls, said)
    check("a client need not wait", task.status.state != COMPLETED, task)
    seen = []
    begun = asyncio.Event()

    async def follow():
        async for piece in live.subscribe(SubscribeToTaskRequest(id=task.id)):
            seen.append(piece)
            begun.set()

    following = asyncio.create_task(follow())
    await begun.wait()
    check("a subscription begins with the task", seen[0].task.id == task.id, seen)
    ended = await polls.cancel_task(CancelTaskRequest(id=task.id))
    check("a task is cancelled", ended.status.state == CANCELED, ended)
    await asyncio.wait_for(following, 30)
    check("who has subscribed hears it", states(seen)[-1] == CANCELED, seen)

    async def late():
        return [piece async for piece in live.subscribe(SubscribeToTaskRequest(id=task.id))]

    await fails("nothing is heard of what is over", errors.UnsupportedOperationError, late())


async def asks(http, version):
    plain, live = await connect("careful", http, version=version), await connect("careful", http, streaming=True, version=version)
    task = await ask(plain, message("buy bread"))
    check("a question is put to the client", task.status.state == INPUT_REQUIRED, task)
    check("in words", "file-system__write" in task.status.message.parts[0].text, task)
    again = await ask(plain, message("perhaps", task_id=task.id))
    check("anything else is no answer", (again.id, again.status) == (task.id, task.status), again)
    yes = message("yes", task_id=task.id)
    done = await ask(plain, yes)
    check("yes lets it go on", (done.status.state, text(done.artifacts)) == (COMPLETED, "Noted."), done)
    check("yes sent again is no other yes", (await ask(plain, yes)).id == task.id)
    pieces = await stream(live, message("buy milk"))
    check("a stream ends with the question", states(pieces)[-1] == INPUT_REQUIRED, pieces)
    status = pieces[-1].status_update
    question = status.status.message.parts[1].data.struct_value["id"]
    answer = Part(data=ParseDict({"id": question, "answer": "deny"}, Value()))
    pieces = await stream(live, message(answer, task_id=status.task_id, context_id=status.context_id))
    check("no is told to the agent", streamed(pieces) == "I was not allowed to.", pieces)


async def lists(http):
    plain = await connect("echo", http)
    await ask(plain, message("one", context_id="list"))
    await ask(plain, message("two", context_id="list"))
    first = await plain.list_tasks(ListTasksRequest(context_id="list", page_size=1, include_artifacts=True))
    check("tasks are listed, the latest first", (first.total_size, text(first.tasks[0].artifacts)) == (2, "2: two"), first)
    rest = await plain.list_tasks(ListTasksRequest(context_id="list", page_size=1, page_token=first.next_page_token))
    check("page by page", len(rest.tasks) == 1 and not rest.next_page_token and not rest.tasks[0].artifacts, rest)
    done = await plain.list_tasks(ListTasksRequest(context_id="list", status=COMPLETED))
    none = await plain.list_tasks(ListTasksRequest(context_id="list", status=WORKING))
    check("those in a state", (len(done.tasks), len(none.tasks)) == (2, 0), (done, none))


async def many(http):
    """Forty messages at once, each in a context of its own."""
    live = await connect("echo", http, streaming=True)
    all = await asyncio.gather(*(stream(live, message(f"m{number}")) for number in range(40)))
    check("forty streams do not mix", [streamed(pieces) for pieces in all] == [f"1: m{number}" for number in range(40)], all)


async def main():
    async with httpx.AsyncClient(headers=HEADERS, timeout=60) as http:
        if len(sys.argv) > 3:
            plain = await connect("echo", http)
            task = await plain.get_task(GetTaskRequest(id=sys.argv[3]))
            check("a task is known after a restart", text(task.artifacts) == "1: hello" and task.context_id, task)
            return
        await cards(http)
        task = await sends(http, "1.0")
        for version in ("1.0", "0.3"):
            print(f"version {version}")
            if version != "1.0":
                await sends(http, version)
            await streams(http, version)
            await cancels(http, version)
            await asks(http, version)
        await lists(http)
        await many(http)
        print(f"task: {task}")


asyncio.run(main())

"""Commands, attached files, approval requests, inputs during a turn and retries of the chat."""

import json
import os

from checks import holds

UP, DOWN, INTERRUPT, QUEUE = "\x1b[A", "\x1b[B", "\x03", "\x1bq"
# First letters of the row that is shown while a turn runs.
SPINNER = "⣾⣽⣻⢿⡿⣟⣯⣷"
# A PNG image of one pixel.
IMAGE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c63f8cfc0f01f00050001ff5c0b3bd60000000049454e44ae426082"
)
COMMANDS = [
    "/agent", "/agents", "/cancel", "/clear", "/compact", "/context", "/export", "/help", "/key", "/model", "/permissions",
    "/queue", "/quit", "/reasoning", "/reload", "/sessions", "/tools", "/undo", "/usage",
]

MANIFEST = """\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: scripted, model: any, options: {script: script.yaml}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: lead}
spec:
  modelConfig: {modelRef: Model/main}
  workdir: project
  tools: [{ref: Tool/bash}]
  permissions: {default: allow, rules: [{tool: bash__exec, action: ask}]}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: limited}
spec: {modelConfig: {modelRef: Model/main}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: features}
spec: {entryAgent: Agent/lead, agents: [{ref: Agent/lead}, {ref: Agent/limited}]}
"""

SCRIPT = """\
agents:
  limited:
    - error: {status: 429, message: Too many requests., retryAfterMs: 300}
    - text: answered after the wait
rules:
  - when: {role: user, contains: run the program}
    reply: {text: I run it., calls: [{id: c, tool: bash__exec, args: {command: "echo ran >> runs.txt"}}]}
  - when: {role: user, contains: wait for the file}
    reply: {calls: [{id: w, tool: bash__exec, args: {command: "until test -e go; do sleep 0.02; done"}}]}
  - when: {role: user, contains: only the tests}
    reply: {text: "the file came, and then {{ input }}"}
  - when: {role: tool, contains: E_TOOL_DENIED}
    reply: {text: "it was denied"}
  - when: {role: tool}
    reply: {text: "it ran"}
  - when: {role: user, contains: think}
    reply: {reasoning: "first thought\\nsecond thought", text: a conclusion, usage: {promptTokens: 30, completionTokens: 4}}
  - when: {role: user, contains: table}
    reply: {text: "| name | size |\\n|---|---|\\n| one | 1 |\\n| three | 33 |\\n\\n**bold**"}
  - when: {role: user, contains: long work}
    reply: {text: never, delayMs: 600000}
default: {text: "heard {{ input }}"}
"""


def write_project(folder):
    """Writes the project and the files that an input attaches."""
    project = os.path.join(folder, "q")
    os.makedirs(project)
    for name, text in [("goondan.yaml", MANIFEST), ("script.yaml", SCRIPT)]:
        with open(os.path.join(project, name), "w") as file:
            file.write(text)
    with open(os.path.join(folder, "note.txt"), "w") as file:
        file.write("words of the note\n")
    with open(os.path.join(folder, "dot.png"), "wb") as file:
        file.write(IMAGE)


class Chat:
    """The chat with one agent."""

    def __init__(self, person):
        self.person = person
        self.agent = "lead"

    def prompt(self, text=""):
        """Waits for the prompt with this text as the last row, and for the end of the turn."""
        prompt = f"you → {self.agent}> {text}".rstrip()

        def is_idle(rows):
            shown = [row for row in rows if row]
            return shown[-1:] == [prompt] and not any(row[0] in SPINNER for row in shown)

        return self.person.wait(prompt, is_idle)

    def shown(self, text):
        """Waits until the terminal shows the text, in its history as well."""
        self.person.wait(text, lambda _: any(text in row for row in self.person.terminal.history()))

    def say(self, line, *shown):
        """Sends a line, and waits for texts and the next prompt."""
        self.person.terminal.write(f"{line}\r")
        for text in shown:
            self.shown(text)
        return self.prompt()

    def runs(self):
        """Returns how often the approved program has run."""
        path = os.path.join(self.person.folder, "q", "runs.txt")
        if not os.path.exists(path):
            return 0
        with open(path) as file:
            return len(file.readlines())


def features(person):
    """Uses each feature of the chat once."""
    chat = Chat(person)
    person.terminal.write('clear; "$GDN" run q\r')
    chat.prompt()
    attachments(chat)
    listings(chat)
    formats(chat)
    approvals(chat)
    queue(chat)
    agents(chat)
    conversations(chat)
    operations(chat)
    person.terminal.write("/quit\r")
    person.wait_last("sh%")


def attachments(chat):
    chat.say("read @note.txt please, @nobody", "heard read @note.txt please, @nobody", "words of the note")
    holds(True, "@PATH: the model reads the text of a file; a word without a file stays")
    chat.say("look at @dot.png", "heard look at @dot.png")
    chat.say("/export chat.jsonl", "Written to chat.jsonl.")
    with open(os.path.join(chat.person.folder, "chat.jsonl")) as file:
        records = [json.loads(line) for line in file]
    holds("image/png" in json.dumps(records), "@PATH and /export: the image is part of the conversation")


def listings(chat):
    chat.say("/help", *(f"{command} " for command in COMMANDS if command != "/export"), "/export [FILE]", "@PATH attaches")
    holds(True, f"/help: {len(COMMANDS)} commands")
    chat.say("/tools", "bash__exec ")
    chat.say("/model", "Model/main: scripted any")
    chat.say("/permissions", "The last rule that matches a call decides:", "allow  all calls", "ask    tool bash__exec")
    chat.say("/sessions", "  lead:main", "Continue one with `/agent NAME` and `/key KEY`.")
    holds(any(row.startswith("▸ ") and row.endswith("lead:main") for row in chat.person.terminal.history()), "/tools, /model, /permissions, /sessions")
    chat.say("/wrong", "Unknown command /wrong")
    chat.person.terminal.write("/perm\t")
    chat.prompt("/permissions")
    chat.person.terminal.write(INTERRUPT)
    chat.prompt()
    holds(True, "Tab completes a command, and Ctrl-C clears the line")


def formats(chat):
    chat.say("think about it", "a conclusion")
    chat.say("/reasoning", "second thought")
    chat.say("/usage", "lead: 34 tokens (30 read, 4 written)")
    chat.say("/context", "window       128000")
    holds(True, "/reasoning, /usage, /context")
    chat.say("show the table", "three")
    seen = chat.person.terminal.history()
    holds("bold" in seen and not any("|---" in row or "**" in row for row in seen), "a table and bold words are formatted")


def ask(chat):
    """Sends an input that needs an approval, and waits for the choices. Earlier keys answer nothing."""
    chat.person.terminal.write("run the program\r")
    chat.person.wait("the choices", lambda rows: "▸ Do not allow" in rows and any(row.startswith("Allow this?") for row in rows))


def choose(chat, keys, choice):
    """Moves to a choice, and takes it."""
    for key in keys:
        chat.person.terminal.write(key)
    chat.person.wait_row(f"▸ {choice}")
    chat.person.terminal.write("\r")


def approvals(chat):
    ask(chat)
    holds(any("echo ran >> runs.txt" in row for row in chat.person.terminal.rows()), "approval: the command is in sight")
    choose(chat, [], "Do not allow")
    chat.shown("it was denied")
    chat.prompt()
    holds(chat.runs() == 0, "approval: Enter alone runs nothing")
    ask(chat)
    choose(chat, [UP, UP, UP], "Allow once")
    chat.shown("it ran")
    chat.prompt()
    holds(chat.runs() == 1, "approval: the arrow keys choose one call")
    ask(chat)
    chat.person.terminal.write("maybe\r")
    chat.person.wait_row("That is not an answer.")
    choose(chat, [UP, UP, DOWN], "Allow identical calls for this conversation")
    chat.person.wait("a second run", lambda _: chat.runs() == 2)
    chat.prompt()
    chat.person.terminal.write("run the program\r")
    chat.person.wait("a third run", lambda _: chat.runs() == 3)
    chat.prompt()
    holds(True, "approval: unclear words answer nothing, and the conversation needs no second approval")


def queue(chat):
    terminal, person = chat.person.terminal, chat.person
    terminal.write(f"long work\ra queued input{QUEUE}")
    person.wait_row("next: a queued input")
    terminal.write("and")
    person.wait_row("Enter joins the running turn before its next step. Alt-Q queues the input.")
    terminal.write(INTERRUPT)
    chat.shown("Cancelled.")
    person.wait("both texts", lambda rows: [row.strip() for row in rows if row][-2:] == ["you → lead> a queued input", "and"])
    chat.say("", "heard a queued input")
    holds(True, "Alt-Q queues an input during a turn, and Ctrl-C returns it to the prompt")
    steer(chat)
    cancelled = terminal.history().count("Cancelled.")
    terminal.write("long work\r/cancel\r")
    person.wait("the end", lambda _: terminal.history().count("Cancelled.") > cancelled)
    chat.prompt()
    holds(True, "/cancel")


def steer(chat):
    """Steers a turn whose program waits for a file."""
    terminal, person = chat.person.terminal, chat.person
    terminal.write("wait for the file\r")
    person.wait("the choices", lambda rows: "▸ Do not allow" in rows)
    choose(chat, [UP, UP, UP], "Allow once")
    person.wait("the program", lambda rows: any("runs bash__exec" in row for row in rows))
    terminal.write("only the tests\r")
    person.wait_row("joins: only the tests")
    open(os.path.join(person.folder, "q", "go"), "w").close()
    chat.shown("the file came, and then only the tests")
    chat.prompt()
    seen = terminal.history()
    texts = ("✓ bash__exec", "you → lead> only the tests", "the file came")
    places = [max(at for at, row in enumerate(seen) if text in row) for text in texts]
    holds(places == sorted(places), "Enter joins the running turn before its next step")


def operations(chat):
    """Takes back a turn, and compacts the conversation."""
    chat.say("remember bees", "heard remember bees")
    chat.say("remember wasps", "heard remember wasps")
    chat.say("/undo", "Took back the last turn: remember wasps")
    chat.say("/export undone.jsonl", "Written to undone.jsonl.")
    with open(os.path.join(chat.person.folder, "undone.jsonl")) as file:
        text = file.read()
    holds("bees" in text and "wasps" not in text, "/undo: the conversation continues before the last input")
    chat.say("/compact", " messages to 1 message: about ")
    chat.say("/compact", "There is nothing to compact.")
    holds(True, "/compact: a summary replaces the messages, once")


def agents(chat):
    chat.say("/agents", "▸ lead", "  limited")
    chat.say("/agent nobody", "There is no agent nobody; /agents lists them.")
    chat.person.terminal.write("/agent lim\t\r")
    chat.agent = "limited"
    chat.prompt()
    chat.say("hello", "Retrying", "answered after the wait")
    row = next(row for row in chat.person.terminal.history() if "Retrying" in row)
    holds("in 0.3 s" in row and "Too many requests." in row, f"a rate limit is reported with its wait: {row.strip()}")
    chat.person.terminal.write("/agent lead\r")
    chat.agent = "lead"
    chat.prompt()
    holds(True, "/agents, and /agent with Tab")


def conversations(chat):
    chat.say("/clear", "Started the conversation chat-", "Return with `/key main`.")
    chat.say("in the new one", "heard in the new one")
    chat.say("/key main")
    chat.say("/sessions", "  lead:chat-")
    marked = [row for row in chat.person.terminal.history() if row.startswith("▸ ") and ":" in row]
    holds(marked[-1].endswith("  lead:main"), "/clear, /key and /sessions")
    chat.person.terminal.write("/quit\r")
    chat.person.wait_last("sh%")
    chat.person.terminal.write('clear; "$GDN" run q\r')
    chat.prompt()
    chat.shown("Continuing the conversation lead:main (33 messages).")
    holds(True, "a second start continues the conversation")

"""A chat on the terminals of two emulators by others, pyte and tmux: terminal.py pyte|tmux FOLDER [PROGRAM THAT PANICS]

The same is done on both, in a shell, as a person does it. What each shows is compared with what was said.
"""

import os
import subprocess
import sys
import time

from checks import holds
from features import features, write_project

PATIENCE = 120.0
LINES = 5000
WAIT = "until test -e go; do sleep 0.02; done"
SHELL = ["bash", "--norc", "--noprofile", "-i"]

MANIFEST = """\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {script: script.yaml}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, workdir: project, tools: [{ref: Tool/bash}], permissions: {default: allow}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: s}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
"""


def script():
    many = "".join(f"line {number} 日本 🙂\\n" for number in range(1, LINES + 1))
    few = "".join(f"piece {number}\\n" for number in range(1, 401))
    return f"""\
rules:
  - when: {{role: user, contains: many lines}}
    reply: {{text: "{many}", chunks: 1500}}
  - when: {{role: user, contains: stream}}
    reply: {{calls: [{{id: w, tool: bash__exec, args: {{command: "{WAIT}"}}}}]}}
  - when: {{role: tool}}
    reply: {{text: "{few}", chunks: 400}}
  - when: {{role: user, contains: row 1}}
    reply: {{text: "there were {{{{ input }}}}"}}
default: {{text: "heard {{{{ input }}}}"}}
"""


class Pyte:
    """A terminal of this process, and pyte as what it shows."""

    def __init__(self, environment, folder, height, width):
        import fcntl
        import pty
        import struct
        import termios
        import threading

        import pyte

        self._size = lambda height, width: fcntl.ioctl(
            self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0)
        )
        self.screen = pyte.HistoryScreen(width, height, history=2 * LINES, ratio=0.5)
        self.stream = pyte.ByteStream(self.screen)
        self.lock = threading.Lock()
        pid, self.keyboard = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execvpe(SHELL[0], SHELL, environment)
        self._size(height, width)
        threading.Thread(target=self._show, daemon=True).start()

    def _show(self):
        while True:
            try:
                read = os.read(self.keyboard, 65536)
            except OSError:
                return
            with self.lock:
                self.stream.feed(read)

    def write(self, text):
        written = text.encode()
        while written:
            written = written[os.write(self.keyboard, written):]

    def paste(self, text):
        self.write(f"\x1b[200~{text}\x1b[201~")

    def resize(self, height, width):
        with self.lock:
            self.screen.resize(height, width)
        self._size(height, width)

    def rows(self):
        with self.lock:
            return [row.rstrip() for row in self.screen.display]

    def history(self):
        with self.lock:
            columns = self.screen.columns
            # The second half of a wide letter is an empty cell.
            above = ["".join(line[column].data for column in range(columns)) for line in self.screen.history.top]
        return [row.rstrip() for row in above] + self.rows()

    def cursor(self):
        with self.lock:
            return self.screen.cursor.x

    def left_over(self):
        """What programs have switched on and not off again."""
        import pyte.modes

        with self.lock:
            modes = self.screen.mode
        pasting, alternate = 2004 << 5, 1049 << 5
        hidden = pyte.modes.DECTCEM not in modes
        return [name for name, is_on in [("hidden cursor", hidden), ("pasting", pasting in modes), ("screen", alternate in modes)] if is_on]

    def end(self):
        os.close(self.keyboard)


class Tmux:
    """A terminal of tmux, in a server of its own."""

    def __init__(self, environment, folder, height, width):
        self.socket = f"gdn-terminal-{os.getpid()}"
        self.environment = environment
        self.folder = folder
        size = ["-x", str(width), "-y", str(height)]
        self._tmux("new-session", "-d", *size, "sleep 600", ";", "set-option", "-g", "history-limit", str(4 * LINES),
                   ";", "new-window", "-c", folder, *SHELL)

    def _tmux(self, *arguments, given=None):
        command = ["tmux", "-L", self.socket, "-f", "/dev/null", *arguments]
        done = subprocess.run(command, env=self.environment, input=given, text=True, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr}")
        return done.stdout

    def write(self, text):
        for part in text.split("\r"):
            if part:
                self._tmux("send-keys", "-l", "--", part)
            text = text[len(part):]
            if text.startswith("\r"):
                self._tmux("send-keys", "Enter")
                text = text[1:]

    def paste(self, text):
        self._tmux("load-buffer", "-", given=text.replace("\r", "\n"))
        self._tmux("paste-buffer", "-p")

    def resize(self, height, width):
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def rows(self):
        return [row.rstrip() for row in self._tmux("capture-pane", "-p").split("\n")[:-1]]

    def history(self):
        return [row.rstrip() for row in self._tmux("capture-pane", "-p", "-S", "-").split("\n")]

    def cursor(self):
        return int(self._tmux("display-message", "-p", "#{cursor_x}"))

    def left_over(self):
        shown, alternate = self._tmux("display-message", "-p", "#{cursor_flag} #{alternate_on}").split()
        return [name for name, is_on in [("hidden cursor", shown == "0"), ("screen", alternate == "1")] if is_on]

    def end(self):
        self._tmux("kill-server")


class Person:
    """Who sits in front of it."""

    def __init__(self, terminal, folder):
        self.terminal = terminal
        self.folder = folder

    def wait(self, what, fits):
        end = time.monotonic() + PATIENCE
        while True:
            rows = self.terminal.rows()
            if fits(rows):
                return rows
            if time.monotonic() > end:
                raise AssertionError(f"in vain: {what}; seen:\n" + "\n".join(rows))
            time.sleep(0.03)

    def wait_last(self, text):
        return self.wait(text, lambda rows: next((row for row in reversed(rows) if row), "") == text)

    def wait_row(self, text):
        return self.wait(text, lambda rows: any(text in row for row in rows))

    def lines_of(self, settings):
        self.terminal.write(f"stty -g > {settings}\r")
        path = os.path.join(self.folder, settings)
        self.wait(settings, lambda _: os.path.exists(path) and os.path.getsize(path) > 0)
        with open(path) as file:
            return file.read()


def is_one_input(rows):
    return sum(row.startswith("there were") for row in rows) == 1 and rows.count("row 150") == 1


def chat(person, before):
    terminal = person.terminal
    person.terminal.write('"$GDN" run p\r')
    person.wait_last("you → a>")
    terminal.write("日本🙂語")
    person.wait_last("you → a> 日本🙂語")
    person.wait("the cursor", lambda _: terminal.cursor() == 9 + 8)
    terminal.write("\r")
    person.wait_row("heard 日本🙂語")
    holds(True, "wide letters and emoji, and the cursor behind them")

    person.wait_last("you → a>")
    terminal.write("many lines\r")
    person.wait_row(f"line {LINES} ")
    person.wait_last("you → a>")
    seen = [row for row in terminal.history() if row.startswith("line ")]
    holds(seen == [f"line {number} 日本 🙂" for number in range(1, LINES + 1)], f"{LINES} lines are all there, in their order")

    terminal.paste("\r".join(f"row {number}" for number in range(1, 201)))
    person.wait_row("200 lines, ")
    terminal.write("\r")
    person.wait_row("row 199")
    person.wait_last("you → a>")
    # The answer moves into the history step by step.
    person.wait("one input", lambda _: is_one_input(terminal.history()))
    holds(True, "200 pasted lines are one input")

    terminal.write("stream\r")
    person.wait_row("a runs bash__exec")
    terminal.write("typed meanwhile")
    for height, width in [(24, 40), (10, 30), (30, 120), (24, 80)]:
        terminal.resize(height, width)
        person.wait("one prompt", lambda rows: sum(row.startswith("you → a> typed") for row in rows) == 1)
    open(os.path.join(person.folder, "p", "go"), "w").close()
    sizes = [(20, 70), (12, 100), (24, 60), (24, 80)]
    for height, width in sizes:
        terminal.resize(height, width)
    person.wait_row("piece 400")
    rows = person.wait_last("you → a> typed meanwhile")
    # Output for the old size can arrive after the change and leave a copy of the prompt above.
    copies = sum(row.startswith("you → a> typed") for row in rows) - 1
    holds(copies <= len(sizes), "another size while an answer streams keeps the prompt and its text")

    for _ in range(2):
        terminal.write("\x1a")
        person.wait_row("Stopped")
        person.wait_last("sh%")
        holds(person.lines_of("stopped") == before, "Ctrl-Z: the terminal is as before")
        os.remove(os.path.join(person.folder, "stopped"))
        terminal.write("clear; echo in the shell\r")
        person.wait("in the shell", lambda rows: rows[0] == "in the shell")
        terminal.write("fg\r")
        person.wait_last("you → a> typed meanwhile")
    terminal.write("\r")
    person.wait_row("heard typed meanwhile")
    person.wait_last("you → a>")
    holds(True, "fg: the chat goes on with what was typed")
    terminal.write("/quit\r")
    person.wait_last("sh%")
    left_over = terminal.left_over()
    holds(person.lines_of("after") == before and left_over == [], f"the end: the terminal is as before {left_over or ''}".strip())


def panic(person, before, program):
    person.terminal.write(f"clear; GDN_TEST_PANICS=1 {program} --exact commands::run::chat::terminal_guard::tests::panics --nocapture\r")
    person.wait_row("it breaks")
    person.wait_last("sh%")
    holds(person.lines_of("panicked") == before and person.terminal.left_over() == [], "a panic: the terminal is as before")


def main():
    kind, folder, *panics = sys.argv[1:]
    os.makedirs(os.path.join(folder, "p"))
    for name, text in [("goondan.yaml", MANIFEST), ("script.yaml", script())]:
        with open(os.path.join(folder, "p", name), "w") as file:
            file.write(text)
    write_project(folder)
    inputrc = os.path.join(folder, "inputrc")
    with open(inputrc, "w") as file:
        # Otherwise the shell itself enables bracketed paste at each prompt.
        file.write("set enable-bracketed-paste off\n")
    environment = {
        "PATH": os.environ["PATH"], "HOME": folder, "TERM": "xterm", "LC_ALL": "C.UTF-8", "PS1": "sh% ", "GDN": os.environ["GDN"],
        "GOONDAN_STATE_ROOT": os.path.join(folder, "state"), "GOONDAN_TRUST": "1", "HISTFILE": "", "INPUTRC": inputrc,
    }
    terminal = {"pyte": Pyte, "tmux": Tmux}[kind](environment, folder, 24, 80)
    try:
        person = Person(terminal, folder)
        person.wait_last("sh%")
        before = person.lines_of("before")
        chat(person, before)
        features(person)
        if panics:
            panic(person, before, panics[0])
    finally:
        terminal.end()
    print(f"{kind}: all right")


main()

"""Runs the code blocks of documentation pages: ci/docs_blocks.py GDN [PAGE…]

Each page has a directory of its own. Its blocks are done in their order:

* A block with `title="PATH"` after its language is written to that file. Each project that a page has written is validated.
* A `console` block runs its `$ gdn …` commands, and compares what they print. `…` in a page stands for any text.
* An `sh` block with a `gdn` command runs, and has to succeed.
* `<!-- not run: REASON -->` before a block excepts it.
* `<!-- needs: PROGRAM… -->` leaves the page out on machines without one of these programs.
* `<!-- setup`, lines of shell and `-->` runs these lines, which readers of the page do not see.
* `<!-- script`, replies and `-->` has each Model of the page play these replies from then on, in place of its provider.

Pages outside of PAGES have older blocks. Of these, whole projects (blocks with an Agent and a Swarm) are validated. Other blocks with
resources may refer to files and resources that the page does not show, so only errors in the resources themselves count.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Pages of which each block is run.
PAGES = ["docs/getting-started.md", "docs/quick-start.md", "docs/your-repository.md", "docs/concepts/*.md", "docs/guides/**/*.md", "docs/help/*.md"]
FENCE = re.compile(r"^( *)```(\w*)(.*)$")
TITLE = re.compile(r'title="([^"]+)"')
NOT_RUN = re.compile(r"^<!-- not run: .+ -->$")
NEEDS = re.compile(r"^<!-- needs: (.+) -->$", re.M)
COMMENT = re.compile(r"^<!-- (setup|script)$")
MODEL = re.compile(r"^kind: Model$", re.M)
PRICING = re.compile(r"^  pricing:\n(    .*\n)+", re.M)
SCRIPTED = "spec:\n  provider: scripted\n  model: script\n  options: {script: script.yaml}\n"
COMMAND_SECONDS = 120
# Errors of a resource that do not depend on others.
OWN_ERRORS = {"E_CONFIG_PARSE_ERROR", "E_CONFIG_SCHEMA_INVALID", "E_CONFIG_UNKNOWN_KIND", "E_CONFIG_UNSUPPORTED_API_VERSION",
              "E_CONFIG_INVALID_NAME", "E_CONFIG_INVALID_REF", "E_CONFIG_INVALID_PARAMETERS", "E_CONFIG_INVALID_VALUE_SOURCE"}
# Pages whose blocks tests of the program check: errors that are meant, and one project over the whole page.
TESTED_ELSEWHERE = {ROOT / "docs/errors.md", ROOT / "docs/reference.md"}


@dataclass
class Block:
    line: int
    language: str
    title: str
    text: str
    is_excepted: bool


def blocks_of(page):
    """Yields the blocks and the hidden comments of a page, in their order."""
    lines = page.read_text().split("\n")
    at, before = 0, ""
    while at < len(lines):
        fence, comment = FENCE.match(lines[at]), COMMENT.match(lines[at])
        start = at + 1
        if fence or comment:
            end = "-->" if comment else fence[1] + "```"
            at = lines.index(end, start)
            indent = len(fence[1]) if fence else 0
            text = "".join(line[indent:] + "\n" for line in lines[start:at])
            title = TITLE.search(fence[3]) if fence else None
            language = comment[1] if comment else fence[2]
            yield Block(start, language, title[1] if title else "", text, bool(NOT_RUN.match(before)))
        if lines[at].strip():
            before = lines[at].strip()
        at += 1


def scripted_model(document):
    """Returns the Model with the replies of the page in place of its provider. Its prices stay."""
    pricing = PRICING.search(document)
    return re.sub(r"^spec:.*", SCRIPTED, document, flags=re.M | re.S) + (pricing[0] if pricing else "")


def scripted(text):
    """Returns the YAML with each Model as one that plays `script.yaml`."""
    documents = re.split(r"^---$\n", text, flags=re.M)
    documents = [scripted_model(one) if MODEL.search(one) else one for one in documents]
    return "---\n".join(documents)


def matches(printed, expected):
    pattern = ".*?".join(re.escape(part) for part in expected.strip().split("…"))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


class PageRun:
    def __init__(self, gdn, page, directory):
        self.page, self.directory = page, Path(directory)
        self.failures, self.counts = [], {"run": 0, "excepted": 0, "projects": 0, "resources": 0}
        self.replies, self.unchecked = None, set()
        self.work = self.directory / "work"
        self.work.mkdir()
        names = re.findall(r"env: ([A-Z][A-Z0-9_]*)", page.read_text())
        self.environment = {
            "PATH": f"{Path(gdn).parent}:{os.environ['PATH']}",
            "HOME": str(self.directory),
            "GOONDAN_STATE_ROOT": str(self.directory / "state"),
            "NO_COLOR": "1",
            "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
            **{name: "a-key-of-no-provider" for name in [*names, "ANTHROPIC_API_KEY", "OPENAI_API_KEY"]},
            "SLACK_APP_TOKEN": "xapp-of-no-workspace",
        }

    def fail(self, line, text):
        self.failures.append(f"{self.page.relative_to(ROOT)}:{line}: {text}")

    def shell(self, command):
        try:
            done = subprocess.run(["sh", "-ec", command], cwd=self.work, env=self.environment, text=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            return 1, f"not over after {COMMAND_SECONDS} s"
        return done.returncode, done.stdout

    def write(self, block):
        file = self.work / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)
        if block.text.startswith("#!"):
            file.chmod(0o755)
        project = next((one for one in file.parents if (one / "goondan.yaml").exists()), None)
        if project:
            self.unchecked.add((project, block.line))

    def validate(self):
        """Validates what the page wrote, as it is in the page; then its models become scripted."""
        for project in sorted({project for project, _ in self.unchecked}):
            line = max(line for one, line in self.unchecked if one == project)
            status, printed = self.shell(f"gdn validate --strict {project}")
            self.counts["projects"] += 1
            if status:
                self.fail(line, f"gdn validate:\n{printed}")
            if self.replies is not None:
                self.play(project)
        self.unchecked = set()

    def play(self, project):
        (project / "script.yaml").write_text(self.replies)
        for file in project.glob("*.yaml"):
            file.write_text(scripted(file.read_text()))

    def console(self, block):
        commands = re.split(r"^\$ ", block.text, flags=re.M)[1:]
        for command, _, expected in (one.partition("\n") for one in commands):
            _, printed = self.shell(command)
            self.counts["run"] += 1
            if not matches(printed, expected):
                self.fail(block.line, f"{command}\nprinted:\n{printed}\nthe page shows:\n{expected}")

    def block(self, block):
        if block.is_excepted:
            self.counts["excepted"] += 1
        elif block.title:
            self.write(block)
        elif block.language == "script":
            self.validate()
            self.replies = block.text
            for file in self.work.rglob("goondan.yaml"):
                self.play(file.parent)
        elif block.language == "console":
            self.validate()
            self.console(block)
        elif block.language == "setup" or (block.language == "sh" and re.search(r"^gdn ", block.text, re.M)):
            self.validate()
            self.counts["run"] += 1
            status, printed = self.shell(block.text)
            if status:
                self.fail(block.line, f"exit status {status}:\n{printed}")
        elif block.language == "yaml" and "apiVersion: goondan.ai" in block.text:
            self.fail(block.line, 'give the block a `title="FILE"`, or mark it `<!-- not run: REASON -->`')

    def older_block(self, block):
        """Validates the resources of a block that is a project by itself, or a part of one."""
        if block.language != "yaml" or not block.text.lstrip().startswith(("apiVersion: goondan.ai", "# goondan.yaml")):
            return
        project = self.work / f"line-{block.line}"
        project.mkdir()
        (project / "goondan.yaml").write_text(block.text)
        if all(f"kind: {kind}\n" in block.text for kind in ("Agent", "Swarm")):
            self.unchecked.add((project, block.line))
            return
        _, printed = self.shell(f"gdn validate --json {project}")
        self.counts["resources"] += 1
        errors = [error for error in json.loads(printed)["errors"] if error["code"] in OWN_ERRORS]
        if errors:
            self.fail(block.line, "\n".join(f"{error['code']}: {error['message']}" for error in errors))


def main():
    gdn, *names = sys.argv[1:]
    complete = {page for pattern in PAGES for page in ROOT.glob(pattern)}
    pages = [ROOT / name for name in names] or sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - TESTED_ELSEWHERE)
    counts, failures = {"run": 0, "excepted": 0, "projects": 0, "resources": 0}, []
    for page in pages:
        needs = NEEDS.search(page.read_text())
        missing = [name for name in needs[1].split() if not shutil.which(name)] if needs else []
        if missing:
            print(f"skipped: {page.relative_to(ROOT)} needs {' and '.join(missing)}")
            continue
        with tempfile.TemporaryDirectory() as directory:
            run = PageRun(gdn, page, directory)
            for block in blocks_of(page):
                run.block(block) if page in complete else run.older_block(block)
            run.validate()
            failures += run.failures
            for key, value in run.counts.items():
                counts[key] += value
    if failures:
        print("\n\n".join(failures), file=sys.stderr)
    print(f"{counts['run']} blocks run, {counts['projects']} projects and {counts['resources']} parts validated, {counts['excepted']} blocks excepted")
    sys.exit(1 if failures else 0)


main()

//! Codes of calls to any tool. The model reads them, and a person in the logs.

use super::{call, running};

codes! {
    /// A tool failed and gave no code of its own.
    TOOL_FAILED = "E_TOOL" {
        why: "The tool itself reports the error, or `gdn` could not hand the call over or keep its result. The \
              message says what went wrong.",
        next: "Read the message. If you write the tool, give its errors codes: `ToolError::new(\"…\").code(\"…\")`.",
        more: Some("native-tools.md#what-a-function-may-look-like"),
    }
    /// The arguments of a call are not what the tool takes.
    TOOL_INVALID_ARGS = "E_TOOL_INVALID_ARGS" {
        why: "The arguments don't fit the tool's JSON Schema, or make no sense together: a required one is missing, one \
              has the wrong type, a pattern or a schedule can't be read. A call that names more than 10,000 paths is \
              refused, too. The tool did not run.",
        example: call("fs__read {\"file\": \"notes.md\"}\n", "fs__read {\"path\": \"notes.md\"}\n"),
        next: "Most models correct themselves: they read the message and the names that the tool knows. If one keeps \
               failing, describe the parameters better in the Tool. `gdn tool list` shows them.",
        more: Some("cli.md#tool"),
    }
    /// The model called a tool that it was not offered.
    TOOL_NOT_IN_CATALOG = "E_TOOL_NOT_IN_CATALOG" {
        why: "The agent does not have the tool, the name is misspelt, or an extension left it out of this step.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {system: Look at the folder with bash__exec.}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {system: Look at the folder with bash__exec.}
  tools: [{ref: Tool/bash}]
",
        ),
        next: "Add the tool to the agent's `spec.tools`, or take its name out of the prompt. `gdn tool list` shows \
               what the agent has.",
        more: Some("cli.md#tool"),
    }
    /// A program asked the registry for a tool that it does not have.
    TOOL_NOT_FOUND = "E_TOOL_NOT_FOUND" {
        why: "A Rust program that embeds `goondan` called `Registry::execute` with a name that was not registered.",
        next: "Register the tool first, or use one of the names that the message lists.",
        more: Some("tools.md"),
    }
    /// The policy does not allow the call, and it was not run.
    TOOL_DENIED = "E_TOOL_DENIED" {
        why: "A rule denies the call, somebody refused it when asked, or it needs an approval and nobody is there to \
              ask. The message names the agent and the rule. Where it speaks of a protected place, the call names a \
              file that says what agents may do, that runs later on its own, or that holds keys: YAML and prompts of \
              the project, `.git`, programs of its tools, `.env` files. Only a rule that names the place in `args` \
              allows it; a rule for `*` does not.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/fs}]
  permissions: {default: deny}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/fs}]
  permissions:
    default: deny
    rules:
      - {tool: fs__read, action: allow}
      - {tool: fs__write, args: {path: prompts/base.md}, action: allow}
",
        ),
        next: "Add the rule that the message suggests, run the swarm where somebody can be asked (`gdn run` in a \
               terminal), or leave it denied. `gdn policy explain` says which rule decides.",
        more: Some("security.md#permissions"),
    }
    /// A tool did not finish in time.
    TOOL_TIMEOUT = "E_TOOL_TIMEOUT" {
        why: "The call took longer than `spec.timeoutMs` of the Tool, or longer than a limit among its own arguments. \
              It was cancelled, and what it had begun may be half done.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: pages}
spec: {entry: builtin:http-fetch, timeoutMs: 1000}
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: pages}
spec: {entry: builtin:http-fetch, timeoutMs: 60000}
",
        ),
        next: "Ask for less at once, or raise the limit.",
    }
    /// A call was cancelled before it finished.
    TOOL_CANCELLED = "E_TOOL_CANCELLED" {
        why: "Somebody cancelled the turn (Ctrl-C, a shutdown), or the agent that waited for the answer stopped \
              waiting.",
        next: "Nothing, if that was intended. Look at what the call left behind before you repeat it.",
    }
    /// The process ended while a tool was running, and nobody knows how far it came.
    TOOL_INTERRUPTED = "E_TOOL_INTERRUPTED" {
        why: "The process was killed or the power failed during the call. The next start goes on with the turn and does \
              not run the call again, because that could do its work twice. Exports that are `readOnly` or \
              `idempotent` are run again.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: text-utils}
spec:
  entry: ./tools/text-utils
  exports: [{name: count_words}]
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: text-utils}
spec:
  entry: ./tools/text-utils
  exports: [{name: count_words, readOnly: true}]
",
        ),
        next: "Look at what the call left behind. Mark exports that may be repeated as `readOnly` or `idempotent`.",
        more: Some("durability.md#what-is-not-promised"),
    }
    /// A tool panicked.
    TOOL_PANIC = "E_TOOL_PANIC" {
        why: "The code of the tool has a fault. The panic ended the call and nothing else.",
        next: "Report it to whoever writes the tool, with the message and the arguments. Other arguments or another \
               tool may help meanwhile.",
        more: Some("native-tools.md"),
    }
    /// The tool can't be used right now, or not in this program.
    TOOL_UNAVAILABLE = "E_TOOL_UNAVAILABLE" {
        why: "Its library was closed by a reload, its process crashed, too many of its calls never came back, or it \
              needs something that this host does not offer, such as other agents.",
        next: "Try again. If the message says that the host lacks something, run the tool with `gdn run`, or give it to \
               `SwarmBuilder` in your own program.",
        more: Some("native-tools.md#limits"),
    }
    /// A program was not run, because it could not be contained as the project wants.
    TOOL_SANDBOX = "E_TOOL_SANDBOX" {
        why: "Its limits or its sandbox can't be had here: the kernel is too old, the system is not Linux, or a program \
              embeds `goondan` without a helper. Nothing ever runs without the containment that you asked for.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: shell}
spec: {entry: builtin:bash, config: {sandbox: true}}
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: shell}
spec: {entry: builtin:bash}
",
        ),
        next: "Run the swarm on a system that can contain programs (`gdn doctor` tells), or take `sandbox` or `limits` \
               out of the YAML.",
        more: Some("security.md#programs"),
    }
    /// A model asked for too many calls at once.
    TOOL_TOO_MANY_CALLS = "E_TOOL_TOO_MANY_CALLS" {
        why: "One answer of a model holds more than 1,000 calls. The first 1,000 ran.",
        next: "Nothing: the model reads it and asks again. If it happens often, say in the prompt how much to do at a \
               time.",
    }
}

//! Codes of tool calls. Models read them, and people in the logs.

use super::{call, run_time_yaml};

codes! {
    /// A tool failed and returned no code.
    TOOL_FAILED = "E_TOOL" {
        why: "The tool reported an error without a code, or `gdn` could not deliver the call or \
            store its result. The \
              message contains the cause.",
        next: "Read the message. If you develop the tool, give its errors codes: \
            `ToolError::new(\"…\").code(\"…\")`.",
        more: Some("native-tools.md#what-a-function-may-look-like"),
    }
    /// The arguments of a call are not valid for the tool.
    TOOL_INVALID_ARGS = "E_TOOL_INVALID_ARGS" {
        why: "The arguments do not match the tool's JSON Schema, or contradict each other. For \
            example, a required \
              argument is missing, has the wrong type, or contains an invalid pattern or schedule. \
            A call with more \
              than 10,000 paths is also refused. The tool did not run.",
        example: call("fs__read {\"file\": \"notes.md\"}\n", "fs__read {\"path\": \"notes.md\"}\n"),
        next: "Most models correct the call, because the message lists the valid names. If a model \
            keeps failing, \
              improve the parameter descriptions in the Tool. `gdn tool list` shows them.",
        more: Some("cli.md#tool"),
    }
    /// The model called a tool that it was not offered.
    TOOL_NOT_IN_CATALOG = "E_TOOL_NOT_IN_CATALOG" {
        why: "The agent does not have the tool, the name is misspelled, or an extension removed \
            the tool from this \
              step.",
        example: run_time_yaml(
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
        next: "Add the tool to the agent's `spec.tools`, or remove its name from the prompt. `gdn \
            tool list` shows the \
              tools of each agent.",
        more: Some("cli.md#tool"),
    }
    /// A program requested a tool that is not in the registry.
    TOOL_NOT_FOUND = "E_TOOL_NOT_FOUND" {
        why: "A Rust program that embeds `goondan` called `Registry::execute` with a name that is \
            not registered.",
        next: "Register the tool first, or use one of the names that the message lists.",
        more: Some("tools.md"),
    }
    /// The policy did not allow the call, so the tool did not run.
    TOOL_DENIED = "E_TOOL_DENIED" {
        why: "A rule denies the call, the user rejected it, or it needs an approval and no client \
            can prompt the user. \
              The message names the agent and the rule. If the message mentions a protected place, \
            the call concerns a \
              file that sets permissions, runs later or contains keys. Examples are YAML files and \
            prompts of the \
              project, `.git`, programs of its tools and `.env` files. Only a rule with that place \
            in `args` allows \
              such a call. A rule for `*` does not.",
        example: run_time_yaml(
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
        next: "Add the rule that the message suggests, or run the swarm with an approval prompt, \
            for example `gdn run` \
              in a terminal. `gdn policy explain` shows the rule that decides. No change is needed \
            if the denial is \
              intended.",
        more: Some("permissions.md"),
    }
    /// A tool did not finish in time.
    TOOL_TIMEOUT = "E_TOOL_TIMEOUT" {
        why: "The call took longer than `spec.timeoutMs` of the Tool, or longer than a limit in \
            its own arguments. \
              `gdn` cancelled the call, so its effects may be incomplete.",
        example: run_time_yaml(
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
        next: "Request less at once, or raise the limit.",
    }
    /// A call was cancelled before it finished.
    TOOL_CANCELLED = "E_TOOL_CANCELLED" {
        why: "The user cancelled the turn with Ctrl-C, the swarm was shut down, or the requesting \
            agent stopped \
              waiting.",
        next: "No action is needed if the cancellation was intended. Check the effects of the call \
            before you repeat \
              it.",
    }
    /// The process ended while a tool was running, so its result is unknown.
    TOOL_INTERRUPTED = "E_TOOL_INTERRUPTED" {
        why: "The process was killed or the power failed during the call. The next start resumes \
            the turn without the \
              call, because a second run could repeat its effects. Calls of exports marked \
            `readOnly` or `idempotent` \
              run again.",
        example: run_time_yaml(
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
        next: "Check the effects of the call. Mark exports that may run twice as `readOnly` or \
            `idempotent`.",
        more: Some("durability.md#what-is-not-promised"),
    }
    /// A tool panicked.
    TOOL_PANIC = "E_TOOL_PANIC" {
        why: "The code of the tool has a bug. The panic ended only this call.",
        next: "Report the message and the arguments to the developer of the tool. Until it is \
            fixed, try other \
              arguments or another tool.",
        more: Some("native-tools.md"),
    }
    /// The tool is temporarily unavailable, or this program does not support it.
    TOOL_UNAVAILABLE = "E_TOOL_UNAVAILABLE" {
        why: "A reload closed its library, its process crashed, or too many of its calls never \
            returned. Or the tool \
              needs a capability that this program does not provide, such as other agents.",
        next: "Try again. If the message names a missing capability, run the tool with `gdn run`, \
            or add the \
              capability to `SwarmBuilder` in your own program.",
        more: Some("native-tools.md#limits"),
    }
    /// A program did not run, because the required sandbox or limits are not available.
    TOOL_SANDBOX = "E_TOOL_SANDBOX" {
        why: "The system cannot provide the configured sandbox or limits. The kernel is too old, \
            the system is not \
              Linux, or a program embeds `goondan` without a helper. Programs never run without \
            their configured \
              containment.",
        example: run_time_yaml(
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
        next: "Run the swarm on a system with sandbox support, which `gdn doctor` checks. \
            Otherwise remove `sandbox` \
              or `limits` from the YAML.",
        more: Some("sandbox.md#programs"),
    }
    /// A model requested too many calls at once.
    TOOL_TOO_MANY_CALLS = "E_TOOL_TOO_MANY_CALLS" {
        why: "One model response contains more than 1,000 calls. The first 1,000 ran.",
        next: "No action is needed, because the model gets this error and can call again. If it \
            occurs often, limit \
              the work per step in the prompt.",
    }
}

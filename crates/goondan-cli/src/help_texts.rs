//! Explanations of the commands, and examples of commands that define none in their own file.

/// Explanation of a command.
pub(crate) struct CommandText {
    /// Command without `gdn`, such as `new tool`.
    pub(crate) command: &'static str,
    /// Sentences after the description.
    pub(crate) text: &'static str,
    /// Example lines, if the file of the command has none.
    pub(crate) examples: &'static str,
}

/// Creates a row for a command with examples in its own file.
const fn row(command: &'static str, text: &'static str) -> CommandText {
    with_examples(command, text, "")
}

/// Creates a row with examples.
const fn with_examples(
    command: &'static str,
    text: &'static str,
    examples: &'static str,
) -> CommandText {
    CommandText {
        command,
        text,
        examples,
    }
}

/// All explanations, in the order of the help.
pub(crate) const COMMAND_TEXTS: &[CommandText] = &[
    row(
        "",
        "A project is a directory with a goondan.yaml, which declares agents, their models, tools and \
         permissions. `gdn init` creates a project, `gdn validate` checks it, and `gdn run` starts \
         its swarm. Commands find the project in the current directory or the nearest one above.\n\n\
         Results go to standard output, all other output to standard error. Exit codes: 0 success, \
         1 failure, 2 invalid command line, 3 something is missing, 4 invalid project, 5 unreachable \
         endpoint, 6 refused key, 7 untrusted project.",
    ),
    row(
        "init",
        "Without `--provider`, the model is a script, so the project runs without an API key. \
         `--provider` writes a real model; its key comes from the environment or a .env file. \
         Existing files are kept unless you pass `--force`.",
    ),
    with_examples(
        "new",
        "In a project, the command writes the resource next to its other files and checks the \
         project. It never overwrites a file. Tools, extensions and connectors come with code, a \
         scripted project and a test case.",
        "  gdn new agent reviewer --model openai/gpt-5\n  gdn new tool word-count\n  \
         gdn new mcp tickets --url https://tickets.example.com/mcp",
    ),
    row(
        "new tool",
        "The directory contains the code, a project with a scripted model, and a test case. In a \
         project, the command also writes a Tool resource. Add it to an agent's `tools` to use it.",
    ),
    row(
        "new extension",
        "An extension observes or changes the turns, steps and tool calls of its agents. The \
         directory contains the code, a project with a scripted model, and a test case.",
    ),
    row(
        "new connector",
        "A connector receives the events of a platform and sends the answers. The test case runs it \
         with typed lines as input, without the platform.",
    ),
    row(
        "new agent",
        "Writes agents/NAME.yaml. `--model PROVIDER/MODEL` needs no Model resource. The command prints \
         the next step, such as the line for the Swarm.",
    ),
    row(
        "new model",
        "Writes models/NAME.yaml. The key is in the provider's usual variable unless \
         `--key-variable` names another one.",
    ),
    row(
        "new connection",
        "Writes connections/NAME.yaml with the connector's settings. Secrets become environment \
         variables, and the command lists them.",
    ),
    row(
        "new mcp",
        "Writes tools/NAME.yaml, a Tool with an MCP server. The arguments after `--` are the command \
         that starts the server.",
    ),
    row(
        "trust",
        "A project of another author could run programs, read secrets or send data. Until you trust \
         its directory, `gdn` only reads its files. The command shows the requested access with file \
         and line. Trust covers all directories below, and later changes of the project.",
    ),
    with_examples(
        "trust add",
        "Shows the requested access of the project, then trusts the directory and everything below \
         it.",
        "  gdn trust add               Trust the project in this directory\n  \
         gdn trust add ~/src         Trust this directory and everything below it",
    ),
    with_examples(
        "trust list",
        "The list is the file trust.json in the state root.",
        "  gdn trust list\n  gdn trust list --json",
    ),
    with_examples(
        "trust remove",
        "Removes a directory from the list of trusted directories, or a package by its name.",
        "  gdn trust remove ~/src          Revoke trust in a directory\n  \
         gdn trust remove @acme/tools    Revoke trust in a package",
    ),
    row(
        "package",
        "A package is a project that other projects depend on, from a registry, an archive or a \
         directory. goondan.lock.yaml records the exact versions and content hashes.",
    ),
    with_examples(
        "package init",
        "Adds a Package document to goondan.yaml. The project stays runnable.",
        "  gdn package init @acme/tools",
    ),
    with_examples(
        "package add",
        "Writes the dependency into the Package document and installs it. A registry dependency gets \
         a version range; `--exact` writes the exact version.",
        "  gdn package add oci://ghcr.io/acme/tools\n  gdn package add ../tools",
    ),
    with_examples(
        "package install",
        "Installs the versions in the lock file, and resolves new dependencies. `--frozen` fails if \
         the lock file would change.",
        "  gdn package install\n  gdn package install --frozen     Fail if the lock file would change",
    ),
    with_examples(
        "package remove",
        "Removes the dependency from goondan.yaml and the lock file.",
        "  gdn package remove @acme/tools",
    ),
    with_examples(
        "package update",
        "Chooses the newest version within each version range and records it in the lock file. \
         Without a name, it updates all dependencies.",
        "  gdn package update\n  gdn package update @acme/tools",
    ),
    with_examples(
        "package list",
        "Shows each package with its version and source, including indirect dependencies.",
        "  gdn package list\n  gdn package list --json",
    ),
    with_examples(
        "package pack",
        "Checks the project and writes the archive, without sending it anywhere.",
        "  gdn package pack",
    ),
    with_examples(
        "package publish",
        "Checks the project, packs it and uploads it to a registry, with the credentials of `docker \
         login` or `podman login`.",
        "  gdn package publish oci://ghcr.io/acme/tools",
    ),
    row(
        "validate",
        "Reads all files of the project and plans each swarm as a start does, without running code \
         of the project. Each error has file, line, column and a fix. A missing key, variable or \
         runtime is a warning, because another machine may have it.",
    ),
    row(
        "test",
        "Test cases are *.case.yaml files. Each one starts a swarm with a scripted model in an own \
         directory, performs its steps and compares the result. `--live` uses the real models of \
         the project and counts how often each check passes.",
    ),
    with_examples(
        "test record",
        "Writes a test case with the inputs, model answers and tool results of a conversation. \
         Secrets become placeholders. The command first runs the case, so it passes when it is \
         written.",
        "  gdn test record --instance assistant:main -o bees.case.yaml",
    ),
    with_examples(
        "policy",
        "Shows the effect of an agent's `permissions` without running anything, and lists the \
         approvals that users gave for more than one call.",
        "  gdn policy explain --agent assistant --tool bash__exec --args '{\"command\": \"git log\"}'\n  \
         gdn policy approvals",
    ),
    row(
        "policy explain",
        "Evaluates the rules of the agent and of its callers for one call: allow, ask or deny, the \
         rule that decides, and the sandbox of the command. Nothing runs.",
    ),
    row(
        "policy approvals",
        "Lists the approvals that cover a conversation or the whole project. An approval ends when \
         its tool, sandbox or approved files change.",
    ),
    with_examples(
        "policy approvals remove",
        "Conversation approvals can be revoked only while no swarm is running.",
        "  gdn policy approvals remove 2        Revoke the second approval\n  \
         gdn policy approvals remove --all    Revoke all approvals",
    ),
    row(
        "explain",
        "Prints the meaning of a code, an example, and the fix. Without a code, it lists all codes.",
    ),
    row(
        "doctor",
        "Checks the state directory, the shell, the sandbox and support for libraries. It also checks \
         the project, its trust and the keys of its models. A missing key is a warning. It sends no \
         model request; `gdn models --test` does.",
    ),
    row(
        "run",
        "With INPUT or piped input, the command prints one answer and exits. On a terminal without \
         INPUT, it starts a chat. Inside a project, PATH can be omitted if the input contains a \
         space. The same instance key continues the same conversation. If another process already \
         runs the swarm, the command uses that process.",
    ),
    row(
        "serve",
        "Serves the HTTP API, OpenAI-compatible endpoints, MCP, A2A and AG-UI on one port, and runs the \
         Connections of the project. Clients send a token; without `--token-file` or GOONDAN_TOKEN, \
         the command generates one.",
    ),
    row(
        "studio",
        "Shows conversations, traces, approval requests and failed events. If the swarm already \
         runs, the page shows that process. Otherwise the command starts the swarm. With `--edit`, the \
         page can change prompts and YAML files of the project.",
    ),
    row(
        "send",
        "Returns when the input is on disk, without waiting for the answer. `gdn attach` or `gdn \
         logs --follow` shows the turn.",
    ),
    row(
        "attach",
        "Shows events of all agents until Ctrl-C; the swarm continues. The first answer to an \
         approval request counts, from whichever client it comes.",
    ),
    row(
        "ps",
        "Shows the Swarm, process, generation, agents and project of each running swarm in the state \
         root.",
    ),
    row(
        "stop",
        "Asks the process to stop, as Ctrl-C does, and waits up to 5 seconds for its end. Unfinished \
         turns resume at the next start.",
    ),
    row(
        "cancel",
        "The turn ends with the finish reason `cancelled`, and its running tool calls are stopped. \
         Queued inputs of the conversation stay.",
    ),
    row(
        "reload",
        "Applies the changed files of a running project at the next step of each turn. A project \
         with errors is refused, and the running version continues. `--dry-run` only compares.",
    ),
    row(
        "build",
        "Runs the `spec.build` commands of Tools, Extensions and Connectors, one after the other. The \
         output of a command is shown if the command fails, and always with `-v`.",
    ),
    with_examples(
        "conversation",
        "A conversation is the history of one agent under one key, written AGENT:KEY. `delete`, \
         `retry` and `import` need a stopped swarm; `fork` needs a running one.",
        "  gdn conversation list\n  gdn conversation show assistant:main --last 5",
    ),
    with_examples(
        "conversation list",
        "Lists the conversations of the current project, or of all projects outside of one.",
        "  gdn conversation list\n  gdn conversation list --all",
    ),
    with_examples(
        "conversation show",
        "Prints the messages, unfinished work and failed events. A tool call without a known \
         outcome is marked `uncertain`. `--context` shows what the last model call contained.",
        "  gdn conversation show assistant:main\n  gdn conversation show assistant:main --context",
    ),
    with_examples(
        "conversation retry",
        "Starts the swarm and runs the failed events again, one after the other.",
        "  gdn conversation retry assistant:main",
    ),
    with_examples(
        "conversation fork",
        "Copies the conversation in the process that runs the swarm, and prints the name of the \
         copy.",
        "  gdn conversation fork assistant:main",
    ),
    with_examples(
        "conversation export",
        "Values of environment variables with names such as KEY or TOKEN are replaced by `***`. \
         Files and waiting events are left out.",
        "  gdn conversation export assistant:main -o main.jsonl\n  gdn conversation export --all -o all.jsonl",
    ),
    with_examples(
        "conversation import",
        "Imports all conversations of the file, or none if one is invalid or exists already. \
         Imported messages count as untrusted text.",
        "  gdn conversation import main.jsonl\n  gdn conversation import main.jsonl --as assistant:copy",
    ),
    with_examples(
        "conversation adopt",
        "After a project directory is moved or renamed, this makes the old workspace the \
         workspace of the project. The previous workspace is kept under another ID.",
        "  gdn conversation adopt newsroom-3f2a",
    ),
    with_examples(
        "conversation delete",
        "Deletes the conversation, its working directory and its approvals, after a prompt. \
         Without a terminal, it needs `--force`.",
        "  gdn conversation delete assistant:ticket-42\n  gdn conversation delete assistant:ticket-42 --force",
    ),
    row(
        "logs",
        "Shows the events of all runs from the workspace, oldest first, by default the last 200. It \
         needs no running swarm. `--trace` shows one input with all agents that worked on it.",
    ),
    row(
        "tool",
        "Calls go through the same checks as calls of a model: schema, permissions, approvals, \
         sandbox, timeouts and output limits.",
    ),
    with_examples(
        "tool list",
        "Shows the name, description and parameters of each tool, as the model gets them.",
        "  gdn tool list\n  gdn tool list --agent writer --json",
    ),
    with_examples(
        "tool call",
        "Arguments are a JSON object. The exit code is 0 if the call succeeds and 1 if it fails.",
        "  gdn tool call text-transform__case --args '{\"text\": \"hi\", \"to\": \"upper\"}'",
    ),
    row(
        "models",
        "Lists each Model with its provider, and the error of a Model without a key. `--test` sends one \
         small request to each Model and shows the time until its answer. It needs a trusted project.",
    ),
    row(
        "mcp",
        "A Tool with `spec.mcp` offers the tools of an MCP server to agents. `mcp serve` does the \
         reverse: it offers agents as tools to an MCP client.",
    ),
    with_examples(
        "mcp list",
        "Shows the tools of the last connection. `--connect` starts or contacts the servers, which \
         needs a trusted project.",
        "  gdn mcp list\n  gdn mcp list --connect",
    ),
    with_examples(
        "mcp import",
        "Reads the configuration of another MCP client and prints Tool resources. `--write` writes \
         them to tools/mcp.yaml.",
        "  gdn mcp import .mcp.json\n  gdn mcp import --write",
    ),
    with_examples(
        "mcp login",
        "Opens the login page of the server in a browser and stores the tokens in the state root.",
        "  gdn mcp login github",
    ),
    with_examples(
        "mcp logout",
        "Deletes the tokens of the login from the state root.",
        "  gdn mcp logout github",
    ),
    with_examples(
        "mcp serve",
        "Communicates over standard input and output, as MCP clients start their servers. Each agent \
         is a tool `ask_NAME` with the arguments `input` and `conversation`.",
        "  gdn mcp serve                 Serve this directory's project\n  \
         gdn mcp serve my-swarm        Serve another project",
    ),
    row(
        "connection",
        "A Connection receives the events of a platform, such as Slack or a schedule, and sends the \
         answers. Connections run while `gdn run` or `gdn serve` runs the swarm.",
    ),
    with_examples(
        "connection list",
        "Shows the state of each Connection, senders that wait for approval, replies that were not \
         delivered, and the next time of a schedule.",
        "  gdn connection list\n  gdn connection list --json",
    ),
    with_examples(
        "connection approve",
        "Telegram and Discord accept only approved senders. The sender gets a code or is listed by \
         `gdn connection list`.",
        "  gdn connection approve desk 1234567",
    ),
    with_examples(
        "connection test",
        "Shows the agent and the conversation that a sample event reaches. `--event` replaces parts \
         of the sample.",
        "  gdn connection test desk\n  \
         gdn connection test desk --event '{\"text\": \"Hi\", \"properties\": {\"chatId\": \"7\"}}'",
    ),
    with_examples(
        "acp",
        "Editors with the Agent Client Protocol, such as Zed, start this command and talk to it over \
         standard input and output.",
        "  gdn acp                       Serve this directory's project\n  \
         gdn acp my-swarm              Serve another project",
    ),
    with_examples(
        "lsp",
        "Editors start this command. It reports errors while you type, and offers completion, quick \
         fixes, hover texts and renames.",
        "  gdn lsp                       Editors start it without arguments",
    ),
    row(
        "backup",
        "The copy is consistent even while a swarm runs. It contains the conversations, waiting events \
         and files of one workspace.",
    ),
    row(
        "restore",
        "It does not change an existing workspace; `--workspace` restores under another ID.",
    ),
    row(
        "nodes",
        "Reads a PostgreSQL database, and shows the workspace, role, running turns and machine of each \
         node with a recent heartbeat.",
    ),
    row(
        "self",
        "Works if an installer installed this copy. Otherwise, the command prints the command to run.",
    ),
    row(
        "self update",
        "Works if an installer installed this copy. Otherwise, the command prints the command to run.",
    ),
    row(
        "schema",
        "The schemas describe the fields of each kind, for editors and other tools. `gdn validate` \
         also checks references and files, which no schema can.",
    ),
    row(
        "completions",
        "The script completes commands and options, and also names of agents, tools and \
         conversations of the project.",
    ),
    row("man", "Writes one page for `gdn` and one for each command."),
];

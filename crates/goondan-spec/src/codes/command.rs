//! Codes of the command `gdn` itself.

use super::shell;

codes! {
    /// The command line can't be understood.
    INVALID_ARGUMENT = "INVALID_ARGUMENT" {
        why: "An option or a value is unknown, two options exclude each other, or a name fits nothing or several things. \
              With `--input-format stream-json`, it also answers a line that is not an input. `gdn` ends with exit code 2.",
        example: shell("gdn run --inpt \"Hello\"\n", "gdn run --input \"Hello\"\n"),
        next: "Follow the suggestion. `gdn COMMAND --help` lists all options.",
        more: Some("cli.md#exit-codes"),
    }
    /// Something that the command needs is not there, or can't be used.
    CONFIG_ERROR = "CONFIG_ERROR" {
        why: "A project, a file, a folder, a variable or a running swarm is missing, or a file can't be written. `gdn` ends \
              with exit code 3, or 4 where the project itself keeps the swarm from starting.",
        example: shell("gdn run my-swrm --input \"Hello\"\n", "gdn run my-swarm --input \"Hello\"\n"),
        next: "Follow the suggestion. `gdn init` creates a project, and `gdn doctor` checks the machine and the project.",
        more: Some("cli.md#exit-codes"),
    }
    /// The project has errors, so nothing was run.
    VALIDATION_ERROR = "VALIDATION_ERROR" {
        why: "At least one file of the project has an error. Each is listed above with a code of its own. `gdn` ends with \
              exit code 4.",
        next: "Correct the YAML where the lines point, then check with `gdn validate`. `gdn explain CODE` explains each \
               code.",
        more: Some("cli.md#validate"),
    }
    /// Building a tool failed.
    BUILD_FAILED = "BUILD_FAILED" {
        why: "The command in `spec.build` of a Tool, an Extension or a Connector can't be started, ended with an error or took too long; or it succeeded, \
              and what it made is not where `spec.entry` points.",
        next: "Correct what the lines above say, then run `gdn build` again.",
        more: Some("cli.md#build"),
    }
    /// There is no such connection.
    CONNECTION_NOT_FOUND = "CONNECTION_NOT_FOUND" {
        why: "No Connection of that name feeds the swarm, or its Connector is a file that is no JavaScript, TypeScript or Python.",
        example: shell("gdn connection test deks\n", "gdn connection test desk\n"),
        next: "`gdn connection list` shows the connections that there are.",
        more: Some("connections.md"),
    }
    /// The conversation can't be made into a case.
    CASE_NOT_RECORDED = "CASE_NOT_RECORDED" {
        why: "`gdn test record` writes a case only if it passes. A turn that failed, was cancelled or began with a schedule, an \
              attachment, an answer that came at no certain time, and answers of models that are not kept any more can't be \
              played again. A project that has changed since the conversation may answer in another way.",
        next: "Choose turns that can be played with `--turn`, or write the case by hand.",
        more: Some("conformance.md#recording-a-conversation"),
    }
    /// There is no such conversation.
    INSTANCE_NOT_FOUND = "INSTANCE_NOT_FOUND" {
        why: "No conversation has that name in the place that was looked at: the project around this folder, or all \
              projects with `--all`.",
        example: shell("gdn instance show writer\n", "gdn instance list --all\ngdn instance show writer:main --all\n"),
        next: "See which there are with `gdn instance list --all`. `--state-root` chooses another place.",
        more: Some("cli.md#instance"),
    }
    /// There is a conversation of that name already.
    INSTANCE_EXISTS = "INSTANCE_EXISTS" {
        why: "`gdn instance import` overwrites nothing.",
        example: shell(
            "gdn instance import conversation.jsonl\n",
            "gdn instance import conversation.jsonl --as writer:copy\n",
        ),
        next: "Choose another name with `--as AGENT:KEY`, or delete the old one first.",
        more: Some("cli.md#instance"),
    }
    /// A file is not what `gdn instance export` writes.
    IMPORT_ERROR = "IMPORT_ERROR" {
        why: "A line is broken, the file ends too early, a later version wrote it, or it holds several conversations where \
              one was asked for. Nothing was imported.",
        next: "Export the conversation again, with the same version of `gdn`.",
        more: Some("cli.md#instance"),
    }
    /// There is no such workspace.
    WORKSPACE_NOT_FOUND = "WORKSPACE_NOT_FOUND" {
        why: "`--workspace` names a workspace that is not below the state root.",
        next: "Use one of the ids that the message lists. `--state-root` chooses another place.",
        more: Some("durability.md#workspaces"),
    }
    /// A workspace can't be used right now.
    WORKSPACE_ERROR = "WORKSPACE_ERROR" {
        why: "Another process holds it (the message says which), it belongs to another project, or its folder can't be \
              written. Nothing was changed.",
        next: "Wait until that process has ended, or end it with Ctrl-C.",
        more: Some("durability.md#workspaces"),
    }
    /// The database of `--store` can't be used.
    DATABASE_ERROR = "DATABASE_ERROR" {
        why: "The address names no PostgreSQL database, the database can't be reached, it is older than PostgreSQL 14, or its \
              user may not do what is needed; the message says which. Nothing was changed.",
        next: "Try the address with `psql`. The user needs the right to make a schema the first time.",
        more: Some("scaling.md"),
    }
    /// Another node has taken over the workspace.
    WORKSPACE_TAKEN = "WORKSPACE_TAKEN" {
        why: "This process stood still, or did not reach the database, for so long that another node has taken over. It has \
              changed nothing since.",
        next: "Start it again: it waits until the other node ends. `gdn nodes --store URL` shows who works.",
        more: Some("scaling.md#nodes"),
    }
    /// No process runs the swarm.
    NOT_RUNNING = "NOT_RUNNING" {
        why: "`gdn send` and `gdn attach` talk to the process that runs the swarm, and there is none.",
        example: shell("gdn send hello\n", "gdn run --input hello\n"),
        next: "Start one with `gdn serve` or `gdn run`.",
        more: Some("cli.md#send"),
    }
    /// A client of `gdn lsp` sent something that is no message.
    LSP_PROTOCOL = "E_LSP_PROTOCOL" {
        why: "`gdn lsp` talks with editors by the Language Server Protocol: a header with the length, then JSON. What came on \
              standard input is something else, or the connection broke.",
        next: "Let an editor start the command; `docs/editors.md` has the lines for several.",
        more: Some("editors.md#the-language-server"),
    }
    /// The newest version could not be installed.
    UPDATE_ERROR = "UPDATE_ERROR" {
        why: "`gdn self update` can't reach the place that `gdn` was installed from, what it got from there is not what it \
              should be, or the files can't be replaced. The version that was installed before is still there.",
        next: "Follow the suggestion. Running the installer again does the same from the beginning.",
        more: Some("installing.md#updates"),
    }
    /// `git init` failed.
    GIT_ERROR = "GIT_ERROR" {
        why: "`gdn init --git` wrote the files of the project, and git could not make a repository of the folder.",
        example: shell("gdn init my-swarm --git\n", "gdn init my-swarm\n"),
        next: "Install git, or leave `--git` out.",
        more: Some("cli.md#init"),
    }
    /// The command was stopped.
    INTERRUPTED = "INTERRUPTED" {
        why: "You pressed Ctrl-C (exit code 130), or the system asked `gdn` to end (143). A turn that was not over goes on \
              with the next start.",
        next: "Nothing, if that was intended.",
        more: Some("cli.md#exit-codes"),
    }
    /// The command failed for a reason that has no code of its own.
    INTERNAL_ERROR = "INTERNAL_ERROR" {
        why: "Input or output failed, the terminal can't be used, or a running swarm ended or kept silent when it should \
              have answered. The message says what happened.",
        next: "Remove the cause that the message names. If there is none, report it with the output of `gdn doctor`.",
    }
}

//! Codes of the command `gdn`.

use super::shell;

codes! {
    /// The command line is not valid.
    INVALID_ARGUMENT = "INVALID_ARGUMENT" {
        why: "An option or a value is unknown, two options exclude each other, or a name matches \
            nothing or several \
              things. With `--input-format stream-json`, the code also reports an invalid input \
            line. `gdn` exits with \
              code 2.",
        example: shell("gdn run --inpt \"Hello\"\n", "gdn run --input \"Hello\"\n"),
        next: "Follow the suggestion. `gdn COMMAND --help` lists all options.",
        more: Some("cli.md#exit-codes"),
    }
    /// A resource that the command needs is missing or unusable.
    CONFIG_ERROR = "CONFIG_ERROR" {
        why: "A project, a file, a directory, a variable or a running swarm is missing, or a file \
            cannot be written. \
              `gdn` exits with code 3, or with code 4 if the project itself prevents the start.",
        example: shell("gdn run my-swrm --input \"Hello\"\n", "gdn run my-swarm --input \
            \"Hello\"\n"),
        next: "Follow the suggestion. `gdn init` creates a project, and `gdn doctor` checks the \
            machine and the \
              project.",
        more: Some("cli.md#exit-codes"),
    }
    /// The project has errors, so nothing was run.
    VALIDATION_ERROR = "VALIDATION_ERROR" {
        why: "At least one file of the project has an error. Each error is listed above with its \
            own code. `gdn` exits \
              with code 4.",
        next: "Correct the listed lines, then run `gdn validate`. `gdn explain CODE` explains each \
            code.",
        more: Some("cli.md#validate"),
    }
    /// Building a tool failed.
    BUILD_FAILED = "BUILD_FAILED" {
        why: "The command in `spec.build` of a Tool, an Extension or a Connector did not start, \
            failed or timed out. \
              Or it succeeded, but its output is not at the path in `spec.entry`.",
        next: "Correct the errors in the lines above, then run `gdn build` again.",
        more: Some("cli.md#build"),
    }
    /// The swarm has no connection of that name.
    CONNECTION_NOT_FOUND = "CONNECTION_NOT_FOUND" {
        why: "The swarm has no Connection of that name. Or its Connector is a file in a language \
            other than \
              JavaScript, TypeScript or Python.",
        example: shell("gdn connection test deks\n", "gdn connection test desk\n"),
        next: "Use one of the names that `gdn connection list` shows.",
        more: Some("connections.md"),
    }
    /// The conversation cannot be converted to a test case.
    CASE_NOT_RECORDED = "CASE_NOT_RECORDED" {
        why: "`gdn test record` writes a test case only if it passes. It cannot replay a turn that \
            failed, was \
              cancelled, or began with a schedule or an attachment. It also cannot replay an \
            answer that arrived at no \
              defined time, or model responses that are no longer stored. If the project has \
            changed since the \
              conversation, its answers may differ.",
        next: "Select replayable turns with `--turn`, or write the test case by hand.",
        more: Some("conformance.md#recording-a-conversation"),
    }
    /// No conversation has that name.
    INSTANCE_NOT_FOUND = "INSTANCE_NOT_FOUND" {
        why: "No conversation has that name in the searched projects. `gdn` searches the project \
            around the current \
              directory, or all projects with `--all`.",
        example: shell("gdn conversation show writer\n", "gdn conversation list --all\ngdn conversation show \
            writer:main --all\n"),
        next: "Run `gdn conversation list --all` to list all conversations. To search another state \
            root, use \
              `--state-root`.",
        more: Some("cli.md#conversation"),
    }
    /// A conversation of that name already exists.
    INSTANCE_EXISTS = "INSTANCE_EXISTS" {
        why: "`gdn conversation import` never overwrites a conversation.",
        example: shell(
            "gdn conversation import conversation.jsonl\n",
            "gdn conversation import conversation.jsonl --as writer:copy\n",
        ),
        next: "Choose another name with `--as AGENT:KEY`, or delete the existing conversation \
            first.",
        more: Some("cli.md#conversation"),
    }
    /// The file is not a valid export of `gdn conversation export`.
    IMPORT_ERROR = "IMPORT_ERROR" {
        why: "A line is broken, the file is incomplete, or a later version wrote it. Or the file \
            contains several \
              conversations, and the command expects one. Nothing was imported.",
        next: "Export the conversation again with the same version of `gdn`.",
        more: Some("cli.md#conversation"),
    }
    /// No workspace has that ID.
    WORKSPACE_NOT_FOUND = "WORKSPACE_NOT_FOUND" {
        why: "`--workspace` names a workspace that does not exist below the state root.",
        next: "Use one of the IDs that the message lists. To search another state root, use \
            `--state-root`.",
        more: Some("durability.md#workspaces"),
    }
    /// A workspace cannot be used now.
    WORKSPACE_ERROR = "WORKSPACE_ERROR" {
        why: "Another process uses the workspace (the message names it), the workspace belongs to \
            another project, or \
              its directory cannot be written. Nothing was changed.",
        next: "Wait until the other process ends, or stop it with Ctrl-C. If the directory cannot \
            be written, correct \
              its permissions.",
        more: Some("durability.md#workspaces"),
    }
    /// A workspace has conversations, but its log of accepted events is missing or empty.
    WORKSPACE_LOG_LOST = "WORKSPACE_LOG_LOST" {
        why: "`inbox.jsonl` was deleted, emptied or damaged. Accepted events that were not handled \
            are lost, and events that were handled could run again. Nothing was changed.",
        next: "Restore the file, for example from a backup. To start without the lost events, \
            repeat the command with `--accept-loss`.",
        more: Some("durability.md#lost-and-damaged-files"),
    }
    /// A backup cannot be written or restored.
    BACKUP_ERROR = "BACKUP_ERROR" {
        why: "A file cannot be read or written, the target exists, or the source is not a backup. \
            The workspace was not changed.",
        next: "Follow the message. A backup needs a new name, and a restored workspace an unused \
            ID.",
        more: Some("durability.md#backups"),
    }
    /// A newer `gdn` wrote a file of the workspace.
    WORKSPACE_NEWER = "WORKSPACE_NEWER" {
        why: "The first line of a file states a format version that this `gdn` does not read. \
            Nothing was changed.",
        next: "Run `gdn self update`, then repeat the command.",
        more: Some("durability.md#headers-sequence-numbers-and-checksums"),
    }
    /// The database of `--store` cannot be used.
    DATABASE_ERROR = "DATABASE_ERROR" {
        why: "The URL does not name a PostgreSQL database, or the database cannot be reached. Or \
            the database is older \
              than PostgreSQL 14, or its user lacks permissions. The message contains the cause. \
            Nothing was changed.",
        next: "Test the URL with `psql`. For the first start, the user needs permission to create \
            a schema.",
        more: Some("scaling.md"),
    }
    /// Another node has taken over the workspace.
    WORKSPACE_TAKEN = "WORKSPACE_TAKEN" {
        why: "This process hung or could not reach the database for so long that another node took \
            over. Since then it \
              has changed nothing.",
        next: "Start the process again. It waits until the other node ends. `gdn nodes --store \
            URL` lists the nodes \
              and their states.",
        more: Some("scaling.md#nodes"),
    }
    /// No process runs the swarm.
    NOT_RUNNING = "NOT_RUNNING" {
        why: "`gdn send` and `gdn attach` connect to the process that runs the swarm, and no such \
            process exists.",
        example: shell("gdn send hello\n", "gdn run --input hello\n"),
        next: "Start the swarm with `gdn serve` or `gdn run`.",
        more: Some("cli.md#send"),
    }
    /// A client of `gdn lsp` sent an invalid message.
    LSP_PROTOCOL = "E_LSP_PROTOCOL" {
        why: "`gdn lsp` communicates with editors through the Language Server Protocol: a header \
            with the length, then \
              JSON. The data on standard input has another format, or the connection broke.",
        next: "Start `gdn lsp` from an editor. `docs/editors.md` has the configuration for several \
            editors.",
        more: Some("editors.md#the-language-server"),
    }
    /// The newest version could not be installed.
    UPDATE_ERROR = "UPDATE_ERROR" {
        why: "`gdn self update` cannot reach the download server, the download failed its check, \
            or the files cannot \
              be replaced. The previous version is still installed.",
        next: "Follow the suggestion, or run the installer again.",
        more: Some("installing.md#updates"),
    }
    /// `git init` failed.
    GIT_ERROR = "GIT_ERROR" {
        why: "`gdn init --git` wrote the files of the project, but git could not create a \
            repository in the directory.",
        example: shell("gdn init my-swarm --git\n", "gdn init my-swarm\n"),
        next: "Install git, or omit `--git`.",
        more: Some("cli.md#init"),
    }
    /// The command was stopped by Ctrl-C or a signal.
    INTERRUPTED = "INTERRUPTED" {
        why: "You pressed Ctrl-C (exit code 130), or the system sent a termination signal (exit \
            code 143). An \
              unfinished turn resumes with the next start.",
        next: "No action is needed if you intended to stop the command.",
        more: Some("cli.md#exit-codes"),
    }
    /// The command failed for a reason without a code.
    INTERNAL_ERROR = "INTERNAL_ERROR" {
        why: "Input or output failed, or the terminal cannot be used. Or a running swarm ended, or \
            did not respond. \
              The message contains the cause.",
        next: "Fix the cause in the message. If the message contains no cause, run `gdn doctor` \
            and open an issue with \
              its output at https://github.com/goondan/gdn/issues.",
    }
}

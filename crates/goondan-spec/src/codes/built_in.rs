//! Codes of the built-in tools.

use super::{call, run_time_yaml};

codes! {
    /// A path leads out of the directory that the tool may use.
    TOOL_PATH_ESCAPE = "E_TOOL_PATH_ESCAPE" {
        why: "The path leaves the working directory as an absolute path, through `..` or through a \
            link. Or it leads \
              into `.goondan`. On Windows, the path may also be an alternative file name, an \
            alternate data stream or \
              a device. The same rules apply to the working directory of an agent, and to the \
            directory of a \
              conversation that it spawns.",
        example: call("fs__read {\"path\": \"../secrets.txt\"}\n", "fs__read {\"path\": \
            \"notes.md\"}\n"),
        next: "Use a path inside the working directory. To allow another directory, list it in \
            `config.roots` of the \
              Tool.",
        more: Some("security.md#files-and-the-network"),
    }
    /// A file or directory does not exist.
    TOOL_FILE_NOT_FOUND = "E_TOOL_FILE_NOT_FOUND" {
        why: "A path in the arguments does not exist. Paths are relative to the working directory \
            of the agent.",
        example: call("fs__read {\"path\": \"note.md\"}\n", "fs__ls {\"path\": \".\"}\nfs__read \
            {\"path\": \"notes.md\"}\n"),
        next: "List the directory with `fs__ls`, and use an existing name. `workdir` of the Agent \
            sets the working \
              directory.",
    }
    /// A path leads to a directory instead of a file, or to a file instead of a directory.
    TOOL_WRONG_FILE_TYPE = "E_TOOL_WRONG_FILE_TYPE" {
        why: "The tool needs a file and got a directory, or needs a directory and got a file. Or \
            the path leads to a \
              device, a pipe, a link, or a file that is not text.",
        example: call("fs__read {\"path\": \"drafts\"}\n", "fs__ls {\"path\": \"drafts\"}\n"),
        next: "Use a path of the type that the message asks for.",
    }
    /// The operating system refused to read, write or start something.
    TOOL_IO = "E_TOOL_IO" {
        why: "A file cannot be read or written, or a program cannot be started. Usual causes are \
            missing permissions, \
              a full disk or a read-only file system. The message ends with the system's reason.",
        next: "Fix the cause, or work in another directory.",
    }
    /// A file or a result is larger than the tool allows.
    TOOL_TOO_LARGE = "E_TOOL_TOO_LARGE" {
        why: "A file to change, or the result of a text tool, would exceed 16 MiB. The message \
            shows the size.",
        next: "Work on smaller parts, or use a program through `bash__exec`.",
    }
    /// A text file is not UTF-8.
    TOOL_ENCODING = "E_TOOL_ENCODING" {
        why: "The file contains text in another encoding. Tools read and change only UTF-8, \
            because a change would \
              damage other encodings.",
        example: call(
            "fs__edit {\"path\": \"old.txt\", \"old_text\": \"cafe\", \"new_text\": \"bar\"}\n",
            "bash__exec {\"command\": \"iconv -f ISO-8859-1 -t UTF-8 old.txt > new.txt\"}\n\
             fs__edit {\"path\": \"new.txt\", \"old_text\": \"cafe\", \"new_text\": \"bar\"}\n",
        ),
        next: "Convert the file first, as the message suggests.",
    }
    /// The text to replace occurs more than once.
    TOOL_EDIT_AMBIGUOUS = "E_TOOL_EDIT_AMBIGUOUS" {
        why: "`old_text` of `fs__edit` matches several places in the file. Nothing was changed.",
        example: call(
            "fs__edit {\"path\": \"main.rs\", \"old_text\": \"}\", \"new_text\": \"} // end\"}\n",
            "fs__edit {\"path\": \"main.rs\", \"old_text\": \"    run();\\n}\", \"new_text\": \
            \"    run();\\n} // end\"}\n",
        ),
        next: "Add lines before or after the place to `old_text`, so that it matches once.",
    }
    /// The text to replace does not occur.
    TOOL_EDIT_NOT_FOUND = "E_TOOL_EDIT_NOT_FOUND" {
        why: "The file does not contain exactly the `old_text` of `fs__edit`. If only spaces \
            differ, the message names \
              the line. Nothing was changed.",
        example: call(
            "fs__edit {\"path\": \"notes.md\", \"old_text\": \"3: Buy milk\", \"new_text\": \"Buy \
            bread\"}\n",
            "fs__edit {\"path\": \"notes.md\", \"old_text\": \"Buy milk\", \"new_text\": \"Buy \
            bread\"}\n",
        ),
        next: "Read the file again, and copy the text without the line numbers.",
    }
    /// Another conversation or program changed the file.
    TOOL_STALE = "E_TOOL_STALE" {
        why: "Another conversation changed the file after this one read it, or another program \
            changed it during the call. The message shows the change if the earlier text is still \
            known. Nothing was changed.",
        example: call(
            "fs__write {\"path\": \"notes.md\", \"content\": \"my old copy\"}\n",
            "fs__read {\"path\": \"notes.md\"}\n\
            fs__write {\"path\": \"notes.md\", \"content\": \"the current text, changed\"}\n",
        ),
        next: "Check that the change still fits, and repeat the call. To get only a warning, set \
            `staleWrites: warn` in the Tool's `spec.config`.",
        more: Some("tools.md#fs"),
    }
    /// A patch cannot be applied.
    TOOL_PATCH = "E_TOOL_PATCH" {
        why: "The patch does not have the format of `fs__apply_patch`, contains a file twice, or \
            adds a file that \
              already exists. Or the file does not contain the unchanged lines of a hunk. Nothing \
            was changed.",
        example: call(
            "fs__apply_patch {\"patch\": \"--- a.txt\\n+++ a.txt\\n-old\\n+new\"}\n",
            "fs__apply_patch {\"patch\": \"*** Begin Patch\\n*** Update File: \
            a.txt\\n@@\\n-old\\n+new\\n*** End Patch\"}\n",
        ),
        next: "Read the file again, and rewrite the patch with three unchanged lines around each \
            change.",
        more: Some("tools.md#fs__apply_patch"),
    }
    /// The tool may not access a URL.
    TOOL_ADDRESS_BLOCKED = "E_TOOL_ADDRESS_BLOCKED" {
        why: "The URL is neither `http` nor `https`, or leads to a private network, to this \
            machine or to a service of \
              the cloud provider. Redirects are also checked.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: pages}
spec: {entry: builtin:http-fetch}
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: pages}
spec: {entry: builtin:http-fetch, config: {allowHosts: [wiki.internal]}}
",
        ),
        next: "If agents may access the host name, list it in `config.allowHosts` of the Tool.",
        more: Some("security.md#files-and-the-network"),
    }
    /// A request failed, or its response cannot be used.
    TOOL_HTTP = "E_TOOL_HTTP" {
        why: "The connection failed or broke, the certificate is invalid, a channel's webhook \
            returned an error, or a \
              page cannot be converted to text. The message contains the cause.",
        next: "Check the URL and the network, then try again.",
    }
    /// A page returned an error status.
    TOOL_HTTP_STATUS = "E_TOOL_HTTP_STATUS" {
        why: "`web__fetch` received an error status such as 404 or 500. `http-fetch` returns such \
            a status as a normal \
              result.",
        example: call(
            "web__fetch {\"url\": \"https://example.com/no-such-page\"}\n",
            "web__fetch {\"url\": \"https://example.com/\"}\n",
        ),
        next: "Check the URL. To read the response itself, use `http-fetch__get`.",
    }
    /// The Tool has no channel of that name.
    TOOL_CHANNEL_NOT_FOUND = "E_TOOL_CHANNEL_NOT_FOUND" {
        why: "`messaging__message` names a channel that is not in `config.channels` of the Tool.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: messaging}
spec: {entry: builtin:messaging}
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: messaging}
spec:
  entry: builtin:messaging
  config:
    channels:
      ops: {webhook: {url: {valueFrom: {env: OPS_WEBHOOK}}}}
",
        ),
        next: "Use one of the names in the message, or add the channel to `config.channels`.",
        more: Some("tools.md#messaging"),
    }
    /// No conversation has that ID.
    TOOL_SESSION_NOT_FOUND = "E_TOOL_SESSION_NOT_FOUND" {
        why: "A call names a conversation that does not exist, or that the calling conversation \
            may not access.",
        example: call(
            "sessions__history {\"session_id\": \"writer\"}\n",
            "sessions__list {}\nsessions__history {\"session_id\": \"writer:main\"}\n",
        ),
        next: "Use an ID that `sessions__list` shows.",
        more: Some("tools.md#sessions"),
    }
    /// The conversation has no job with that ID.
    TOOL_JOB_NOT_FOUND = "E_TOOL_JOB_NOT_FOUND" {
        why: "`automation__cron` should remove a job that does not belong to this conversation. \
            Each conversation has \
              its own jobs.",
        example: call(
            "automation__cron {\"action\": \"remove\", \"id\": \"daily\"}\n",
            "automation__cron {\"action\": \"list\"}\nautomation__cron {\"action\": \"remove\", \
            \"id\": \"cron-1f3a9c02\"}\n",
        ),
        next: "Use an ID that action `list` of `automation__cron` shows.",
        more: Some("tools.md#automation"),
    }
    /// A conversation has too many jobs.
    TOOL_TOO_MANY_JOBS = "E_TOOL_TOO_MANY_JOBS" {
        why: "The conversation already has 100 jobs of `automation__cron`, which is the limit.",
        next: "Remove a job first.",
        more: Some("tools.md#automation"),
    }
    /// The conversation has no process with that ID.
    TOOL_PROCESS_NOT_FOUND = "E_TOOL_PROCESS_NOT_FOUND" {
        why: "`runtime__process` names a process that this conversation did not start, or that is \
            no longer recorded. \
              Background processes end with the swarm.",
        example: call(
            "runtime__process {\"action\": \"status\", \"process_id\": \"4711\"}\n",
            "runtime__exec {\"command\": \"sleep 60\", \"background\": true}\n\
             runtime__process {\"action\": \"status\", \"process_id\": \"p1\"}\n",
        ),
        next: "Use an ID that `runtime__exec` returned, or start the program again.",
        more: Some("tools.md#runtime"),
    }
    /// A process has ended and accepts no signal.
    TOOL_PROCESS_ENDED = "E_TOOL_PROCESS_ENDED" {
        why: "`runtime__process` should signal a process that had already ended.",
        next: "No action is needed. To read the output and the exit status, use action `poll`.",
        more: Some("tools.md#runtime"),
    }
    /// A process accepts no input.
    TOOL_PROCESS_INPUT = "E_TOOL_PROCESS_INPUT" {
        why: "The process has ended, has closed its standard input, or does not read its input.",
        next: "Read its output with action `poll`. If necessary, start the process again.",
        more: Some("tools.md#runtime"),
    }
    /// Too many processes run at the same time.
    TOOL_TOO_MANY_PROCESSES = "E_TOOL_TOO_MANY_PROCESSES" {
        why: "The conversation already has 32 background processes, which is the limit.",
        next: "End a process first with action `signal` of `runtime__process`.",
        more: Some("tools.md#runtime"),
    }
    /// No custom tool has that name.
    TOOL_CUSTOM_TOOL_NOT_FOUND = "E_TOOL_CUSTOM_TOOL_NOT_FOUND" {
        why: "No directory below `tools` of the project or `~/.goondan/tools` contains a \
            `tool.yaml` with that name.",
        example: call(
            "custom-tools__run {\"tool_name\": \"greeter\"}\n",
            "custom-tools__list {}\ncustom-tools__run {\"tool_name\": \"greet\"}\n",
        ),
        next: "Use a name that `custom-tools__list` shows, or create the tool with \
            `custom-tools__create`.",
        more: Some("tools.md#custom-tools"),
    }
    /// The name of a new custom tool is already in use.
    TOOL_CUSTOM_TOOL_EXISTS = "E_TOOL_CUSTOM_TOOL_EXISTS" {
        why: "A file or directory of that name exists, and `custom-tools__create` never overwrites \
            anything.",
        next: "Choose another name, or change the existing files.",
        more: Some("tools.md#custom-tools"),
    }
    /// A custom tool cannot be run.
    TOOL_CUSTOM_TOOL_BROKEN = "E_TOOL_CUSTOM_TOOL_BROKEN" {
        why: "The `tool.yaml` has an error, the program is missing or not built, or the library \
            has no export of that \
              name. The message contains the cause.",
        next: "Correct the files in the directory of the tool, then check them with \
            `custom-tools__list`.",
        more: Some("tools.md#custom-tools"),
    }
    /// The running program cannot reload the project.
    RELOAD_UNAVAILABLE = "E_RELOAD_UNAVAILABLE" {
        why: "The tool `self-restart` runs in a program without reload support, such as one that \
            embeds `goondan` \
              without a reloader.",
        next: "Run the project with `gdn run --watch`, or restart it.",
        more: Some("reload.md"),
    }
    /// A reload was refused, and the swarm continues unchanged.
    RELOAD_FAILED = "E_RELOAD_FAILED" {
        why: "The edited project has errors. The message lists them with file and line.",
        next: "Correct the errors, then reload again. To check first, run `gdn validate` or `gdn \
            reload --dry-run`.",
        more: Some("reload.md"),
    }
}

//! Codes of the built-in tools.

use super::{call, running};

codes! {
    /// A path leads out of the folder that the tool may work in.
    TOOL_PATH_ESCAPE = "E_TOOL_PATH_ESCAPE" {
        why: "The path is absolute, climbs out by `..`, leaves the working directory through a link, names the folder \
              `.goondan`, or is another spelling of a file, a stream of one or a device. An agent's working folder \
              and the folder of an instance that it makes are held to the same.",
        example: call("fs__read {\"path\": \"../secrets.txt\"}\n", "fs__read {\"path\": \"notes.md\"}\n"),
        next: "Use a path inside the working directory. To open another folder, list it in `config.roots` of the Tool.",
        more: Some("security.md#files-and-the-network"),
    }
    /// There is no such file or folder.
    TOOL_FILE_NOT_FOUND = "E_TOOL_FILE_NOT_FOUND" {
        why: "A path in the arguments leads to nothing. Paths start from the working directory of the agent.",
        example: call("fs__read {\"path\": \"note.md\"}\n", "fs__ls {\"path\": \".\"}\nfs__read {\"path\": \"notes.md\"}\n"),
        next: "List the folder, and use a name that is there. `workdir` of the Agent says where it works.",
    }
    /// A path leads to a folder where a file is needed, or the other way round.
    TOOL_WRONG_FILE_TYPE = "E_TOOL_WRONG_FILE_TYPE" {
        why: "The tool works on files and was given a folder, works on folders and was given a file, or was given a \
              device, a pipe, a link, or a file that is not text.",
        example: call("fs__read {\"path\": \"drafts\"}\n", "fs__ls {\"path\": \"drafts\"}\n"),
        next: "Name a path of the kind that the message asks for.",
    }
    /// The operating system refused to read, write or start something.
    TOOL_IO = "E_TOOL_IO" {
        why: "A file can't be read or written, or a program can't be started: permissions are missing, the disk is full, or \
              the file system is read-only. The message ends with the system's reason.",
        next: "Remove the cause, or work in another folder.",
    }
    /// A file or a result is larger than the tool takes.
    TOOL_TOO_LARGE = "E_TOOL_TOO_LARGE" {
        why: "A file that is to be changed, or the result of a text tool, would have more than 16 MiB. The message says how \
              large it is.",
        next: "Work on smaller parts, or let a program do it: `bash__exec`.",
    }
    /// A file is text, but not in UTF-8.
    TOOL_ENCODING = "E_TOOL_ENCODING" {
        why: "The file is text in another encoding. Tools read and change only UTF-8, so that nothing is garbled.",
        example: call(
            "fs__edit {\"path\": \"old.txt\", \"old_text\": \"cafe\", \"new_text\": \"bar\"}\n",
            "bash__exec {\"command\": \"iconv -f ISO-8859-1 -t UTF-8 old.txt > new.txt\"}\n\
             fs__edit {\"path\": \"new.txt\", \"old_text\": \"cafe\", \"new_text\": \"bar\"}\n",
        ),
        next: "Convert it first, as the message suggests.",
    }
    /// The text to replace occurs more than once.
    TOOL_EDIT_AMBIGUOUS = "E_TOOL_EDIT_AMBIGUOUS" {
        why: "`old_text` of `fs__edit` fits several places of the file. Nothing was changed.",
        example: call(
            "fs__edit {\"path\": \"main.rs\", \"old_text\": \"}\", \"new_text\": \"} // end\"}\n",
            "fs__edit {\"path\": \"main.rs\", \"old_text\": \"    run();\\n}\", \"new_text\": \"    run();\\n} // end\"}\n",
        ),
        next: "Take more lines before or after it into `old_text`, so that it occurs once.",
    }
    /// The text to replace does not occur.
    TOOL_EDIT_NOT_FOUND = "E_TOOL_EDIT_NOT_FOUND" {
        why: "`old_text` of `fs__edit` is not in the file exactly like that. Where only spaces differ, the message says \
              on which line it is. Nothing was changed.",
        example: call(
            "fs__edit {\"path\": \"notes.md\", \"old_text\": \"3: Buy milk\", \"new_text\": \"Buy bread\"}\n",
            "fs__edit {\"path\": \"notes.md\", \"old_text\": \"Buy milk\", \"new_text\": \"Buy bread\"}\n",
        ),
        next: "Read the file again, and copy the text without the line numbers.",
    }
    /// A patch can't be applied.
    TOOL_PATCH = "E_TOOL_PATCH" {
        why: "The patch is not written as `fs__apply_patch` wants it, names a file twice, adds a file that is there, or \
              has a hunk whose unchanged lines are not in the file. Nothing was changed.",
        example: call(
            "fs__apply_patch {\"patch\": \"--- a.txt\\n+++ a.txt\\n-old\\n+new\"}\n",
            "fs__apply_patch {\"patch\": \"*** Begin Patch\\n*** Update File: a.txt\\n@@\\n-old\\n+new\\n*** End Patch\"}\n",
        ),
        next: "Read the file again, and write the patch anew with three unchanged lines around each change.",
        more: Some("tools.md#fs__apply_patch"),
    }
    /// An address is not one that the tool may talk to.
    TOOL_ADDRESS_BLOCKED = "E_TOOL_ADDRESS_BLOCKED" {
        why: "The address is neither `http` nor `https`, or leads into a private network, to this machine or to a service \
              of the cloud provider. Redirects are checked as well.",
        example: running(
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
        next: "If agents may reach the host, list it in `config.allowHosts` of the Tool.",
        more: Some("security.md#files-and-the-network"),
    }
    /// A request failed, or its answer can't be used.
    TOOL_HTTP = "E_TOOL_HTTP" {
        why: "The connection failed or broke off, the certificate is not valid, a channel's webhook answered with an \
              error, or a page can't be turned into text. The message says which.",
        next: "Check the address and the network, then try again.",
    }
    /// A page answered with an error status.
    TOOL_HTTP_STATUS = "E_TOOL_HTTP_STATUS" {
        why: "`web__fetch` got a status such as 404 or 500. For `http-fetch`, a status is an ordinary result.",
        example: call(
            "web__fetch {\"url\": \"https://example.com/no-such-page\"}\n",
            "web__fetch {\"url\": \"https://example.com/\"}\n",
        ),
        next: "Check the address. To look at the answer itself, use `http-fetch__get`.",
    }
    /// There is no such channel.
    TOOL_CHANNEL_NOT_FOUND = "E_TOOL_CHANNEL_NOT_FOUND" {
        why: "`messaging__message` names a channel that the Tool's `config.channels` does not have.",
        example: running(
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
        next: "Use one of the names in the message, or add the channel.",
        more: Some("tools.md#messaging"),
    }
    /// There is no such session.
    TOOL_SESSION_NOT_FOUND = "E_TOOL_SESSION_NOT_FOUND" {
        why: "A call names a conversation that does not exist, or that this one may not see.",
        example: call(
            "sessions__history {\"session_id\": \"writer\"}\n",
            "sessions__list {}\nsessions__history {\"session_id\": \"writer:main\"}\n",
        ),
        next: "Use an id that `sessions__list` shows.",
        more: Some("tools.md#sessions"),
    }
    /// There is no such job.
    TOOL_JOB_NOT_FOUND = "E_TOOL_JOB_NOT_FOUND" {
        why: "`automation__cron` was to remove a job that this conversation does not have. Each conversation has jobs of \
              its own.",
        example: call(
            "automation__cron {\"action\": \"remove\", \"id\": \"daily\"}\n",
            "automation__cron {\"action\": \"list\"}\nautomation__cron {\"action\": \"remove\", \"id\": \"cron-1f3a9c02\"}\n",
        ),
        next: "Use an id that `list` shows.",
        more: Some("tools.md#automation"),
    }
    /// A conversation has too many jobs.
    TOOL_TOO_MANY_JOBS = "E_TOOL_TOO_MANY_JOBS" {
        why: "A conversation may have 100 jobs of `automation__cron`.",
        next: "Remove one first.",
        more: Some("tools.md#automation"),
    }
    /// There is no such process.
    TOOL_PROCESS_NOT_FOUND = "E_TOOL_PROCESS_NOT_FOUND" {
        why: "`runtime__process` names a process that this conversation did not start, or that was forgotten: processes \
              end with the swarm.",
        example: call(
            "runtime__process {\"action\": \"status\", \"process_id\": \"4711\"}\n",
            "runtime__exec {\"command\": \"sleep 60\", \"background\": true}\n\
             runtime__process {\"action\": \"status\", \"process_id\": \"p1\"}\n",
        ),
        next: "Use an id that `runtime__exec` returned, or start the program again.",
        more: Some("tools.md#runtime"),
    }
    /// A process has ended and takes no signal.
    TOOL_PROCESS_ENDED = "E_TOOL_PROCESS_ENDED" {
        why: "`runtime__process` was to signal a process that had ended by itself.",
        next: "Nothing. Action `poll` brings what it printed, and how it ended.",
        more: Some("tools.md#runtime"),
    }
    /// A process takes no input.
    TOOL_PROCESS_INPUT = "E_TOOL_PROCESS_INPUT" {
        why: "The process has ended, has closed its standard input, or did not read what it was sent.",
        next: "Look at what it printed with action `poll`, and start it again if need be.",
        more: Some("tools.md#runtime"),
    }
    /// Too many processes run at the same time.
    TOOL_TOO_MANY_PROCESSES = "E_TOOL_TOO_MANY_PROCESSES" {
        why: "A conversation may have 32 programs in the background.",
        next: "End one first: action `signal` of `runtime__process`.",
        more: Some("tools.md#runtime"),
    }
    /// There is no such custom tool.
    TOOL_CUSTOM_TOOL_NOT_FOUND = "E_TOOL_CUSTOM_TOOL_NOT_FOUND" {
        why: "No folder below `tools` of the project, nor below `~/.goondan/tools`, holds a `tool.yaml` with that name.",
        example: call(
            "custom-tools__run {\"tool_name\": \"greeter\"}\n",
            "custom-tools__list {}\ncustom-tools__run {\"tool_name\": \"greet\"}\n",
        ),
        next: "Use a name that `custom-tools__list` shows, or make the tool with `custom-tools__create`.",
        more: Some("tools.md#custom-tools"),
    }
    /// The name of a new custom tool is taken.
    TOOL_CUSTOM_TOOL_EXISTS = "E_TOOL_CUSTOM_TOOL_EXISTS" {
        why: "`custom-tools__create` does not overwrite anything, and there is a file or folder of that name.",
        next: "Choose another name, or change the files that are there.",
        more: Some("tools.md#custom-tools"),
    }
    /// A custom tool can't be run.
    TOOL_CUSTOM_TOOL_BROKEN = "E_TOOL_CUSTOM_TOOL_BROKEN" {
        why: "Its `tool.yaml` has a mistake, its program is missing or was not built, or its library has no export of \
              that name. The message says which.",
        next: "Correct the files in its folder. `custom-tools__list` shows whether they are right.",
        more: Some("tools.md#custom-tools"),
    }
    /// The project can't be reloaded from here.
    RELOAD_UNAVAILABLE = "E_RELOAD_UNAVAILABLE" {
        why: "The tool `self-restart` runs in a program that does not reload, such as one that embeds `goondan` without \
              doing so.",
        next: "Run the project with `gdn run --watch`, or start it again.",
        more: Some("reload.md"),
    }
    /// A reload was refused, and the swarm goes on as before.
    RELOAD_FAILED = "E_RELOAD_FAILED" {
        why: "The edited project has errors. They are listed with file and line.",
        next: "Correct them, then reload again. `gdn validate` and `gdn reload --dry-run` check beforehand.",
        more: Some("reload.md"),
    }
}

//! Policies, approvals and containment, as a person or a program meets them.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::projects::manifest;
use crate::sandbox::Sandbox;

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

const PERMISSIONS: &str = "\
permissions:
    default: allow
    rules:
      - {permission: execute, action: ask}
      - {tool: bash__*, args: {command: git *}, action: allow}";

/// The model has the input run as a command, and then answers.
const RUN: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: bash__exec, args: {command: '{{ input }}'}}]}
  - when: {role: tool}
    reply: {text: done}
";

fn project(more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("p/goondan.yaml", &manifest(MODEL, more));
    sandbox.write("p/script.yaml", RUN);
    sandbox
}

#[test]
fn explain_says_which_rule_decides() {
    let sandbox = project(PERMISSIONS);
    let line = r#"{"command": "git log; eval x > y", "env": {"A": "b"}}"#;
    let explain = [
        "policy",
        "explain",
        "--project",
        "p",
        "--agent",
        "a",
        "--tool",
        "bash__exec",
        "--args",
        line,
    ];
    insta::assert_snapshot!("explain", sandbox.gdn(&explain).ok());
    let as_json = sandbox.gdn(&[&explain[..], &["--caller", "a", "--json"]].concat());
    let answer: Value = serde_json::from_str(as_json.ok()).unwrap();
    assert_eq!(
        (
            answer["action"].as_str(),
            answer["agents"].as_array().unwrap().len()
        ),
        (Some("ask"), 2)
    );
    assert_eq!(
        answer["agents"][0]["parts"][1]["because"]["file"],
        "goondan.yaml"
    );
    let unknown = [
        "policy",
        "explain",
        "--project",
        "p",
        "--agent",
        "a",
        "--tool",
        "bash__run",
    ];
    insta::assert_snapshot!("explain unknown", sandbox.gdn(&unknown).report());
}

#[test]
fn a_rule_that_never_decides_is_told_at_its_line() {
    let sandbox = project(
        "permissions: {rules: [{tool: bsh__*, action: deny}, {tool: bash__exec, action: ask}, {tool: bash__*, action: deny}]}",
    );
    insta::assert_snapshot!(
        "dead rules",
        sandbox
            .gdn(&["validate", "p", "--format", "short"])
            .report()
    );
}

/// Starts a stream, has `command` run, answers the question with `answer`, and gives back the question and the status.
fn asked(sandbox: &Sandbox, command: &str, answer: Option<&str>) -> (Option<Value>, String) {
    let mut child = sandbox.command(&["run", "p", "--input-format", "stream-json"]);
    let mut child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take();
    writeln!(stdin.as_mut().unwrap(), "{}", json!({"input": command})).unwrap();
    let (mut question, mut status) = (None, String::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match line["type"].as_str() {
            Some("approval.request") => {
                match answer {
                    Some(answer) => {
                        let (answer, covers) = answer.split_once(' ').unwrap_or((answer, "call"));
                        let answer = json!({"approval": line["approval"], "answer": answer, "covers": covers});
                        writeln!(stdin.as_mut().unwrap(), "{answer}").unwrap();
                    }
                    None => stdin = None,
                }
                question = Some(line);
            }
            Some("tool.completed") => status = line["status"].as_str().unwrap().to_owned(),
            Some("result") => stdin = None,
            _ => {}
        }
    }
    assert!(child.wait().unwrap().success());
    (question, status)
}

#[test]
fn a_line_answers_a_question() {
    let sandbox = project(PERMISSIONS);
    let (question, status) = asked(&sandbox, "touch x", Some("once"));
    let question = question.unwrap();
    assert_eq!(
        (question["toolName"].as_str(), question["preview"].as_str()),
        (Some("bash__exec"), Some("$ touch x"))
    );
    assert_eq!(status, "ok");
    assert_eq!(asked(&sandbox, "touch x", Some("deny")).1, "error");
    // Standard input is closed while the question is open: nobody is there any more.
    assert_eq!(asked(&sandbox, "touch x", None).1, "error");
    assert_eq!(
        asked(&sandbox, "git --version", None),
        (None, "ok".to_owned())
    );
}

#[test]
fn an_answer_may_hold_for_good() {
    let sandbox = project(PERMISSIONS);
    assert_eq!(asked(&sandbox, "touch x", Some("conversation")).1, "ok");
    assert_eq!(asked(&sandbox, "touch x", None), (None, "ok".to_owned()));
    assert_eq!(asked(&sandbox, "touch y", Some("always")).1, "ok");
    assert_eq!(asked(&sandbox, "touch y", None), (None, "ok".to_owned()));
    // What people allow is none of the project's.
    assert!(!sandbox.dir().join("p/.goondan").exists());
    let mut workspaces = std::fs::read_dir(sandbox.state().join("workspaces")).unwrap();
    let kept = std::fs::read_to_string(
        workspaces
            .next()
            .unwrap()
            .unwrap()
            .path()
            .join("approvals.yaml"),
    )
    .unwrap();
    let project = sandbox
        .dir()
        .join("p")
        .canonicalize()
        .unwrap()
        .display()
        .to_string();
    insta::assert_snapshot!("approvals", kept.replace(&project, "[PROJECT]"));
}

#[test]
fn what_is_remembered_is_listed_and_taken_back() {
    let sandbox = project(PERMISSIONS);
    let (question, status) = asked(&sandbox, "wc -l script.yaml", Some("always program"));
    assert_eq!(
        question.unwrap()["offers"],
        json!([{"covers": "call"}, {"covers": "program", "commands": ["wc *"]}, {"covers": "tool"}])
    );
    assert_eq!(status, "ok");
    assert_eq!(asked(&sandbox, "touch x", Some("conversation")).1, "ok");
    assert_eq!(
        asked(&sandbox, "wc --version", None),
        (None, "ok".to_owned())
    );
    let list = sandbox.gdn(&["policy", "approvals", "-p", "p"]);
    insta::assert_snapshot!("approvals listed", list.ok());
    let as_json: Value = serde_json::from_str(
        sandbox
            .gdn(&["policy", "approvals", "-p", "p", "--json"])
            .ok(),
    )
    .unwrap();
    assert_eq!(
        (as_json[0]["covers"].as_str(), as_json[1]["scope"].as_str()),
        (Some("program"), Some("conversation"))
    );
    insta::assert_snapshot!(
        "approval unknown",
        sandbox
            .gdn(&["policy", "approvals", "remove", "3", "-p", "p"])
            .report()
    );
    sandbox
        .gdn(&["policy", "approvals", "remove", "1", "-p", "p"])
        .ok();
    assert_eq!(asked(&sandbox, "wc --version", None).1, "error");
    sandbox
        .gdn(&["policy", "approvals", "remove", "--all", "-p", "p"])
        .ok();
    assert_eq!(asked(&sandbox, "touch x", None).1, "error");
    insta::assert_snapshot!(
        "no approvals",
        sandbox.gdn(&["policy", "approvals", "-p", "p"]).report()
    );
}

#[test]
fn a_project_is_protected_however_it_is_named() {
    let sandbox = project("workdir: project\n  permissions: {default: allow}");
    let yaml = sandbox.dir().join("p/goondan.yaml");
    let text = std::fs::read_to_string(&yaml)
        .unwrap()
        .replace("Tool/bash", "Tool/fs");
    std::fs::write(&yaml, &text).unwrap();
    let absolute = sandbox.dir().join("p").display().to_string();
    for named in ["p", "./p", "p/../p", &absolute] {
        let arguments = json!({"path": "goondan.yaml", "content": "x"}).to_string();
        let outcome = sandbox.gdn(&[
            "tool",
            "call",
            "fs__write",
            "-p",
            named,
            "--args",
            &arguments,
            "--json",
        ]);
        let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(
            result["error"]["code"], "E_TOOL_DENIED",
            "{named}: {result}"
        );
    }
    assert_eq!(std::fs::read_to_string(&yaml).unwrap(), text);
}

/// A kernel without Landlock must refuse; one with it must contain.
#[test]
#[cfg(target_os = "linux")]
fn a_sandbox_contains_or_refuses() {
    let sandbox = project("permissions: {default: allow, sandbox: {}}");
    let outside = sandbox.dir().join("outside");
    let command = format!(
        "echo in > inside; cat inside; ls {0}/p; touch {0}/outside",
        sandbox.dir().display()
    );
    let arguments = json!({ "command": command }).to_string();
    let outcome = sandbox.gdn(&[
        "tool",
        "call",
        "bash__exec",
        "-p",
        "p",
        "--args",
        &arguments,
        "--json",
    ]);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert!(!outside.exists());
    if result["status"] == "error" {
        assert_eq!(result["error"]["code"], "E_TOOL_SANDBOX");
        return;
    }
    assert_eq!(
        result["output"]["stdout"],
        "in\ngoondan.yaml\nscript.yaml\n"
    );
    assert!(
        result["output"]["stderr"]
            .as_str()
            .unwrap()
            .contains("outside")
    );
    let arguments = json!({"command": "python3 -c 'import socket; socket.socket()'"}).to_string();
    let outcome = sandbox.gdn(&[
        "tool",
        "call",
        "bash__exec",
        "-p",
        "p",
        "--args",
        &arguments,
        "--json",
    ]);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_ne!(result["output"]["exitCode"], 0);
}

/// Prints the system calls and paths that work in the sandbox and must not.
const PROBE: &str = r#"
import ctypes, errno, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
parent = os.getppid()
calls = {
    "adjtimex": 159, "clock_adjtime": 305, "clock_settime": 227, "settimeofday": 164, "setdomainname": 171,
    "sethostname": 170, "add_key": 248, "keyctl": 250, "request_key": 249, "mq_getsetattr": 245,
    "mq_notify": 244, "mq_open": 240, "mq_timedreceive": 243, "mq_timedsend": 242, "mq_unlink": 241,
    "msgctl": 71, "msgget": 68, "msgrcv": 70, "msgsnd": 69, "semctl": 66, "semget": 64, "semop": 65,
    "semtimedop": 220, "shmat": 30, "shmctl": 31, "shmdt": 67, "shmget": 29, "chroot": 161, "fsconfig": 431,
    "fsmount": 432, "fsopen": 430, "fspick": 433, "mount": 165, "move_mount": 429, "open_tree": 428,
    "pivot_root": 155, "setns": 308, "umount2": 166, "unshare": 272, "acct": 163, "bpf": 321,
    "delete_module": 176, "fanotify_init": 300, "finit_module": 313, "init_module": 175, "kexec_load": 246,
    "perf_event_open": 298, "quotactl": 179, "reboot": 169, "swapoff": 168, "swapon": 167, "syslog": 103,
    "userfaultfd": 323, "vhangup": 153, "kcmp": 312, "open_by_handle_at": 304, "pidfd_getfd": 438,
    "process_vm_readv": 310, "process_vm_writev": 311, "ptrace": 101, "io_uring_setup": 425, "clone3": 435,
}
tries = [(name, number, (0, 0, 0, 0)) for name, number in calls.items()]
tries += [
    ("sched_setaffinity", 203, (parent, 0, 0)), ("sched_setscheduler", 144, (parent, 3, 0)),
    ("setpriority", 141, (0, parent, 19)), ("setpriority of the user", 141, (2, 0, 19)),
    ("ioprio_set", 251, (1, parent, 3 << 13)), ("clone", 56, (0x10000000 | 17, 0, 0, 0)),
    ("socket", 41, (2, 1, 0)), ("local socket", 41, (1, 1, 0)),
]
if platform.machine() == "x86_64":
    for name, number, arguments in tries:
        done = libc.syscall(number, *map(ctypes.c_long, arguments))
        if done == 0 and name == "clone":
            os._exit(0)
        if done != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
            print(name, done, ctypes.get_errno())
paths = ["/run", "/run/user", "/run/secrets", "/run/credentials", "/var/run/secrets", "/dev/shm", "/dev", "/proc", "/proc/1/environ",
    "/etc/shadow", "/etc/gshadow", "/root", "/home", "/var/lib", "/var/log", "/tmp", f"/proc/{parent}/environ", os.path.expanduser("~/.ssh")]
for path in paths:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path).read()
        print("read", path)
    except OSError:
        pass
for name, mode in [("terminal", 0o20666), ("disk", 0o60666)]:
    try:
        os.mknod(name, mode, os.makedev(5, 0))
        print("mknod", name)
    except OSError:
        pass
for path in ["/etc", "/etc/ssl/certs"]:
    if os.path.isdir(path) and not os.listdir(path):
        print("empty", path)
open("/etc/passwd").read()
if str(os.getsid(0)) == sys.argv[1]:
    print("session")
print("over")
"#;

/// Programs have no capabilities, even if this program runs as root.
#[test]
#[cfg(target_os = "linux")]
fn a_sandboxed_program_reaches_nothing_beyond_its_files() {
    let sandbox = project("workdir: project\n  permissions: {default: allow, sandbox: {}}");
    sandbox.write("p/probe.py", PROBE);
    sandbox.gdn(&["trust", "p"]).ok();
    let session = nix::unistd::getsid(None).unwrap();
    let arguments = json!({ "command": format!("python3 probe.py {session}") }).to_string();
    let outcome = sandbox.gdn(&[
        "tool",
        "call",
        "bash__exec",
        "-p",
        "p",
        "--args",
        &arguments,
        "--json",
    ]);
    let result: Value = serde_json::from_str(outcome.ok()).unwrap();
    // This kernel has no sandbox, or the machine has no Python.
    if result["status"] == "error" || result["output"]["exitCode"] == 127 {
        return;
    }
    assert_eq!(result["output"]["stdout"], "over\n", "{result}");
}

#[test]
#[cfg(unix)]
fn limits_hold() {
    let sandbox = project("permissions: {default: allow}");
    let tool = "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: bash}\nspec: {entry: 'builtin:bash', config: \
                {limits: {fileSizeMib: 1}}}\n";
    sandbox.write("p/tools/bash.yaml", tool);
    let arguments = json!({"command": "head -c 3000000 /dev/zero > big; wc -c < big"}).to_string();
    let outcome = sandbox.gdn(&[
        "tool",
        "call",
        "bash__exec",
        "-p",
        "p",
        "--args",
        &arguments,
        "--json",
    ]);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        result["output"]["stdout"].as_str().map(str::trim),
        Some("1048576"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn secrets_are_found_in_files() {
    let sandbox = project("");
    let model = "{provider: scripted, model: any, apiKey: {valueFrom: {secretRef: {ref: Secret/openai, key: key}}}, \
                 options: {script: script.yaml}}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(model, "permissions: {default: allow}"),
    );
    let missing = sandbox.gdn(&["run", "p", "--input", "true"]);
    assert!(
        missing.stderr.contains("GOONDAN_SECRET_OPENAI_KEY"),
        "{}",
        missing.stderr
    );
    sandbox.write("secrets/openai/key", "sk-very-secret\n");
    let mut command = sandbox.command(&["tool", "call", "bash__exec", "-p", "p", "--args"]);
    command.arg(
        json!({"command": format!("base64 < {}/secrets/openai/key", sandbox.dir().display())})
            .to_string(),
    );
    command.env("GOONDAN_SECRETS_DIR", sandbox.dir().join("secrets"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.contains("***") && !text.contains("c2stdmVyeS1zZWNyZX"),
        "{text}"
    );
}

/// A keyring as `secret-tool` shows it: one secret, and one state in which it can't be asked.
#[cfg(target_os = "linux")]
const KEYRING: &str = "#!/bin/sh
test -e \"$(dirname \"$0\")/locked\" && { echo 'secret-tool: Cannot get secret of a locked object' >&2; exit 1; }
test \"$*\" = 'lookup service goondan account openai/key' && printf sk-of-the-keyring || exit 1
";

#[cfg(target_os = "linux")]
#[test]
fn secrets_are_found_in_the_keyring_if_it_may_be_asked() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = project("");
    let with_key = |key: &str| {
        let model = "{provider: scripted, model: any, apiKey: {valueFrom: {secretRef: {ref: Secret/openai, key: KEY}}}, \
                     options: {script: script.yaml}}";
        sandbox.write("p/goondan.yaml", &manifest(&model.replace("KEY", key), ""));
    };
    sandbox.write(
        "p/script.yaml",
        "default: {text: 'the key is sk-of-the-keyring', chunks: 12}\n",
    );
    sandbox.write("bin/secret-tool", KEYRING);
    let program = sandbox.dir().join("bin/secret-tool");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |allowed: &str| {
        let mut command = sandbox.command(&["run", "p", "--input", "hi"]);
        let path =
            std::env::join_paths([sandbox.dir().join("bin"), "/usr/bin".into(), "/bin".into()])
                .unwrap();
        let output = command
            .env("PATH", path)
            .env("GOONDAN_KEYRING", allowed)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.success(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    with_key("key");
    assert_eq!(
        run("1"),
        (true, "the key is ***\n".to_owned(), String::new())
    );
    let (_, _, unasked) = run("0");
    assert!(unasked.contains("GOONDAN_SECRET_OPENAI_KEY"), "{unasked}");
    with_key("other");
    let (_, _, missing) = run("1");
    assert!(missing.contains("GOONDAN_SECRET_OPENAI_OTHER"), "{missing}");
    sandbox.write("bin/locked", "");
    let (_, _, locked) = run("1");
    assert!(
        locked.contains("locked object") && locked.contains("unlock the keyring"),
        "{locked}"
    );
}

#[cfg(unix)]
#[test]
fn explain_follows_links_where_it_knows_the_folder_and_says_where_it_does_not() {
    let sandbox =
        project("permissions: {default: allow, rules: [{args: {cwd: keep*}, action: deny}]}");
    sandbox.write("here/keep/x", "");
    std::os::unix::fs::symlink("keep", sandbox.dir().join("here/link")).unwrap();
    let args = r#"{"command": "ls", "cwd": "link", "timeoutMs": -1}"#;
    let explain = [
        "policy",
        "explain",
        "--project",
        "p",
        "--agent",
        "a",
        "--tool",
        "bash__exec",
        "--args",
        args,
    ];
    insta::assert_snapshot!("explain paths", sandbox.gdn(&explain).ok());
    let followed = sandbox.gdn(&[&explain[..], &["--workdir", "here"]].concat());
    assert!(
        followed.ok().starts_with("bash__exec: deny\n")
            && !followed.stdout.contains("by their text")
    );
}

#[test]
fn explain_tells_of_protected_places_as_a_run_does() {
    let sandbox = Sandbox::new();
    let with = |rules: &str| {
        let more = format!("workdir: project\n  permissions: {{default: allow, rules: [{rules}]}}");
        let manifest =
            manifest(MODEL, &more).replace("{ref: Tool/bash}", "{ref: Tool/bash}, {ref: Tool/fs}");
        sandbox.write("p/goondan.yaml", &manifest);
    };
    sandbox.write("p/script.yaml", RUN);
    let explain = |tool: &str, args: &str| {
        let explain = [
            "policy",
            "explain",
            "--project",
            "p",
            "--agent",
            "a",
            "--tool",
            tool,
            "--args",
            args,
        ];
        sandbox.gdn(&explain).ok().to_owned()
    };
    let (path, line) = (
        r#"{"path": "goondan.yaml", "content": ""}"#,
        r#"{"command": "echo x > script.yaml"}"#,
    );
    with("");
    insta::assert_snapshot!("explain a protected place", explain("fs__write", path));
    assert!(explain("fs__read", r#"{"path": "goondan.yaml"}"#).starts_with("fs__read: allow\n"));
    with(
        r#"{tool: fs__write, args: {path: goondan.yaml}, action: allow}, {tool: bash__exec, action: ask}, {tool: bash__exec, args: {command: "echo *"}, action: allow}, {tool: bash__exec, args: {command: "> *"}, action: allow}"#,
    );
    assert!(explain("fs__write", path).starts_with("fs__write: allow\n"));
    insta::assert_snapshot!(
        "explain a protected redirection",
        explain("bash__exec", line)
    );
}

//! Policies, approvals, sandboxes and secrets.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::projects::manifest;
use crate::sandbox::Sandbox;
#[cfg(target_os = "linux")]
use crate::types::is_installed;

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

const PERMISSIONS: &str = "\
permissions:
    default: allow
    rules:
      - {permission: execute, action: ask}
      - {tool: bash__*, args: {command: git *}, action: allow}";

/// The model runs the input as a command, and then answers.
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

/// Returns a project whose agent also has the tools `runtime` and `fs`.
fn project_with_file_tools(more: &str) -> Sandbox {
    let sandbox = project(more);
    let tools = "{ref: Tool/bash}, {ref: Tool/runtime}, {ref: Tool/fs}";
    let text = manifest(MODEL, more).replace("{ref: Tool/bash}", tools);
    sandbox.write("p/goondan.yaml", &text);
    sandbox
}

#[test]
fn policy_explain_names_the_deciding_rule() {
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
fn a_rule_without_effect_is_reported_at_its_line() {
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

/// Runs `command` in a stream, and answers its approval request with `answer`. Returns the request
/// and the status of the call.
fn run_with_answer(
    sandbox: &Sandbox,
    command: &str,
    answer: Option<&str>,
) -> (Option<Value>, String) {
    let mut child = start_stream(sandbox);
    let mut stdin = child.stdin.take();
    writeln!(stdin.as_mut().unwrap(), "{}", json!({"input": command})).unwrap();
    let (mut request, mut status) = (None, String::new());
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
                request = Some(line);
            }
            Some("tool.completed") => status = line["status"].as_str().unwrap().to_owned(),
            Some("result") => stdin = None,
            _ => {}
        }
    }
    assert!(child.wait().unwrap().success());
    (request, status)
}

#[test]
fn an_approval_request_is_answered_with_a_stream_line() {
    let sandbox = project(PERMISSIONS);
    let (request, status) = run_with_answer(&sandbox, "touch x", Some("once"));
    let request = request.unwrap();
    assert_eq!(
        (request["toolName"].as_str(), request["preview"].as_str()),
        (Some("bash__exec"), Some("$ touch x"))
    );
    assert_eq!(status, "ok");
    assert_eq!(
        run_with_answer(&sandbox, "touch x", Some("deny")).1,
        "error"
    );
    // Standard input is closed during the approval request, so no answer can follow.
    assert_eq!(run_with_answer(&sandbox, "touch x", None).1, "error");
    assert_eq!(
        run_with_answer(&sandbox, "git --version", None),
        (None, "ok".to_owned())
    );
}

#[test]
fn conversation_and_permanent_approvals_are_remembered() {
    let sandbox = project(PERMISSIONS);
    assert_eq!(
        run_with_answer(&sandbox, "touch x", Some("conversation")).1,
        "ok"
    );
    assert_eq!(
        run_with_answer(&sandbox, "touch x", None),
        (None, "ok".to_owned())
    );
    assert_eq!(run_with_answer(&sandbox, "touch y", Some("always")).1, "ok");
    assert_eq!(
        run_with_answer(&sandbox, "touch y", None),
        (None, "ok".to_owned())
    );
    // Approvals are not stored in the project.
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

/// The permanent approval was given for a call in a sandbox.
#[test]
#[cfg(target_os = "linux")]
fn an_approval_ends_with_the_sandbox_of_its_call() {
    let permissions = |sandbox: &str| {
        format!(
            "permissions: {{default: allow, {sandbox}rules: [{{permission: execute, action: ask}}]}}"
        )
    };
    if !has_sandbox() {
        return;
    }
    let sandbox = project(&permissions("sandbox: {}, "));
    let (_, status) = run_with_answer(&sandbox, "touch y", Some("always"));
    assert_eq!(status, "ok");
    assert_eq!(
        run_with_answer(&sandbox, "touch y", None),
        (None, "ok".to_owned())
    );
    sandbox.write("p/goondan.yaml", &manifest(MODEL, &permissions("")));
    assert_eq!(run_with_answer(&sandbox, "touch y", None).1, "error");
}

/// A new conversation with the key of a deleted one has another user, or another directory content.
#[test]
fn a_deleted_conversation_leaves_no_approvals() {
    let sandbox = project(PERMISSIONS);
    assert_eq!(run_with_answer(&sandbox, "touch x", Some("always")).1, "ok");
    assert_eq!(
        run_with_answer(&sandbox, "touch y", Some("conversation")).1,
        "ok"
    );
    assert_eq!(
        run_with_answer(&sandbox, "wc --version", Some("always program")).1,
        "ok"
    );
    sandbox
        .gdn(&[
            "instance",
            "delete",
            "a:main",
            "--force",
            "--project",
            "./p",
        ])
        .ok();
    for command in ["touch x", "touch y"] {
        assert_eq!(
            run_with_answer(&sandbox, command, None).1,
            "error",
            "{command}"
        );
    }
    // This approval is for all conversations.
    assert_eq!(
        run_with_answer(&sandbox, "wc --version", None),
        (None, "ok".to_owned())
    );
}

#[test]
fn remembered_approvals_are_listed_and_removed() {
    let sandbox = project(PERMISSIONS);
    let (request, status) = run_with_answer(&sandbox, "wc -l script.yaml", Some("always program"));
    assert_eq!(
        request.unwrap()["offers"],
        json!([{"covers": "call"}, {"covers": "program", "commands": ["wc *"]}, {"covers": "tool"}])
    );
    assert_eq!(status, "ok");
    assert_eq!(
        run_with_answer(&sandbox, "touch x", Some("conversation")).1,
        "ok"
    );
    assert_eq!(
        run_with_answer(&sandbox, "wc --version", None),
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
    assert_eq!(run_with_answer(&sandbox, "wc --version", None).1, "error");
    sandbox
        .gdn(&["policy", "approvals", "remove", "--all", "-p", "p"])
        .ok();
    assert_eq!(run_with_answer(&sandbox, "touch x", None).1, "error");
    insta::assert_snapshot!(
        "no approvals",
        sandbox.gdn(&["policy", "approvals", "-p", "p"]).report()
    );
}

#[test]
fn project_files_are_protected_for_every_spelling_of_the_path() {
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

/// Without Landlock in the kernel, the call must fail.
#[test]
#[cfg(target_os = "linux")]
fn a_sandbox_restricts_files_and_network_or_refuses_the_call() {
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
    if !has_sandbox() {
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
    "io_uring_enter": 426, "io_uring_register": 427, "modify_ldt": 154, "iopl": 172, "ioperm": 173, "uselib": 134,
    "sysfs": 139, "ustat": 136, "nfsservctl": 180, "lookup_dcookie": 212, "remap_file_pages": 216, "migrate_pages": 256,
    "move_pages": 279, "process_madvise": 440, "process_mrelease": 448, "mount_setattr": 442, "open_tree_attr": 467,
    "fanotify_mark": 301, "kexec_file_load": 320, "quotactl_fd": 443, "statmount": 457, "listmount": 458,
    "lsm_set_self_attr": 460, "setxattrat": 463, "create_module": 174, "get_kernel_syms": 177, "query_module": 178,
    "getpmsg": 181, "putpmsg": 182, "afs_syscall": 183, "tuxcall": 184, "security": 185, "vserver": 236, "epoll_ctl_old": 214,
    "_sysctl": 156, "not a call": 10000, "x32 read": 0x40000000,
}
tries = [(name, number, (0, 0, 0, 0)) for name, number in calls.items()]
tries += [
    ("sched_setaffinity", 203, (parent, 0, 0)), ("sched_setscheduler", 144, (parent, 3, 0)),
    ("setpriority", 141, (0, parent, 19)), ("setpriority of the user", 141, (2, 0, 19)),
    ("ioprio_set", 251, (1, parent, 3 << 13)), ("clone", 56, (0x10000000 | 17, 0, 0, 0)),
    ("socket", 41, (2, 1, 0)), ("local socket", 41, (1, 1, 0)), ("netlink", 41, (16, 3, 9)), ("vsock", 41, (40, 1, 0)),
    ("bluetooth", 41, (31, 3, 1)), ("packet", 41, (17, 3, 0)), ("datagram pair", 53, (1, 2, 0)), ("tiocsti", 16, (0, 0x5412, 0)),
    ("setown", 72, (0, 8, parent)), ("setsig", 72, (0, 10, 18)), ("setlease", 72, (0, 1024, 0)), ("fiosetown", 16, (0, 0x8901, 0)),
    ("continued by the parent", 157, (1, 18, 0)),
]
if platform.machine() == "x86_64":
    for name, number, arguments in tries:
        done = libc.syscall(number, *map(ctypes.c_long, arguments))
        if done == 0 and name == "clone":
            os._exit(0)
        if done != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
            print(name, done, ctypes.get_errno())
paths = ["/run", "/run/user", "/run/secrets", "/run/credentials", "/var/run/secrets", "/dev/shm", "/dev", "/proc", "/proc/1/environ",
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_rsa_key", "/etc/ssl/private/ssl-cert-snakeoil.key", "/etc/shadow-",
    "/etc/security/opasswd", "/root", "/home", "/var/lib", "/var/spool", "/var/spool/cron", "/var/mail", "/var/backups",
    "/var/cache", "/var/run", "/var/run/docker.sock", "/run/docker.sock", "/run/containerd", "/run/dbus", "/run/systemd/private",
    "/run/lock", "/run/user/0", "/run/user/1000", "/run/udev", "/boot", "/mnt", "/media", "/srv", "/lost+found", "/dev/mem", "/dev/kmsg",
    "/dev/tty", "/dev/console", "/dev/pts", "/dev/ptmx", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/input",
    "/dev/mqueue", "/proc/kcore", "/proc/kmsg", "/proc/kallsyms", "/proc/keys", "/proc/self/environ", "/proc/1/cmdline", "/proc/1/root", "/var/log", "/tmp", f"/proc/{parent}/environ", os.path.expanduser("~/.ssh")]
for path in paths:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path).read()
        print("read", path)
    except OSError:
        pass
try:
    os.setxattr(".", "user.gdn", b"1")
    print("setxattr")
except OSError as error:
    if error.errno != errno.EOPNOTSUPP:
        print("setxattr", error)
for name, mode in [("terminal", 0o20666), ("disk", 0o60666)]:
    try:
        os.mknod(name, mode, os.makedev(5, 0))
        print("mknod", name)
    except OSError:
        pass
for bits, mode in [("set-user-ID", 0o4755), ("set-group-ID", 0o2755)]:
    tries = [("open", lambda: os.open(bits, os.O_CREAT | os.O_WRONLY, mode)),
        ("O_TMPFILE", lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, mode)), ("mknod", lambda: os.mknod(bits, 0o100000 | mode)),
        ("chmod", lambda: os.chmod("probe.py", mode)), ("directory", lambda: os.chmod("shared", mode)),
        ("fchmod", lambda: os.fchmod(os.open("probe.py", os.O_RDONLY), mode)), ("fchmodat", lambda: os.chmod("probe.py", mode, dir_fd=os.open(".", os.O_RDONLY)))]
    for name, create in tries:
        try:
            create()
            print(bits, name)
        except PermissionError:
            pass
    calls = [("fchmodat2", 452, -100, b"probe.py", mode, 0), ("openat2", 437, -100, bits.encode(), (ctypes.c_uint64 * 3)(0o101, mode, 0), 24)]
    if platform.machine() == "x86_64":
        calls.append(("creat", 85, bits.encode(), mode))
    for name, *call in calls:
        if libc.syscall(*call) != -1:
            print(bits, name)
    os.mkdir(bits, mode)
    if os.stat(bits).st_mode & 0o6000:
        print(bits, "mkdir")
os.mkdir("shared/inner")
if not os.stat("shared/inner").st_mode & 0o2000:
    print("not inherited")
os.close(os.open("plain", os.O_CREAT | os.O_WRONLY, 0o755))
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
fn a_sandboxed_program_has_only_its_files_and_no_privileged_calls() {
    use std::os::unix::fs::PermissionsExt;
    if !has_sandbox() || !is_installed("python3") {
        return;
    }
    let sandbox = project("workdir: project\n  permissions: {default: allow, sandbox: {}}");
    sandbox.write("p/probe.py", PROBE);
    let shared = sandbox.dir().join("p/shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o2755)).unwrap();
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
    assert_eq!(result["output"]["stdout"], "over\n", "{result}");
}

/// Returns the error numbers of calls that could continue a stopped program, or write while it is
/// stopped.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const CONTINUING_HANDLER: &str = r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def error(number):
    result = libc.syscall(number, *[ctypes.c_long(0)] * 4)
    return [result, ctypes.get_errno()]
handlers = {"go": lambda context, input: [error(222), error(209)]}
"#;

/// Handlers are stopped while an approved script starts.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_stopped_handler_cannot_continue_itself() {
    if !has_sandbox() || !is_installed("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let project = manifest(model, "permissions: {default: allow}")
        .replace("{ref: Tool/bash}", "{ref: Tool/t}");
    let tool = "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: t}\nspec:\n  entry: ./t.py\n  \
        config: {sandbox: {read: [/]}}\n  exports: [{name: go, description: Tries., parameters: {type: object}}]\n";
    sandbox.write("p/goondan.yaml", &(project + tool));
    sandbox.write("p/script.yaml", "default: {text: done}\n");
    sandbox.write("p/t.py", CONTINUING_HANDLER);
    sandbox.gdn(&["trust", "p"]).ok();
    let call = ["tool", "call", "t__go", "-p", "p", "--args", "{}", "--json"];
    let outcome = sandbox.gdn(&call);
    let result: Value = serde_json::from_str(outcome.ok()).unwrap();
    // The calls do not exist.
    assert_eq!(result["output"], json!([[-1, 38], [-1, 38]]), "{result}");
}

/// Starts a program that a pattern allows, and then calls an approved script that the program could
/// replace. Returns the result of the script, or `None` on a system without sandbox.
#[cfg(target_os = "linux")]
fn call_replaceable_script(program: &str) -> Option<Value> {
    if !has_sandbox() {
        return None;
    }
    let script = "[ -e started ] && echo beside || echo good\n";
    Some(call_script(&project_with_replaceable_script(
        program, script,
    )))
}

/// Creates a project whose agent starts a program that a pattern allows, and calls a script that needs
/// an approval.
#[cfg(target_os = "linux")]
fn project_with_replaceable_script(program: &str, script: &str) -> Sandbox {
    let sandbox = project_with_file_tools(
        "workdir: project\n  permissions: {default: allow, rules: [{permission: execute, action: ask}, \
         {tool: \"runtime__*\", args: {command: sh *}, action: allow}]}",
    );
    sandbox.write("p/script.yaml", REPLACEABLE_SCRIPT_CALLS);
    sandbox.write("p/run.sh", script);
    sandbox.write("p/flip.sh", program);
    sandbox
}

/// Runs the project with approval of all calls, and returns the result of the script.
#[cfg(target_os = "linux")]
fn call_script(sandbox: &Sandbox) -> Value {
    sandbox.gdn(&["trust", "p"]).ok();
    let outcome = sandbox.gdn(&[
        "run",
        "p",
        "--input",
        "go",
        "--yes",
        "--output-format",
        "stream-json",
    ]);
    let events = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results: Vec<Value> = events
        .filter(|event| event["type"] == "tool.completed")
        .collect();
    let [started, called] = results.try_into().unwrap();
    assert_eq!(started["status"], "ok", "{started}");
    called
}

#[cfg(target_os = "linux")]
const REPLACEABLE_SCRIPT_CALLS: &str = "\
agents:
  a:
    - calls: [{id: c1, tool: runtime__exec, args: {command: sh flip.sh, background: true}}]
    - calls: [{id: c2, tool: bash__exec, args: {command: sh run.sh}}]
    - text: done
";

/// A background program of the same agent could replace the script after the approval.
#[test]
#[cfg(target_os = "linux")]
fn an_approved_script_does_not_run_while_a_program_can_replace_it() {
    let Some(called) = call_replaceable_script("touch started; sleep 60\n") else {
        return;
    };
    // On a busy machine, the program starts after the script, and waits for its end.
    if called["status"] == "ok" {
        assert_eq!(called["output"]["stdout"], "good\n", "{called}");
        return;
    }
    assert_eq!(called["error"]["code"], "E_TOOL_DENIED", "{called}");
    let message = called["error"]["message"].as_str().unwrap();
    // The program may also write another file while the call begins.
    let reasons = ["could change", "changed during the approval request"];
    assert!(
        reasons.iter().any(|reason| message.contains(reason)),
        "{message}"
    );
}

/// A process that leaves its group ends with the last sandboxed program, before the script runs.
#[test]
#[cfg(target_os = "linux")]
fn a_detached_program_does_not_replace_an_approved_script() {
    let program = "setsid sh -c 'sleep 2; echo echo evil > run.sh' &\n";
    let Some(called) = call_replaceable_script(program) else {
        return;
    };
    let is_denied = called["error"]["code"] == "E_TOOL_DENIED";
    assert!(
        is_denied || called["output"]["stdout"] == "good\n",
        "{called}"
    );
}

/// Starts processes that leave their session, start the next process, and end. All of them have the
/// pipe `alive` open.
#[cfg(target_os = "linux")]
const MOVING_PROCESSES: &str = r#"
move='[ -e over ] && echo survived >&3 && exit; setsid sh -c "$0" "$0" &'
exec 3>alive
echo started >&3
for process in 1 2 3 4; do setsid sh -c "$move" "$move" & done
"#;

/// Returns true if the kernel has a sandbox for programs. Otherwise prints why the test is skipped.
#[cfg(unix)]
#[allow(clippy::print_stderr, reason = "reports why a test is skipped")]
pub(crate) fn has_sandbox() -> bool {
    let is_supported = goondan::has_sandbox();
    if !is_supported {
        eprintln!("skipped: there is no sandbox");
    }
    is_supported
}

/// Returns true if the kernel limits signals of a sandbox: Linux 6.12 or later. Otherwise prints why
/// the test is skipped.
#[cfg(target_os = "linux")]
#[allow(clippy::print_stderr, reason = "reports why a test is skipped")]
pub(crate) fn limits_signals() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    let mut next = || numbers.next().unwrap().unwrap();
    let is_supported = goondan::has_sandbox() && (next(), next()) >= (6, 12);
    if !is_supported {
        eprintln!("skipped: there is no sandbox that limits signals");
    }
    is_supported
}

/// Reads a pipe until no process has it open for writing.
#[cfg(target_os = "linux")]
fn read_to_end(mut pipe: std::fs::File) -> String {
    use std::io::Read as _;

    let mut text = Vec::new();
    while let Err(error) = pipe.read_to_end(&mut text) {
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        std::thread::yield_now();
    }
    String::from_utf8(text).unwrap()
}

/// No process of a sandbox survives its call, even if it starts others all the time. So it can
/// neither replace an approved script nor outlive the swarm.
#[test]
#[cfg(target_os = "linux")]
fn processes_that_change_sessions_end_with_their_call() {
    use std::os::unix::fs::OpenOptionsExt as _;

    if !limits_signals() {
        return;
    }
    let sandbox = project_with_replaceable_script(MOVING_PROCESSES, "touch over; echo good\n");
    let calls = REPLACEABLE_SCRIPT_CALLS.replace(", background: true", "");
    sandbox.write("p/script.yaml", &calls);
    let path = sandbox.dir().join("p/alive");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let pipe = options
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .unwrap();
    let called = call_script(&sandbox);
    assert_eq!(called["output"]["stdout"], "good\n", "{called}");
    assert_eq!(read_to_end(pipe), "started\n");
}

#[test]
#[cfg(target_os = "linux")]
fn an_approved_script_runs_after_the_end_of_sandboxed_programs() {
    let Some(called) = call_replaceable_script("true\n") else {
        return;
    };
    assert_eq!(called["status"], "ok", "{called}");
}

/// Starts the project `p` with a stream of inputs.
fn start_stream(sandbox: &Sandbox) -> std::process::Child {
    let mut command = sandbox.command(&["run", "p", "--input-format", "stream-json"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Requests an approval of a tool call, replaces the directory `p/d` with a link while the request is
/// open, and answers it. Returns the end of the call.
#[cfg(unix)]
fn call_with_moved_directory(tool: &str, arguments: &Value, target: &str) -> Value {
    let sandbox = project_with_file_tools(
        "workdir: project\n  permissions: {default: ask, rules: [{tool: \"fs__*\", args: {path: keep/*}, action: deny}]}",
    );
    let calls = json!({"agents": {"a": [{"calls": [{"id": "c", "tool": tool, "args": arguments}]}, {"text": "done"}]}});
    sandbox.write("p/script.yaml", &calls.to_string());
    for path in ["p/d/k", "p/keep/k"] {
        sandbox.write(path, "text\n");
    }
    sandbox.gdn(&["trust", "p"]).ok();
    let mut child = start_stream(&sandbox);
    let mut stdin = child.stdin.take();
    writeln!(stdin.as_mut().unwrap(), "{}", json!({"input": "go"})).unwrap();
    let mut ended = Value::Null;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match line["type"].as_str() {
            Some("approval.request") => {
                let directory = sandbox.dir().join("p/d");
                std::fs::rename(&directory, sandbox.dir().join("p/d0")).unwrap();
                std::os::unix::fs::symlink(target, &directory).unwrap();
                let answer = json!({"approval": line["approval"], "answer": "once"});
                writeln!(stdin.as_mut().unwrap(), "{answer}").unwrap();
            }
            Some("tool.completed") => ended = line,
            Some("result") => stdin = None,
            _ => {}
        }
    }
    assert!(child.wait().unwrap().success());
    assert!(!sandbox.dir().join("p/keep/x").exists());
    ended
}

/// The user approved a call for another place than the one that it would use now.
#[test]
#[cfg(unix)]
fn an_approval_ends_if_the_call_now_uses_another_path() {
    for (tool, arguments) in [
        ("fs__write", json!({"path": "d/x", "content": "text"})),
        ("fs__read", json!({"path": "d/k"})),
        ("bash__exec", json!({"command": "touch x", "cwd": "d"})),
        ("bash__exec", json!({"command": "echo x > d/x"})),
        ("bash__exec", json!({"command": "cd d && touch x"})),
        ("bash__exec", json!({"command": "cp d/k d/x"})),
    ] {
        let ended = call_with_moved_directory(tool, &arguments, "keep");
        assert_eq!(ended["error"]["code"], "E_TOOL_DENIED", "{tool}: {ended}");
    }
}

/// Calls a tool in two turns of a conversation, approves the call for the whole conversation, and
/// replaces the directory `p/d` with a link between the turns if `moves`. Returns the number of
/// approval requests.
#[cfg(unix)]
fn requests_of_repeated_call(tool: &str, arguments: &Value, moves: bool) -> usize {
    let sandbox = project_with_file_tools("workdir: project\n  permissions: {default: ask}");
    let call = |id: &str| json!({"calls": [{"id": id, "tool": tool, "args": arguments}]});
    let done = json!({"text": "done"});
    let calls = json!({"agents": {"a": [call("c1"), done, call("c2"), done]}});
    sandbox.write("p/script.yaml", &calls.to_string());
    for path in ["p/d/k", "p/e/k"] {
        sandbox.write(path, &format!("{path}\n"));
    }
    sandbox.gdn(&["trust", "p"]).ok();
    let mut child = start_stream(&sandbox);
    let mut stdin = child.stdin.take();
    let (mut requests, mut turns) = (0, 0);
    let send = |stdin: &mut Option<std::process::ChildStdin>, line: Value| {
        writeln!(stdin.as_mut().unwrap(), "{line}").unwrap();
    };
    send(&mut stdin, json!({"input": "go"}));
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match line["type"].as_str() {
            Some("approval.request") => {
                requests += 1;
                let answer = json!({"approval": line["approval"], "answer": "conversation"});
                send(&mut stdin, answer);
            }
            Some("result") if turns == 0 => {
                turns += 1;
                if moves {
                    let directory = sandbox.dir().join("p/d");
                    std::fs::rename(&directory, sandbox.dir().join("p/d0")).unwrap();
                    std::os::unix::fs::symlink("e", &directory).unwrap();
                }
                send(&mut stdin, json!({"input": "again"}));
            }
            Some("result") => stdin = None,
            _ => {}
        }
    }
    assert!(child.wait().unwrap().success());
    requests
}

/// The user approved a script with a certain shell and certain variables.
#[test]
#[cfg(unix)]
fn a_remembered_approval_of_a_script_covers_its_shell_and_variables() {
    for more in [
        json!({"shell": "./d/k"}),
        json!({"env": {"BASH_ENV": "d/k"}}),
        json!({"env": {"PATH": "d:/usr/bin:/bin"}}),
        json!({"args": ["--file=d/k"]}),
    ] {
        let mut arguments = json!({"path": "e/k"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        assert_eq!(
            requests_of_repeated_call("bash__script", &arguments, true),
            2,
            "{more}"
        );
    }
}

/// The user approved the call for the place to which its path led.
#[test]
#[cfg(unix)]
fn a_remembered_approval_ends_if_the_path_leads_to_another_place() {
    for (tool, arguments) in [
        ("fs__read", json!({"path": "d/k"})),
        ("fs__ls", json!({"path": "d"})),
        ("bash__exec", json!({"command": "ls", "cwd": "d"})),
        ("bash__exec", json!({"command": "wc < d/k > d/x"})),
        ("bash__exec", json!({"command": "cd d && touch x"})),
    ] {
        assert_eq!(
            requests_of_repeated_call(tool, &arguments, false),
            1,
            "{tool}"
        );
        assert_eq!(
            requests_of_repeated_call(tool, &arguments, true),
            2,
            "{tool}: {arguments}"
        );
    }
}

/// Runs a command that a pattern allows, with a further access of the sandbox.
#[cfg(target_os = "linux")]
fn permitted_call(sandbox: &Sandbox, project: &str, command: &str) -> Value {
    let arguments = json!({"command": command}).to_string();
    let outcome = sandbox.gdn(&[
        "tool",
        "call",
        "bash__exec",
        "-p",
        project,
        "--args",
        &arguments,
        "--json",
    ]);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| json!({"failed": outcome.report()}))
}

/// A program cannot extend its sandbox with a link that it makes in its working directory.
#[test]
#[cfg(target_os = "linux")]
fn a_link_in_the_working_directory_does_not_extend_the_sandbox() {
    if !has_sandbox() {
        return;
    }
    let sandbox = project(
        "workdir: project\n  permissions: {default: deny, rules: [{tool: bash__exec, args: {command: \"*\"}, \
         action: allow, sandbox: {write: [out], read: [inn]}}]}",
    );
    sandbox.write("home/secret.txt", "secret\n");
    sandbox.gdn(&["trust", "p"]).ok();
    let elsewhere = sandbox.dir().join("home");
    for link in ["out", "inn"] {
        std::os::unix::fs::symlink(&elsewhere, sandbox.dir().join("p").join(link)).unwrap();
    }
    let read = permitted_call(&sandbox, "p", "cat inn/secret.txt");
    assert!(!read.to_string().contains("secret\\n"), "{read}");
    permitted_call(&sandbox, "p", "touch out/new");
    assert!(!elsewhere.join("new").exists());
}

/// The state contains approvals and other conversations. A project may contain it by mistake.
#[test]
#[cfg(target_os = "linux")]
fn sandboxed_programs_cannot_read_a_state_directory_in_the_project() {
    if !has_sandbox() {
        return;
    }
    for (workdir, file_tool) in [
        ("", "../../../../approvals.json"),
        ("workdir: project\n  ", "var/mark"),
    ] {
        let sandbox = project_with_file_tools(&format!(
            "{workdir}permissions: {{default: allow, sandbox: {{}}}}"
        ));
        sandbox.write("p/var/mark", "state\n");
        let project = sandbox.dir().join("p").canonicalize().unwrap();
        let call = |tool: &str, arguments: Value| {
            let place = [
                "tool",
                "call",
                tool,
                "-p",
                "p",
                "--state-root",
                "p/var",
                "--json",
            ];
            sandbox
                .gdn(&[&place[..], &["--args", &arguments.to_string()]].concat())
                .report()
        };
        let command = format!("cat {0}/goondan.yaml {0}/var/mark", project.display());
        let run = call("bash__exec", json!({"command": command}));
        assert!(!run.contains("state\\n"), "{run}");
        match workdir {
            // Other files of the project stay readable.
            "" => assert!(run.contains("kind: Agent"), "{run}"),
            _ => assert!(
                run.contains("E_TOOL_SANDBOX") && run.contains("--state-root"),
                "{run}"
            ),
        }
        let read = call("fs__read", json!({"path": file_tool}));
        assert!(read.contains("E_TOOL_PATH_ESCAPE"), "{read}");
    }
}

/// The repository of the project is read by git, but not the target of a link in its place.
#[test]
#[cfg(target_os = "linux")]
fn a_repository_that_is_a_link_is_not_opened() {
    if !has_sandbox() {
        return;
    }
    let sandbox = Sandbox::new();
    let agent = "workdir: project\n  permissions: {default: deny, rules: [{tool: bash__exec, args: {command: \"git *\"}, \
                 action: allow}]}";
    sandbox.write("g/p/goondan.yaml", &manifest(MODEL, agent));
    sandbox.write("g/p/script.yaml", RUN);
    sandbox.write("home/secret.txt", "hidden text\n");
    sandbox.gdn(&["trust", "g"]).ok();
    let elsewhere = sandbox.dir().join("home");
    std::os::unix::fs::symlink(&elsewhere, sandbox.dir().join("g/.git")).unwrap();
    let command = format!(
        "git diff --no-index /dev/null {}/secret.txt",
        elsewhere.display()
    );
    let read = permitted_call(&sandbox, "g/p", &command);
    assert!(!read.to_string().contains("hidden text"), "{read}");
}

#[test]
#[cfg(unix)]
fn the_file_size_limit_of_a_tool_is_enforced() {
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
fn secrets_are_read_from_files_and_masked() {
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

#[test]
fn secrets_of_a_tool_config_are_masked_and_found_in_files() {
    let sandbox = project("permissions: {default: allow}");
    let tool = |name: &str, token: &str| {
        format!(
            "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: {name}}}\n\
             spec: {{entry: builtin:telegram, config: {{token: {token}}}}}\n"
        )
    };
    let manifest = manifest(MODEL, "permissions: {default: allow}").replace(
        "{ref: Tool/bash}]",
        "{ref: Tool/bash}, {ref: Tool/one}, {ref: Tool/two}]",
    );
    let one = tool("one", "{value: literal-bot-token}");
    let two = tool(
        "two",
        "{valueFrom: {secretRef: {ref: Secret/bot, key: token}}}",
    );
    sandbox.write("p/goondan.yaml", &format!("{manifest}{one}{two}"));
    sandbox.write("secrets/bot/token", "bot-token-of-a-file\n");
    let mut command = sandbox.command(&["tool", "call", "bash__exec", "-p", "p", "--args"]);
    command.arg(json!({"command": "echo literal-bot-token; echo bot-token-of-a-file"}).to_string());
    command.env("GOONDAN_SECRETS_DIR", sandbox.dir().join("secrets"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap_or_default();
    assert_eq!(result["stdout"], "***\n***\n", "{text}");
}

/// A mock of `secret-tool` with one secret. The file `locked` makes the keyring locked.
#[cfg(target_os = "linux")]
const KEYRING: &str = "#!/bin/sh
test -e \"$(dirname \"$0\")/locked\" && { echo 'secret-tool: Cannot get secret of a locked object' >&2; exit 1; }
test \"$*\" = 'lookup service goondan account openai/key' && printf sk-of-the-keyring || exit 1
";

#[cfg(target_os = "linux")]
#[test]
fn secrets_are_read_from_the_keyring_if_allowed() {
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
    let (_, _, disabled) = run("0");
    assert!(disabled.contains("GOONDAN_SECRET_OPENAI_KEY"), "{disabled}");
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
fn policy_explain_resolves_links_only_with_a_working_directory() {
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
fn files_that_precede_an_entry_are_protected() {
    let sandbox = Sandbox::new();
    let agents = manifest(MODEL, "workdir: project\n  permissions: {default: allow}");
    let tool = |name: &str, entry: &str| {
        format!(
            "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: {name}}}\n\
             spec: {{entry: {entry}, exports: [{{name: x, description: d, parameters: {{type: object}}}}]}}\n"
        )
    };
    let project = agents.replace(
        "tools: [",
        "tools: [{ref: Tool/fs}, {ref: Tool/words}, {ref: Tool/dice}, ",
    ) + &tool("words", "./src/words.mts")
        + &tool("dice", "./dice");
    sandbox.write("p/goondan.yaml", &project);
    sandbox.write("p/script.yaml", RUN);
    sandbox.write("p/src/words.mts", "export const handlers = { x() {} };\n");
    sandbox.write("p/dice.so", "");
    for (path, expected) in [
        ("dist/src/words.mjs", "ask"),
        ("src/words.mjs", "ask"),
        ("src/words.mts", "ask"),
        ("libdice.so", "ask"),
        ("dist/src/other.mjs", "allow"),
    ] {
        let arguments = json!({"path": path, "content": ""}).to_string();
        let explain = [
            "policy",
            "explain",
            "-p",
            "p",
            "--agent",
            "a",
            "--tool",
            "fs__write",
            "--args",
            &arguments,
        ];
        let explained = sandbox.gdn(&explain);
        let decision = format!("fs__write: {expected}\n");
        assert!(
            explained.stdout.starts_with(&decision),
            "{path}: {explained:?}"
        );
    }
}

#[test]
fn policy_explain_reports_protected_files() {
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

/// Files from which `gdn` reads variables and secrets are files with keys, whatever their name is.
#[test]
fn file_tools_ask_before_they_access_key_files_of_any_name() {
    let sandbox = project_with_file_tools("workdir: project");
    for (file, text) in [
        ("conf/prod.env", "A_SETTING=one\n"),
        ("keys/bank/token", "hunter2-hunter2\n"),
        ("conf/other.env", "A_SETTING=two\n"),
    ] {
        sandbox.write(&format!("p/{file}"), text);
    }
    let folder = sandbox.dir().join("p");
    std::fs::hard_link(folder.join("conf/prod.env"), folder.join("notes.txt")).unwrap();
    let call = |tool: &str, args: Value| {
        let args = args.to_string();
        let arguments = ["tool", "call", tool, "-p", "p", "--args", &args, "--trust"];
        let file = ["--env-file", "p/conf/prod.env", "--json"];
        let mut command = sandbox.command(&[&arguments[..], &file].concat());
        command.env("GOONDAN_SECRETS_DIR", folder.join("keys"));
        sandbox.run_command(command)
    };
    for file in ["conf/prod.env", "keys/bank/token", "keys/new", "notes.txt"] {
        for (tool, args) in [
            ("fs__read", json!({"path": file})),
            ("fs__write", json!({"path": file, "content": "A=b\n"})),
        ] {
            let asked = call(tool, args);
            assert!(
                asked.code != 0 && asked.stderr.contains("may contain keys"),
                "{file}: {asked:?}"
            );
        }
    }
    let found = call("fs__grep", json!({"pattern": "A_SETTING|hunter2"}));
    let found = found.ok();
    assert!(
        found.contains("other.env") && !found.contains("prod.env") && !found.contains("token"),
        "{found}"
    );
    call("fs__read", json!({"path": "conf/other.env"})).ok();
}

#[test]
fn settings_of_git_with_a_password_are_hidden_from_a_pattern() {
    if !goondan::has_sandbox() {
        return;
    }
    let sandbox = project(PERMISSIONS);
    let name = "[user]\n\tname = Ada\n";
    let list = |settings: &str| {
        sandbox.write("home/.gitconfig", settings);
        let args = json!({"command": "git config --list"}).to_string();
        let arguments = ["tool", "call", "bash__exec", "-p", "p", "--args", &args];
        let mut command = sandbox.command(&arguments);
        command.env("HOME", sandbox.dir().join("home"));
        sandbox.run_command(command).ok().to_owned()
    };
    assert!(list(name).contains("user.name=Ada"));
    for with_key in [
        "[http]\n\textraheader = Authorization: Basic hunter2\n",
        "[url \"https://ada:hunter2@h/\"]\n\tinsteadOf = https://h/\n",
    ] {
        let listed = list(&format!("{name}{with_key}"));
        let has_failed = listed.contains("unable to access") || listed.contains("fatal");
        assert!(!listed.contains("hunter2") && !has_failed, "{listed}");
    }
}

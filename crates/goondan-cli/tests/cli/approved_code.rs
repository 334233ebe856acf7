//! Code that a call runs without naming its file.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::projects::manifest;
use crate::sandbox::Sandbox;
use crate::types::is_installed;

const MODEL: &str = "{provider: scripted, model: any, options: {script: script.yaml}}";

/// Returns a trusted project whose agent runs the command line in the project.
fn project(line: &str, permissions: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let more = format!("workdir: project\n  permissions: {permissions}");
    sandbox.write("p/goondan.yaml", &manifest(MODEL, &more));
    let call = json!({"calls": [{"id": "c", "tool": "bash__exec", "args": {"command": line}}]});
    let agents = json!({"agents": {"a": [call, {"text": "done"}]}});
    sandbox.write("p/script.yaml", &agents.to_string());
    sandbox.gdn(&["trust", "p"]).ok();
    sandbox
}

/// Runs the call, and approves it after `change`. Returns the `tool.completed` event.
fn called(sandbox: &Sandbox, change: impl Fn()) -> Value {
    let mut command = sandbox.command(&["run", "p", "--input-format", "stream-json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take();
    writeln!(stdin.as_mut().unwrap(), "{}", json!({"input": "go"})).unwrap();
    let mut ended = Value::Null;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match line["type"].as_str() {
            Some("approval.request") => {
                change();
                let answer = json!({"approval": line["approval"], "answer": "once"});
                writeln!(stdin.as_mut().unwrap(), "{answer}").unwrap();
            }
            Some("tool.completed") => ended = line,
            Some("result") => stdin = None,
            _ => {}
        }
    }
    assert!(child.wait().unwrap().success());
    ended
}

/// Another program of the agent may change the script while the user reads the request.
#[test]
fn scripts_changed_during_an_approval_request_do_not_run() {
    for line in ["X=run.sh; sh \"$X\"", "sh r*.sh", "cat run.sh | sh"] {
        let sandbox = project(line, "{default: ask}");
        sandbox.write("p/run.sh", "touch good\n");
        let ended = called(&sandbox, || sandbox.write("p/run.sh", "touch evil\n"));
        assert_eq!(ended["error"]["code"], "E_TOOL_DENIED", "{line}: {ended}");
        assert!(!sandbox.dir().join("p/evil").exists(), "{line}");
        let ended = called(&sandbox, || ());
        assert_eq!(ended["status"], "ok", "{line}: {ended}");
        assert!(sandbox.dir().join("p/evil").exists(), "{line}");
    }
}

/// Runs Python, which writes no compiled files of its own.
fn run_python(folder: &Path, code: &str) {
    let output = Command::new("python3")
        .args(["-B", "-c", code])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Python runs a compiled file in place of the module next to it, if it trusts the file.
#[test]
fn a_planted_compiled_python_file_does_not_run() {
    if !is_installed("python3") {
        return;
    }
    let sandbox = project("python3 -m tools.check", "{default: allow}");
    sandbox.write("p/tools/check.py", "open('good', 'w')\n");
    sandbox.write("p/evil.py", "open('evil', 'w')\n");
    let compile = "\
import importlib.util, py_compile
py_compile.compile('evil.py', importlib.util.cache_from_source('tools/check.py'),
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)";
    let project = sandbox.dir().join("p");
    run_python(&project, compile);
    run_python(&project, "import runpy; runpy.run_module('tools.check')");
    assert!(
        project.join("evil").exists(),
        "the file would run otherwise"
    );
    std::fs::remove_file(project.join("evil")).unwrap();
    let ended = called(&sandbox, || ());
    assert_eq!(ended["status"], "ok", "{ended}");
    assert!(project.join("good").exists() && !project.join("evil").exists());
}

/// The agent may run `git log`, but must not change the permissions of the project.
#[test]
#[cfg(target_os = "linux")]
fn a_read_only_command_allowed_by_a_pattern_cannot_write_files() {
    if !crate::safety::has_sandbox() || !is_installed("git") {
        return;
    }
    let rule = |pattern: &str| {
        format!("{{tool: bash__exec, args: {{command: \"{pattern}\"}}, action: allow}}")
    };
    let rules = [rule("git log*"), rule("> new.txt")].join(", ");
    let permissions = format!("{{default: deny, rules: [{rules}]}}");
    for (line, is_written) in [
        ("git log --output=goondan.yaml", false),
        ("git log --output=new.yaml", false),
        ("git log > new.txt", true),
    ] {
        let sandbox = project(line, &permissions);
        let project = sandbox.dir().join("p");
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=x", "-c", "user.email=x@x"]);
            git.args(args).current_dir(&project).output()
        };
        let commit = ["commit", "--allow-empty", "-m", "first"];
        assert!(git(&["init"]).unwrap().status.success());
        assert!(git(&commit).unwrap().status.success());
        let before = std::fs::read_to_string(project.join("goondan.yaml")).unwrap();
        let ended = called(&sandbox, || ());
        assert_eq!(ended["status"], "ok", "{line}: {ended}");
        let has_failed = ended["output"]["exitCode"] != 0;
        assert_eq!(has_failed, !is_written, "{line}: {ended}");
        let after = std::fs::read_to_string(project.join("goondan.yaml")).unwrap();
        assert_eq!(before, after, "{line}");
        assert!(!project.join("new.yaml").exists());
    }
}

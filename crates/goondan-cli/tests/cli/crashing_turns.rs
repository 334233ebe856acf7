//! Turns whose tool crashes the process: a library that aborts, and a library whose stack
//! overflows.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::projects::manifest;
use crate::sandbox::Sandbox;

/// Calls the library for the input `crash`, and answers any other input itself.
const SCRIPT: &str = "\
rules:
  - when: {role: user, contains: crash}
    reply: {calls: [{id: c, tool: text__reverse, args: {text: any}}]}
default: {text: fine}
";

const TOOL: &str = "---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: text}
spec: {entry: ./reverse}
";

/// Start of the example library's call, which the tests replace.
const CALL: &str = "goondan_bytes in = argument(request);";

/// Creates a project with the example library in C, whose call runs `code`. Returns `None` without a
/// C compiler.
fn project_with_library(code: &str) -> Option<Sandbox> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source =
        std::fs::read_to_string(repository.join("examples/plugins/c-reverse/reverse.c")).unwrap();
    assert!(source.contains(CALL));
    let sandbox = Sandbox::new();
    let overflow = "static volatile int depth;\nstatic int overflow(int n) { volatile char page[4096]; page[0] = (char)n; \
        depth = n; return overflow(n + 1) + page[0]; }\n";
    let source = source
        .replace(
            "static goondan_status start(",
            &format!("{overflow}static goondan_status start("),
        )
        .replace(CALL, &format!("{code}\n  {CALL}"));
    sandbox.write("reverse.c", &source);
    let library = format!(
        "p/{}reverse{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let text = manifest(model, "permissions: {default: allow}");
    let text = text.replace("Tool/text-transform", "Tool/text");
    sandbox.write("p/goondan.yaml", &format!("{text}{TOOL}"));
    sandbox.write("p/script.yaml", SCRIPT);
    let compiled = Command::new("cc")
        .args(["-O0", "-w", "-shared", "-fPIC", "-I"])
        .arg(repository.join("include"))
        .arg(sandbox.dir().join("reverse.c"))
        .arg("-o")
        .arg(sandbox.dir().join(library))
        .status();
    match compiled {
        Ok(status) => assert!(status.success()),
        Err(_) => return None,
    }
    Some(sandbox)
}

fn run(sandbox: &Sandbox, input: &str) -> Output {
    sandbox
        .command(&["run", "p", "--input", input])
        .output()
        .unwrap()
}

/// Runs the input until its turn is given up, and checks that the conversation continues.
#[track_caller]
#[allow(clippy::print_stderr, reason = "reports why the test is skipped")]
fn assert_turn_is_given_up(code: &str) {
    let Some(sandbox) = project_with_library(code) else {
        eprintln!("skipped: there is no C compiler `cc`");
        return;
    };
    for input in ["crash", "one", "two"] {
        let output = run(&sandbox, input);
        assert!(output.status.signal().is_some(), "{input}: {output:?}");
    }
    let output = run(&sandbox, "three");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n");
    let shown = sandbox.gdn(&["instance", "show", "main", "--project", "p"]);
    assert!(shown.ok().contains("E_TURN_POISON"), "{shown:?}");
    // A retry of the event crashes again.
    let again = sandbox
        .command(&["instance", "retry", "main", "--project", "p"])
        .output()
        .unwrap();
    assert!(again.status.signal().is_some(), "{again:?}");
}

#[test]
fn a_turn_whose_library_aborts_is_given_up() {
    assert_turn_is_given_up("abort();");
}

#[test]
fn a_turn_whose_library_overflows_the_stack_is_given_up() {
    assert_turn_is_given_up("overflow(0);");
}

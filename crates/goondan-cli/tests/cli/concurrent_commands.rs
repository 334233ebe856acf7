//! Commands that use the same workspace at the same time.

use std::process::{Child, Stdio};

use crate::projects::{ECHO, scripted};
use crate::sandbox::Sandbox;

fn spawn(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    let mut command = sandbox.command(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the command, which must succeed. Returns its output.
fn stdout_of(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_that_start_concurrently_all_receive_their_answers() {
    let sandbox = scripted(ECHO);
    for round in 0..4 {
        let inputs = ["one", "two", "three"].map(|word| format!("{word} {round}"));
        let runs = inputs
            .each_ref()
            .map(|input| spawn(&sandbox, &["run", "p", "--input", input, "-k", input]));
        let args = r#"{"text": "hi", "to": "upper"}"#;
        let call = spawn(
            &sandbox,
            &[
                "tool",
                "call",
                "text-transform__case",
                "--args",
                args,
                "--project",
                "p",
            ],
        );
        for (run, input) in runs.into_iter().zip(&inputs) {
            assert_eq!(stdout_of(run), format!("heard {input}\n"));
        }
        assert!(stdout_of(call).contains("HI"));
    }
    let rows: serde_json::Value =
        serde_json::from_str(sandbox.gdn(&["instance", "list", "--json", "-p", "p"]).ok()).unwrap();
    let turns = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["messages"] == 2)
        .count();
    assert_eq!(turns, 12, "each input started one turn: {rows:#}");
}

#[test]
fn a_lock_held_by_an_unreachable_process_is_an_error_until_released() {
    let sandbox = scripted(ECHO);
    sandbox.gdn(&["run", "p", "--input", "hi"]).ok();
    let workspaces = std::fs::read_dir(sandbox.state().join("workspaces")).unwrap();
    let lock = workspaces
        .map(|entry| entry.unwrap().path().join("lock"))
        .next()
        .unwrap();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&lock)
        .unwrap();
    file.lock().unwrap();
    std::fs::write(&lock, std::process::id().to_string()).unwrap();
    let refused = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(refused.code, 1, "{}", refused.report());
    assert!(
        refused.stderr.contains("[WORKSPACE_ERROR]") && refused.stderr.contains("is held by"),
        "{refused:?}"
    );

    let waiting = spawn(&sandbox, &["run", "p", "--input", "hi again"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    drop(file);
    assert_eq!(
        stdout_of(waiting),
        "heard hi again\n",
        "the command starts when the lock is released"
    );
}

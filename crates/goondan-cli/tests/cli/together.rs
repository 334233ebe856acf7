//! Commands that want the same workspace at the same moment.

use std::process::{Child, Stdio};

use crate::projects::{ECHO, scripted};
use crate::sandbox::Sandbox;

fn begun(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    let mut command = sandbox.command(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What the command prints, which must succeed.
fn printed(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_that_begin_at_the_same_moment_all_get_their_answer() {
    let sandbox = scripted(ECHO);
    for round in 0..4 {
        let inputs = ["one", "two", "three"].map(|word| format!("{word} {round}"));
        let runs = inputs
            .each_ref()
            .map(|input| begun(&sandbox, &["run", "p", "--input", input, "-k", input]));
        let args = r#"{"text": "hi", "to": "upper"}"#;
        let call = begun(
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
            assert_eq!(printed(run), format!("heard {input}\n"));
        }
        assert!(printed(call).contains("HI"));
    }
    let rows: serde_json::Value =
        serde_json::from_str(sandbox.gdn(&["instance", "list", "--json", "-p", "p"]).ok()).unwrap();
    let turns = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["messages"] == 2)
        .count();
    assert_eq!(turns, 12, "each input began one turn: {rows:#}");
}

#[test]
fn a_workspace_that_nobody_can_be_reached_in_is_given_up() {
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

    let waiting = begun(&sandbox, &["run", "p", "--input", "hi again"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    drop(file);
    assert_eq!(
        printed(waiting),
        "heard hi again\n",
        "it starts once the other one is gone"
    );
}

#![cfg(unix)]

use std::path::Path;

use serde_json::json;

use crate::mock_engine::{MockEngine, exists, keys, object, until, with_unknown};

/// Waits until a file exists.
async fn wait_for_file(path: &Path) {
    until("the file to exist", || exists(path)).await;
}

/// Returns true if a process exists and is not a zombie.
fn is_running(pid: &str) -> bool {
    std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", pid])
        .output()
        .is_ok_and(|output| !output.stdout.is_empty() && !output.stdout.starts_with(b"Z"))
}

/// Waits until a process has ended.
async fn wait_for_exit(pid: &str) {
    assert!(
        is_running(&std::process::id().to_string()),
        "this test needs `ps`"
    );
    until("the process to exit", || !is_running(pid)).await;
}

#[tokio::test]
async fn bash_exec_returns_output_exit_code_and_directory() {
    let engine = MockEngine::new();
    let output = engine
        .ok(
            "bash__exec",
            json!({"command": "echo out; echo err >&2; pwd; exit 3"}),
        )
        .await;
    assert_eq!(
        keys(&output),
        [
            "command",
            "cwd",
            "durationMs",
            "stdout",
            "stderr",
            "exitCode",
            "signal",
            "timedOut"
        ]
    );
    assert_eq!(
        output["stdout"],
        format!("out\n{}\n", engine.work().display())
    );
    assert_eq!(output["stderr"], "err\n");
    assert_eq!(output["exitCode"], 3);
    assert_eq!(output["signal"], json!(null));
    assert_eq!(output["timedOut"], false);
    assert_eq!(output["cwd"], json!(engine.work()));
}

#[tokio::test]
async fn bash_exec_runs_in_the_cwd_argument() {
    let engine = MockEngine::new();
    engine.write("sub/file", "");
    assert_eq!(
        engine
            .ok("bash__exec", json!({"command": "ls", "cwd": "sub"}))
            .await["stdout"],
        "file\n"
    );
    let (code, message) = engine
        .err("bash__exec", json!({"command": "ls", "cwd": "nope"}))
        .await;
    assert_eq!(code, "E_TOOL_FILE_NOT_FOUND");
    assert!(message.contains("`nope`"), "{message}");
    let (code, _) = engine
        .err("bash__exec", json!({"command": "ls", "cwd": "sub/file"}))
        .await;
    assert_eq!(code, "E_TOOL_WRONG_FILE_TYPE");
}

#[tokio::test]
async fn script_runs_a_file_with_arguments() {
    let engine = MockEngine::new();
    engine.write(
        "bin/say.sh",
        "echo \"$1|$2\"; echo \"${BASH_VERSION:+bash}\"; pwd",
    );
    let output = engine
        .ok(
            "bash__script",
            json!({"path": "bin/say.sh", "args": ["a b", "$HOME"]}),
        )
        .await;
    let expected = [
        "path",
        "shell",
        "args",
        "durationMs",
        "stdout",
        "stderr",
        "exitCode",
        "signal",
        "timedOut",
    ];
    assert_eq!(keys(&output), expected);
    assert_eq!(
        output["stdout"],
        format!("a b|$HOME\nbash\n{}\n", engine.work().display())
    );
    assert_eq!(output["path"], json!(engine.work().join("bin/say.sh")));
    let output = engine
        .ok(
            "bash__script",
            json!({"path": "bin/say.sh", "shell": "/bin/cat"}),
        )
        .await;
    assert!(output["stdout"].as_str().unwrap().starts_with("echo"));
}

#[tokio::test]
async fn script_requires_an_existing_file_and_shell() {
    let engine = MockEngine::new();
    engine.write("s.sh", "true");
    let cases = [
        (
            json!({"path": "nope.sh"}),
            "E_TOOL_FILE_NOT_FOUND",
            "nope.sh",
        ),
        (json!({"path": "."}), "E_TOOL_WRONG_FILE_TYPE", "directory"),
        (json!({"path": "../s.sh"}), "E_TOOL_PATH_ESCAPE", "../s.sh"),
        (
            json!({"path": "s.sh", "shell": "/no/such/shell"}),
            "E_TOOL_FILE_NOT_FOUND",
            "/no/such/shell",
        ),
    ];
    for (args, expected, words) in cases {
        let (code, message) = engine.err("bash__script", args).await;
        assert_eq!(code, expected, "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn commands_receive_only_standard_and_listed_variables() {
    // Cargo sets variables for tests that commands do not receive by default.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let command = json!({"command": "env", "env": {"MINE": "x y", "COUNT": 2, "FLAG": true}});
    let output = MockEngine::new().ok("bash__exec", command.clone()).await;
    let names: Vec<&str> = output["stdout"]
        .as_str()
        .unwrap()
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    assert!(
        names.contains(&"PATH") && !names.iter().any(|name| name.starts_with("CARGO_M")),
        "{names:?}"
    );
    // Commands receive tool chain variables, so that they find the user's tool chains.
    for name in ["CARGO_HOME", "RUSTUP_HOME"] {
        assert_eq!(
            names.contains(&name),
            std::env::var_os(name).is_some(),
            "{name}"
        );
    }
    for line in ["MINE=x y", "COUNT=2", "FLAG=true"] {
        assert!(
            output["stdout"]
                .as_str()
                .unwrap()
                .lines()
                .any(|found| found == line),
            "{line}"
        );
    }
    let engine = MockEngine::new().config(json!({"env": ["CARGO_MANIFEST_DIR"]}));
    let output = engine.ok("bash__exec", command).await;
    assert!(
        output["stdout"]
            .as_str()
            .unwrap()
            .contains("CARGO_MANIFEST_DIR=")
    );
}

#[tokio::test]
async fn standard_input_of_a_command_is_empty() {
    assert_eq!(
        MockEngine::new()
            .ok("bash__exec", json!({"command": "cat; echo end"}))
            .await["stdout"],
        "end\n"
    );
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let command = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done";
    let output = MockEngine::new()
        .ok("bash__exec", json!({"command": command}))
        .await;
    let stdout = output["stdout"].as_str().unwrap();
    assert!(
        stdout.starts_with("line 0\n")
            && stdout.ends_with("line 19999\n")
            && stdout.contains(" bytes cut ...]")
    );
    assert!(stdout.len() < 41_000, "{}", stdout.len());
}

#[tokio::test]
async fn a_timeout_returns_the_output_printed_so_far() {
    let engine = MockEngine::new();
    let output = engine
        .ok(
            "bash__exec",
            json!({"command": "echo before; sleep 60", "timeoutMs": 100}),
        )
        .await;
    assert_eq!(output["timedOut"], true);
    assert_eq!(output["exitCode"], -1);
    assert_eq!(output["signal"], "SIGTERM");
    assert_eq!(output["stdout"], "before\n");
}

#[tokio::test]
async fn a_timeout_kills_children_that_ignore_sigterm() {
    let engine = MockEngine::new();
    let command = "trap '' TERM; (trap '' TERM; sleep 60) & echo $!; sleep 60";
    let output = engine
        .ok("bash__exec", json!({"command": command, "timeoutMs": 100}))
        .await;
    assert_eq!(
        (&output["timedOut"], &output["signal"]),
        (&json!(true), &json!("SIGKILL"))
    );
    wait_for_exit(
        output["stdout"]
            .as_str()
            .unwrap()
            .lines()
            .next_back()
            .unwrap(),
    )
    .await;
}

#[tokio::test]
async fn children_can_clean_up_after_sigterm() {
    let engine = MockEngine::new();
    let command =
        "(trap 'echo cleaned; exit' TERM; while :; do sleep 0.01; done) & echo ready; wait";
    let output = engine
        .ok("bash__exec", json!({"command": command, "timeoutMs": 200}))
        .await;
    assert_eq!(output["stdout"], "ready\ncleaned\n");
}

#[tokio::test]
async fn timeout_zero_disables_the_time_limit() {
    let output = MockEngine::new()
        .ok(
            "bash__exec",
            json!({"command": "sleep 0.05; echo done", "timeoutMs": 0}),
        )
        .await;
    assert_eq!(
        (&output["stdout"], &output["timedOut"]),
        (&json!("done\n"), &json!(false))
    );
}

#[tokio::test]
async fn a_fatal_signal_is_reported_by_name() {
    let output = MockEngine::new()
        .ok("bash__exec", json!({"command": "kill -SEGV $$"}))
        .await;
    assert_eq!(
        (&output["signal"], &output["exitCode"]),
        (&json!("SIGSEGV"), &json!(-1))
    );
}

#[tokio::test]
async fn background_processes_end_with_the_command() {
    let engine = MockEngine::new();
    let output = engine
        .ok(
            "bash__exec",
            json!({"command": "sleep 60 & echo $!", "timeoutMs": 0}),
        )
        .await;
    wait_for_exit(output["stdout"].as_str().unwrap().trim()).await;
}

#[tokio::test]
async fn a_process_outside_the_group_does_not_delay_the_result() {
    let engine = MockEngine::new();
    let output = engine
        .ok(
            "bash__exec",
            json!({"command": "setsid sleep 5 & echo started", "timeoutMs": 0}),
        )
        .await;
    assert_eq!(output["stdout"], "started\n");
    assert!(output["durationMs"].as_u64().unwrap() < 5000);
}

#[tokio::test]
async fn cancelling_a_command_kills_its_children() {
    let engine = MockEngine::new();
    let call = engine.err(
        "bash__exec",
        json!({"command": "sleep 60 & echo $! > pid.tmp; mv pid.tmp pid; wait"}),
    );
    let cancel = async {
        wait_for_file(&engine.work().join("pid")).await;
        engine.cancellation.cancel();
    };
    let ((code, _), ()) = tokio::join!(call, cancel);
    assert_eq!(code, "E_TOOL_CANCELLED");
    wait_for_exit(engine.read("pid").trim()).await;
}

#[tokio::test]
async fn a_dropped_call_kills_the_process_group() {
    let engine = MockEngine::new();
    let pid = engine.work().join("pid");
    tokio::select! {
        _ = engine.call("bash__exec", json!({"command": "(trap '' TERM; sleep 60) & echo $! > pid.tmp; mv pid.tmp pid; wait"})) => {}
        () = wait_for_file(&pid) => {}
    }
    wait_for_exit(engine.read("pid").trim()).await;
}

#[tokio::test]
async fn bash_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let bad = [
        ("exec", json!({})),
        ("exec", json!({"command": ""})),
        ("exec", json!({"command": "ls", "timeoutMs": "1s"})),
        ("exec", json!({"command": "ls", "env": {"A": []}})),
        ("exec", json!({"command": "ls", "env": {"A=B": "x"}})),
        ("exec", json!({"command": "ls", "env": {"A": "x\0y"}})),
        ("exec", with_unknown(json!({"command": "ls"}))),
        ("script", json!({})),
        ("script", json!({"path": "s.sh", "args": "a"})),
        ("script", with_unknown(json!({"path": "s.sh"}))),
    ];
    for (export, args) in bad {
        let (code, _) = engine.err(&format!("bash__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
    let (_, message) = engine
        .err("bash__exec", json!({"command": "echo \0"}))
        .await;
    assert!(message.contains("cannot start the command"), "{message}");
}

/// A script that creates the file `started`, waits for a line in `go`, and prints itself.
const WAITING_SCRIPT: &str = "echo > started; read line < go; cat run.sh\n";

/// A redirection truncates the script as soon as the shell opens it, so it could change the script
/// after the approval check.
#[tokio::test]
async fn a_redirection_waits_for_the_start_of_an_approved_call() {
    use std::sync::Arc;

    use goondan_core::content_hash::content_hash;
    use goondan_core::ports::tool::{ApprovedFile, CommandContainment};

    let containment = CommandContainment {
        sandbox: Default::default(),
        writes: true,
    };
    for (is_contained, redirection) in [(false, ">"), (true, ">"), (true, ">>")] {
        let engine = MockEngine::new();
        engine.write("run.sh", WAITING_SCRIPT);
        let path = engine.work().join("run.sh");
        let (mut approved, mut permitted) = (engine.context(), engine.context());
        approved.approved_files = Arc::from([ApprovedFile {
            sha256: content_hash(&path),
            path,
        }]);
        permitted.run_mode.make_direct();
        if is_contained {
            permitted.run_mode.contain(0, containment.clone());
            permitted
                .run_mode
                .contain_file("> run.sh", containment.clone());
        }
        let go = engine.work().join("go");
        nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).unwrap();

        let (_, exec) = engine.open("bash__exec").await;
        let script = object(json!({"command": "sh run.sh"}));
        let mut script = Box::pin(exec.call(&approved, script));
        let started = engine.work().join("started");
        tokio::select! {
            ended = &mut script => panic!("{ended:?}"),
            () = wait_for_file(&started) => {}
        }
        let line = object(json!({"command": format!("echo evil {redirection} run.sh")}));
        let mut line = Box::pin(exec.call(&permitted, line));
        for _ in 0..100 {
            assert!(futures::poll!(&mut line).is_pending());
            assert_eq!(engine.read("run.sh"), WAITING_SCRIPT);
            tokio::task::yield_now().await;
        }
        std::fs::write(&go, "\n").unwrap();
        assert_eq!(script.await.unwrap().output["stdout"], WAITING_SCRIPT);
        assert_eq!(line.await.unwrap().output["exitCode"], 0);
        assert!(engine.read("run.sh").ends_with("evil\n"));
    }
}

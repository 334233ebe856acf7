#![cfg(unix)]

use std::path::Path;

use serde_json::json;

use crate::bench::{Bench, exists, keys, object, until, with_unknown};

/// Waits until a file exists.
async fn appears(path: &Path) {
    until("the file", || exists(path)).await;
}

/// Returns true if a process is running: its entry exists, and it is not a zombie.
fn runs(pid: &str) -> bool {
    std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", pid])
        .output()
        .is_ok_and(|output| !output.stdout.is_empty() && !output.stdout.starts_with(b"Z"))
}

/// Waits until a process has ended.
async fn ends(pid: &str) {
    assert!(
        runs(&std::process::id().to_string()),
        "this test needs `ps`"
    );
    until("the end", || !runs(pid)).await;
}

#[tokio::test]
async fn exec_tells_everything_about_the_process() {
    let bench = Bench::new();
    let output = bench
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
        format!("out\n{}\n", bench.work().display())
    );
    assert_eq!(output["stderr"], "err\n");
    assert_eq!(output["exitCode"], 3);
    assert_eq!(output["signal"], json!(null));
    assert_eq!(output["timedOut"], false);
    assert_eq!(output["cwd"], json!(bench.work()));
}

#[tokio::test]
async fn exec_runs_where_it_is_told() {
    let bench = Bench::new();
    bench.write("sub/file", "");
    assert_eq!(
        bench
            .ok("bash__exec", json!({"command": "ls", "cwd": "sub"}))
            .await["stdout"],
        "file\n"
    );
    let (code, message) = bench
        .err("bash__exec", json!({"command": "ls", "cwd": "nope"}))
        .await;
    assert_eq!(code, "E_TOOL_FILE_NOT_FOUND");
    assert!(message.contains("`nope`"), "{message}");
    let (code, _) = bench
        .err("bash__exec", json!({"command": "ls", "cwd": "sub/file"}))
        .await;
    assert_eq!(code, "E_TOOL_WRONG_FILE_TYPE");
}

#[tokio::test]
async fn script_runs_a_file_with_arguments() {
    let bench = Bench::new();
    bench.write(
        "bin/say.sh",
        "echo \"$1|$2\"; echo \"${BASH_VERSION:+bash}\"; pwd",
    );
    let output = bench
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
        format!("a b|$HOME\nbash\n{}\n", bench.work().display())
    );
    assert_eq!(output["path"], json!(bench.work().join("bin/say.sh")));
    let output = bench
        .ok(
            "bash__script",
            json!({"path": "bin/say.sh", "shell": "/bin/cat"}),
        )
        .await;
    assert!(output["stdout"].as_str().unwrap().starts_with("echo"));
}

#[tokio::test]
async fn script_needs_a_file_and_a_shell() {
    let bench = Bench::new();
    bench.write("s.sh", "true");
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
        let (code, message) = bench.err("bash__script", args).await;
        assert_eq!(code, expected, "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn the_environment_holds_nothing_but_the_ordinary_and_the_listed() {
    // Cargo sets variables for tests, none of which is ordinary.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let command = json!({"command": "env", "env": {"MINE": "x y", "COUNT": 2, "FLAG": true}});
    let output = Bench::new().ok("bash__exec", command.clone()).await;
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
    // Tool chain variables are ordinary, so that programs find the user's tool chains.
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
    let bench = Bench::new().config(json!({"env": ["CARGO_MANIFEST_DIR"]}));
    let output = bench.ok("bash__exec", command).await;
    assert!(
        output["stdout"]
            .as_str()
            .unwrap()
            .contains("CARGO_MANIFEST_DIR=")
    );
}

#[tokio::test]
async fn there_is_nothing_to_read_on_standard_input() {
    assert_eq!(
        Bench::new()
            .ok("bash__exec", json!({"command": "cat; echo end"}))
            .await["stdout"],
        "end\n"
    );
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let command = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done";
    let output = Bench::new()
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
async fn a_time_out_is_a_result_with_what_was_printed_so_far() {
    let bench = Bench::new();
    let output = bench
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
async fn a_time_out_ends_children_that_ignore_the_request() {
    let bench = Bench::new();
    let command = "trap '' TERM; (trap '' TERM; sleep 60) & echo $!; sleep 60";
    let output = bench
        .ok("bash__exec", json!({"command": command, "timeoutMs": 100}))
        .await;
    assert_eq!(
        (&output["timedOut"], &output["signal"]),
        (&json!(true), &json!("SIGKILL"))
    );
    ends(
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
async fn children_may_clean_up_before_the_end() {
    let bench = Bench::new();
    let command =
        "(trap 'echo cleaned; exit' TERM; while :; do sleep 0.01; done) & echo ready; wait";
    let output = bench
        .ok("bash__exec", json!({"command": command, "timeoutMs": 200}))
        .await;
    assert_eq!(output["stdout"], "ready\ncleaned\n");
}

#[tokio::test]
async fn no_time_limit_is_a_choice() {
    let output = Bench::new()
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
async fn a_signal_has_a_name() {
    let output = Bench::new()
        .ok("bash__exec", json!({"command": "kill -SEGV $$"}))
        .await;
    assert_eq!(
        (&output["signal"], &output["exitCode"]),
        (&json!("SIGSEGV"), &json!(-1))
    );
}

#[tokio::test]
async fn background_processes_end_with_the_command() {
    let bench = Bench::new();
    let output = bench
        .ok(
            "bash__exec",
            json!({"command": "sleep 60 & echo $!", "timeoutMs": 0}),
        )
        .await;
    ends(output["stdout"].as_str().unwrap().trim()).await;
}

#[tokio::test]
async fn a_process_that_left_the_group_does_not_hold_the_call() {
    let bench = Bench::new();
    let output = bench
        .ok(
            "bash__exec",
            json!({"command": "setsid sleep 5 & echo started", "timeoutMs": 0}),
        )
        .await;
    assert_eq!(output["stdout"], "started\n");
    assert!(output["durationMs"].as_u64().unwrap() < 5000);
}

#[tokio::test]
async fn a_cancelled_command_is_ended_with_its_children() {
    let bench = Bench::new();
    let call = bench.err(
        "bash__exec",
        json!({"command": "sleep 60 & echo $! > pid.tmp; mv pid.tmp pid; wait"}),
    );
    let cancel = async {
        appears(&bench.work().join("pid")).await;
        bench.cancellation.cancel();
    };
    let ((code, _), ()) = tokio::join!(call, cancel);
    assert_eq!(code, "E_TOOL_CANCELLED");
    ends(bench.read("pid").trim()).await;
}

#[tokio::test]
async fn a_dropped_call_kills_the_whole_group() {
    let bench = Bench::new();
    let pid = bench.work().join("pid");
    tokio::select! {
        _ = bench.call("bash__exec", json!({"command": "(trap '' TERM; sleep 60) & echo $! > pid.tmp; mv pid.tmp pid; wait"})) => {}
        () = appears(&pid) => {}
    }
    ends(bench.read("pid").trim()).await;
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let bench = Bench::new();
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
        let (code, _) = bench.err(&format!("bash__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
    let (_, message) = bench.err("bash__exec", json!({"command": "echo \0"})).await;
    assert!(message.contains("cannot start the command"), "{message}");
}

/// Starts, waits for a line, and prints itself.
const WAITING_SCRIPT: &str = "echo > started; read line < go; cat run.sh\n";

/// Opening the file already truncates it, so it could replace a script after its check.
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
        let bench = Bench::new();
        bench.write("run.sh", WAITING_SCRIPT);
        let path = bench.work().join("run.sh");
        let (mut approved, mut permitted) = (bench.context(), bench.context());
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
        let go = bench.work().join("go");
        nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).unwrap();

        let (_, exec) = bench.open("bash__exec").await;
        let script = object(json!({"command": "sh run.sh"}));
        let mut script = Box::pin(exec.call(&approved, script));
        let started = bench.work().join("started");
        tokio::select! {
            ended = &mut script => panic!("{ended:?}"),
            () = appears(&started) => {}
        }
        let line = object(json!({"command": format!("echo evil {redirection} run.sh")}));
        let mut line = Box::pin(exec.call(&permitted, line));
        for _ in 0..100 {
            assert!(futures::poll!(&mut line).is_pending());
            assert_eq!(bench.read("run.sh"), WAITING_SCRIPT);
            tokio::task::yield_now().await;
        }
        std::fs::write(&go, "\n").unwrap();
        assert_eq!(script.await.unwrap().output["stdout"], WAITING_SCRIPT);
        assert_eq!(line.await.unwrap().output["exitCode"], 0);
        assert!(bench.read("run.sh").ends_with("evil\n"));
    }
}

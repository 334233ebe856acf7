#![cfg(unix)]

use serde_json::{Value, json};

use goondan_core::ids::InstanceId;

use crate::bench::{Bench, keys, object, until, with_unknown};

async fn start(bench: &Bench, command: &str) -> String {
    let output = bench
        .ok(
            "runtime__exec",
            json!({"command": command, "background": true}),
        )
        .await;
    assert_eq!(
        keys(&output),
        ["process_id", "command", "workdir", "status"]
    );
    output["process_id"].as_str().unwrap().to_owned()
}

async fn act(bench: &Bench, action: &str, id: &str) -> Value {
    bench
        .ok(
            "runtime__process",
            json!({"action": action, "process_id": id}),
        )
        .await
}

/// Polls until the output contains `words`, or the process has ended.
async fn printed(bench: &Bench, id: &str, words: &str) -> String {
    let mut seen = String::new();
    for _ in 0..3000 {
        let poll = act(bench, "poll", id).await;
        seen.push_str(poll["stdout"].as_str().unwrap());
        if seen.contains(words) || poll["status"] == "exited" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    seen
}

async fn ended(bench: &Bench, id: &str) -> Value {
    for _ in 0..3000 {
        let status = act(bench, "status", id).await;
        if status["status"] == "exited" {
            return status;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the process never ended");
}

#[tokio::test]
async fn exec_tells_everything_about_the_process() {
    let bench = Bench::new();
    bench.write("sub/f", "");
    let args = json!({"command": "pwd; echo $A >&2; exit 4", "workdir": "sub", "env": {"A": "x"}, "timeout": 10});
    let output = bench.ok("runtime__exec", args).await;
    let expected = [
        "command",
        "workdir",
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
        format!("{}\n", bench.work().join("sub").display())
    );
    assert_eq!(
        (&output["stderr"], &output["exitCode"], &output["timedOut"]),
        (&json!("x\n"), &json!(4), &json!(false))
    );
}

#[tokio::test]
async fn a_background_process_is_fed_polled_and_ended() {
    let bench = Bench::new();
    let id = start(&bench, "read x; echo got $x; sleep 60").await;
    assert_eq!(act(&bench, "status", &id).await["status"], "running");
    let input = json!({"action": "input", "process_id": id, "input": "hey\n"});
    assert_eq!(bench.ok("runtime__process", input).await["written"], 4);
    assert_eq!(printed(&bench, &id, "\n").await, "got hey\n");
    assert_eq!(act(&bench, "poll", &id).await["stdout"], "");
    bench
        .ok(
            "runtime__process",
            json!({"action": "signal", "process_id": id, "signal": "term"}),
        )
        .await;
    let status = ended(&bench, &id).await;
    assert_eq!(
        (&status["signal"], &status["exitCode"]),
        (&json!("SIGTERM"), &json!(-1))
    );
    for action in ["signal", "input"] {
        let args = json!({"action": action, "process_id": id, "input": "x"});
        assert!(
            bench
                .err("runtime__process", args)
                .await
                .1
                .contains("ended")
        );
    }
}

#[tokio::test]
async fn a_process_that_ends_by_itself_tells_how() {
    let bench = Bench::new();
    let id = start(&bench, "echo out; echo err >&2; exit 7").await;
    let status = ended(&bench, &id).await;
    assert_eq!(
        (&status["exitCode"], &status["signal"]),
        (&json!(7), &json!(null))
    );
    let poll = act(&bench, "poll", &id).await;
    assert_eq!(
        (&poll["stdout"], &poll["stderr"], &poll["status"]),
        (&json!("out\n"), &json!("err\n"), &json!("exited"))
    );
}

#[tokio::test]
async fn much_output_between_two_polls_is_cut_in_the_middle() {
    let bench = Bench::new();
    let id = start(
        &bench,
        "i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done",
    )
    .await;
    ended(&bench, &id).await;
    let poll = act(&bench, "poll", &id).await;
    let stdout = poll["stdout"].as_str().unwrap();
    assert!(
        stdout.len() < 10_100 && stdout.starts_with("line 0\n") && stdout.ends_with("line 8999\n"),
        "{stdout}"
    );
    assert!(stdout.contains("bytes cut"));
}

#[tokio::test]
async fn a_process_belongs_to_the_conversation_that_started_it() {
    let bench = Bench::new();
    let id = start(&bench, "sleep 60").await;
    let (_, process) = bench.open("runtime__process").await;
    let mut other = bench.context();
    other.instance_key = "another".to_owned();
    let input = crate::bench::object(json!({"action": "status", "process_id": id}));
    let error = process.call(&other, input).await.unwrap_err();
    assert_eq!(error.code.as_deref(), Some("E_TOOL_PROCESS_NOT_FOUND"));
    // The instance that started it still finds it, even through a tool that was opened later.
    assert_eq!(act(&bench, "status", &id).await["status"], "running");
}

#[tokio::test]
async fn processes_end_with_the_tools() {
    let bench = Bench::new();
    let id = start(&bench, "echo $$; sleep 60 & echo $!; wait").await;
    let pids = printed(&bench, &id, "\n").await;
    let alive = |pid: &str| {
        let state = std::process::Command::new("ps")
            .args(["-o", "stat=", "-p", pid])
            .output()
            .unwrap()
            .stdout;
        !state.is_empty() && !state.starts_with(b"Z")
    };
    assert!(pids.lines().all(alive), "{pids}");
    let Bench { tools, .. } = bench;
    drop(tools);
    crate::bench::until("the end", || !pids.lines().any(alive)).await;
}

/// After a restart, another process has the same id.
#[tokio::test]
async fn an_approval_of_a_process_is_for_no_other_process() {
    let mut identities = Vec::new();
    for _ in 0..2 {
        let bench = Bench::new();
        let id = start(&bench, "sleep 60").await;
        assert_eq!(id, "p1");
        let (_, process) = bench.open("runtime__process").await;
        let input = object(json!({"action": "signal", "process_id": id}));
        let unique = process.unique_arguments(&bench.context(), &input);
        assert_eq!(unique, process.unique_arguments(&bench.context(), &input));
        identities.push(unique["process_id"].as_str().unwrap().to_owned());
    }
    assert_ne!(identities[0], identities[1]);
    assert!(identities[0].starts_with("p1 ("), "{identities:?}");
}

#[tokio::test]
async fn there_is_an_end_to_how_many_processes_run() {
    let bench = Bench::new();
    for _ in 0..32 {
        start(&bench, "sleep 60").await;
    }
    let (code, _) = bench
        .err(
            "runtime__exec",
            json!({"command": "sleep 60", "background": true}),
        )
        .await;
    assert_eq!(code, "E_TOOL_TOO_MANY_PROCESSES");
    bench
        .ok(
            "runtime__process",
            json!({"action": "signal", "process_id": "p1", "signal": "SIGKILL"}),
        )
        .await;
    ended(&bench, "p1").await;
    start(&bench, "sleep 60").await;
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let bench = Bench::new();
    let id = start(&bench, "sleep 60").await;
    let bad = [
        ("exec", json!({})),
        ("exec", json!({"command": "ls", "timeout": 9})),
        ("exec", json!({"command": "ls", "env": {"A": 1}})),
        ("exec", json!({"command": "ls", "env": {"": "x"}})),
        ("exec", json!({"command": "ls", "background": "yes"})),
        ("exec", with_unknown(json!({"command": "ls"}))),
        ("process", json!({"action": "poll"})),
        ("process", json!({"action": "kill", "process_id": id})),
        ("process", json!({"action": "input", "process_id": id})),
        (
            "process",
            json!({"action": "signal", "process_id": id, "signal": "SIGNOTHING"}),
        ),
    ];
    for (export, args) in bad {
        let (code, _) = bench.err(&format!("runtime__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
    for unknown in ["no-such", "p99", "p", "7"] {
        let error = bench
            .call(
                "runtime__process",
                json!({"action": "status", "process_id": unknown}),
            )
            .await
            .unwrap_err();
        assert_eq!(error.code.as_deref(), Some("E_TOOL_PROCESS_NOT_FOUND"));
        assert!(error.suggestion.unwrap().contains(&id));
    }
    let (code, _) = bench
        .err("runtime__exec", json!({"command": "ls", "workdir": "nope"}))
        .await;
    assert_eq!(code, "E_TOOL_FILE_NOT_FOUND");
}

/// A command that writes its process id and sleeps, with a child that does the same.
const SLEEPER: &str = "sh -c 'echo $$ > child; exec sleep 600' & echo $$ > parent; wait";

fn lives(bench: &Bench, file: &str) -> bool {
    let id: i32 = bench.read(file).trim().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), None).is_ok()
}

async fn two_sleepers() -> Bench {
    let bench = Bench::new();
    bench
        .ok(
            "runtime__exec",
            json!({"command": SLEEPER, "background": true}),
        )
        .await;
    let written = |file: &str| {
        std::fs::read_to_string(bench.work().join(file)).is_ok_and(|text| text.ends_with('\n'))
    };
    until("the sleepers", || written("parent") && written("child")).await;
    assert!(lives(&bench, "parent") && lives(&bench, "child"));
    bench
}

#[tokio::test]
async fn processes_end_with_their_conversation() {
    let bench = two_sleepers().await;
    bench
        .tools
        .instance_ended(&InstanceId::new("assistant", "other"));
    assert!(lives(&bench, "child"));
    bench
        .tools
        .instance_ended(&InstanceId::new("assistant", "main"));
    until("the end", || !lives(&bench, "child")).await;
    assert_eq!(
        bench
            .err(
                "runtime__process",
                json!({"action": "poll", "process_id": "p1"})
            )
            .await
            .0,
        "E_TOOL_PROCESS_NOT_FOUND"
    );
}

#[tokio::test]
async fn a_shutdown_leaves_no_orphans() {
    let bench = two_sleepers().await;
    bench.tools.shutdown().await;
    until("the end", || {
        !lives(&bench, "child") && !lives(&bench, "parent")
    })
    .await;
}

#[tokio::test]
async fn a_character_between_two_polls_is_whole() {
    let bench = Bench::new();
    let id = start(
        &bench,
        "printf 'caf\\303'; read line; printf '\\251\\n'; printf '\\303'",
    )
    .await;
    assert_eq!(printed(&bench, &id, "caf").await, "caf");
    bench
        .ok(
            "runtime__process",
            json!({"action": "input", "process_id": id, "input": "go\n"}),
        )
        .await;
    ended(&bench, &id).await;
    assert_eq!(printed(&bench, &id, "\n").await, "\u{e9}\n\u{fffd}");
}

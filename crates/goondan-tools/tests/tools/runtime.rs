#![cfg(unix)]

use serde_json::{Value, json};

use goondan_core::ids::InstanceId;

use crate::mock_engine::{MockEngine, keys, object, until, with_unknown};

async fn start(engine: &MockEngine, command: &str) -> String {
    let output = engine
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

async fn process_action(engine: &MockEngine, action: &str, id: &str) -> Value {
    engine
        .ok(
            "runtime__process",
            json!({"action": action, "process_id": id}),
        )
        .await
}

/// Polls until the output contains `words` or the process has exited. Returns all polled output.
async fn read_until(engine: &MockEngine, id: &str, words: &str) -> String {
    let mut seen = String::new();
    for _ in 0..3000 {
        let poll = process_action(engine, "poll", id).await;
        seen.push_str(poll["stdout"].as_str().unwrap());
        if seen.contains(words) || poll["status"] == "exited" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    seen
}

async fn wait_for_exit(engine: &MockEngine, id: &str) -> Value {
    for _ in 0..3000 {
        let status = process_action(engine, "status", id).await;
        if status["status"] == "exited" {
            return status;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the process did not exit");
}

#[tokio::test]
async fn runtime_exec_returns_output_exit_code_and_directory() {
    let engine = MockEngine::new();
    engine.write("sub/f", "");
    let args = json!({"command": "pwd; echo $A >&2; exit 4", "workdir": "sub", "env": {"A": "x"}, "timeout": 10});
    let output = engine.ok("runtime__exec", args).await;
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
        format!("{}\n", engine.work().join("sub").display())
    );
    assert_eq!(
        (&output["stderr"], &output["exitCode"], &output["timedOut"]),
        (&json!("x\n"), &json!(4), &json!(false))
    );
}

#[tokio::test]
async fn a_background_process_accepts_input_polls_and_signals() {
    let engine = MockEngine::new();
    let id = start(&engine, "read x; echo got $x; sleep 60").await;
    assert_eq!(
        process_action(&engine, "status", &id).await["status"],
        "running"
    );
    let input = json!({"action": "input", "process_id": id, "input": "hey\n"});
    assert_eq!(engine.ok("runtime__process", input).await["written"], 4);
    assert_eq!(read_until(&engine, &id, "\n").await, "got hey\n");
    assert_eq!(process_action(&engine, "poll", &id).await["stdout"], "");
    engine
        .ok(
            "runtime__process",
            json!({"action": "signal", "process_id": id, "signal": "term"}),
        )
        .await;
    let status = wait_for_exit(&engine, &id).await;
    assert_eq!(
        (&status["signal"], &status["exitCode"]),
        (&json!("SIGTERM"), &json!(-1))
    );
    for action in ["signal", "input"] {
        let args = json!({"action": action, "process_id": id, "input": "x"});
        assert!(
            engine
                .err("runtime__process", args)
                .await
                .1
                .contains("ended")
        );
    }
}

#[tokio::test]
async fn an_exited_process_reports_exit_code_and_output() {
    let engine = MockEngine::new();
    let id = start(&engine, "echo out; echo err >&2; exit 7").await;
    let status = wait_for_exit(&engine, &id).await;
    assert_eq!(
        (&status["exitCode"], &status["signal"]),
        (&json!(7), &json!(null))
    );
    let poll = process_action(&engine, "poll", &id).await;
    assert_eq!(
        (&poll["stdout"], &poll["stderr"], &poll["status"]),
        (&json!("out\n"), &json!("err\n"), &json!("exited"))
    );
}

#[tokio::test]
async fn long_output_between_polls_is_cut_in_the_middle() {
    let engine = MockEngine::new();
    let id = start(
        &engine,
        "i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done",
    )
    .await;
    wait_for_exit(&engine, &id).await;
    let poll = process_action(&engine, "poll", &id).await;
    let stdout = poll["stdout"].as_str().unwrap();
    assert!(
        stdout.len() < 10_100 && stdout.starts_with("line 0\n") && stdout.ends_with("line 8999\n"),
        "{stdout}"
    );
    assert!(stdout.contains("bytes cut"));
}

#[tokio::test]
async fn a_process_belongs_to_the_conversation_that_started_it() {
    let engine = MockEngine::new();
    let id = start(&engine, "sleep 60").await;
    let (_, process) = engine.open("runtime__process").await;
    let mut other = engine.context();
    other.instance_key = "another".to_owned();
    let input = crate::mock_engine::object(json!({"action": "status", "process_id": id}));
    let error = process.call(&other, input).await.unwrap_err();
    assert_eq!(error.code.as_deref(), Some("E_TOOL_PROCESS_NOT_FOUND"));
    // The conversation that started the process finds it, including through a tool opened later.
    assert_eq!(
        process_action(&engine, "status", &id).await["status"],
        "running"
    );
}

#[tokio::test]
async fn dropping_the_tools_ends_all_processes() {
    let engine = MockEngine::new();
    let id = start(&engine, "echo $$; sleep 60 & echo $!; echo started; wait").await;
    let output = read_until(&engine, &id, "started\n").await;
    let pids: Vec<&str> = output.lines().take(2).collect();
    let alive = |pid: &str| {
        let state = std::process::Command::new("ps")
            .args(["-o", "stat=", "-p", pid])
            .output()
            .unwrap()
            .stdout;
        !state.is_empty() && !state.starts_with(b"Z")
    };
    assert!(
        pids.len() == 2 && pids.iter().all(|pid| alive(pid)),
        "{output}"
    );
    let MockEngine { tools, .. } = engine;
    drop(tools);
    crate::mock_engine::until("the processes to exit", || {
        !pids.iter().any(|pid| alive(pid))
    })
    .await;
}

/// After a restart of `gdn`, another process has the same ID.
#[tokio::test]
async fn an_approval_of_a_process_does_not_apply_to_another_process() {
    let mut identities = Vec::new();
    for _ in 0..2 {
        let engine = MockEngine::new();
        let id = start(&engine, "sleep 60").await;
        assert_eq!(id, "p1");
        let (_, process) = engine.open("runtime__process").await;
        let input = object(json!({"action": "signal", "process_id": id}));
        let unique = process.unique_arguments(&engine.context(), &input);
        assert_eq!(unique, process.unique_arguments(&engine.context(), &input));
        identities.push(unique["process_id"].as_str().unwrap().to_owned());
    }
    assert_ne!(identities[0], identities[1]);
    assert!(identities[0].starts_with("p1 ("), "{identities:?}");
}

#[tokio::test]
async fn the_number_of_background_processes_is_limited() {
    let engine = MockEngine::new();
    for _ in 0..32 {
        start(&engine, "sleep 60").await;
    }
    let (code, _) = engine
        .err(
            "runtime__exec",
            json!({"command": "sleep 60", "background": true}),
        )
        .await;
    assert_eq!(code, "E_TOOL_TOO_MANY_PROCESSES");
    engine
        .ok(
            "runtime__process",
            json!({"action": "signal", "process_id": "p1", "signal": "SIGKILL"}),
        )
        .await;
    wait_for_exit(&engine, "p1").await;
    start(&engine, "sleep 60").await;
}

#[tokio::test]
async fn runtime_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let id = start(&engine, "sleep 60").await;
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
        let (code, _) = engine
            .err(&format!("runtime__{export}"), args.clone())
            .await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
    for unknown in ["no-such", "p99", "p", "7"] {
        let error = engine
            .call(
                "runtime__process",
                json!({"action": "status", "process_id": unknown}),
            )
            .await
            .unwrap_err();
        assert_eq!(error.code.as_deref(), Some("E_TOOL_PROCESS_NOT_FOUND"));
        assert!(error.suggestion.unwrap().contains(&id));
    }
    let (code, _) = engine
        .err("runtime__exec", json!({"command": "ls", "workdir": "nope"}))
        .await;
    assert_eq!(code, "E_TOOL_FILE_NOT_FOUND");
}

/// A command that writes its process id and sleeps, with a child that does the same.
const SLEEPING_COMMAND: &str = "sh -c 'echo $$ > child; exec sleep 600' & echo $$ > parent; wait";

fn is_running(engine: &MockEngine, file: &str) -> bool {
    let id: i32 = engine.read(file).trim().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), None).is_ok()
}

async fn start_two_sleeping_processes() -> MockEngine {
    let engine = MockEngine::new();
    engine
        .ok(
            "runtime__exec",
            json!({"command": SLEEPING_COMMAND, "background": true}),
        )
        .await;
    let written = |file: &str| {
        std::fs::read_to_string(engine.work().join(file)).is_ok_and(|text| text.ends_with('\n'))
    };
    until("the process IDs", || written("parent") && written("child")).await;
    assert!(is_running(&engine, "parent") && is_running(&engine, "child"));
    engine
}

#[tokio::test]
async fn processes_end_with_their_conversation() {
    let engine = start_two_sleeping_processes().await;
    engine
        .tools
        .instance_ended(&InstanceId::new("assistant", "other"));
    assert!(is_running(&engine, "child"));
    engine
        .tools
        .instance_ended(&InstanceId::new("assistant", "main"));
    until("the processes to exit", || !is_running(&engine, "child")).await;
    assert_eq!(
        engine
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
async fn shutdown_ends_processes_and_their_children() {
    let engine = start_two_sleeping_processes().await;
    engine.tools.shutdown().await;
    until("the processes to exit", || {
        !is_running(&engine, "child") && !is_running(&engine, "parent")
    })
    .await;
}

#[tokio::test]
async fn a_character_split_between_polls_is_returned_whole() {
    let engine = MockEngine::new();
    let id = start(
        &engine,
        "printf 'caf\\303'; read line; printf '\\251\\n'; printf '\\303'",
    )
    .await;
    assert_eq!(read_until(&engine, &id, "caf").await, "caf");
    engine
        .ok(
            "runtime__process",
            json!({"action": "input", "process_id": id, "input": "go\n"}),
        )
        .await;
    wait_for_exit(&engine, &id).await;
    assert_eq!(read_until(&engine, &id, "\n").await, "\u{e9}\n\u{fffd}");
}

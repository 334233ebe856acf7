use std::sync::Arc;

use serde_json::{Value, json};

use crate::mock_engine::{MockEngine, exists, with_unknown};

fn squad_file(engine: &MockEngine, path: &str, content: &str) {
    let path = engine.dir.path().join(".squad").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn squad_text(engine: &MockEngine, path: &str) -> String {
    std::fs::read_to_string(engine.dir.path().join(".squad").join(path)).unwrap()
}

async fn call(engine: &MockEngine, export: &str, args: Value) -> (String, String) {
    let output = engine.ok(&format!("squad__{export}"), args).await;
    let text = |field: &str| output[field].as_str().unwrap().to_owned();
    (text("resultType"), text("textResultForLlm"))
}

#[tokio::test]
async fn a_decision_never_overwrites_another() {
    let engine = MockEngine::new();
    let decide = |body: &str| json!({"title": "Use  Rust!\n## Really", "body": body, "agentName": "fenster", "category": "architecture"});
    let (kind, text) = call(&engine, "decide", decide("Because.")).await;
    assert_eq!(kind, "success");
    assert!(text.contains("fenster-use-rust-really.md"), "{text}");
    let first = squad_text(&engine, "decisions/inbox/fenster-use-rust-really.md");
    let (heading, rest) = first.split_once('\n').unwrap();
    assert!(
        heading.starts_with("### 20") && heading.ends_with(": Use Rust! ## Really"),
        "{heading}"
    );
    assert_eq!(
        rest,
        "\n**By:** fenster\n**Category:** architecture\n\nBecause.\n"
    );
    let (_, text) = call(&engine, "decide", decide("Again.")).await;
    assert!(text.contains("fenster-use-rust-really-2.md"), "{text}");
    assert_eq!(
        squad_text(&engine, "decisions/inbox/fenster-use-rust-really.md"),
        first
    );
    assert!(squad_text(&engine, "decisions/inbox/fenster-use-rust-really-2.md").contains("Again."));
    assert_eq!(
        std::fs::read_dir(engine.dir.path().join(".squad/decisions/inbox"))
            .unwrap()
            .count(),
        2
    );
}

#[tokio::test]
async fn a_learning_is_added_to_the_history_of_the_agent() {
    let engine = MockEngine::new();
    squad_file(
        &engine,
        "agents/fenster/history.md",
        "# Project Context\n\n## Learnings\n\n- old\n\n## Sessions\n\n- s1\n",
    );
    let learn = json!({"agentName": "fenster", "learning": "tests first\n## always", "category": "process"});
    assert_eq!(call(&engine, "memory", learn).await.0, "success");
    assert_eq!(
        squad_text(&engine, "agents/fenster/history.md"),
        "# Project Context\n\n## Learnings\n\n- old\n- **[process]** tests first\n  ## always\n\n## Sessions\n\n- s1\n"
    );
    call(
        &engine,
        "memory",
        json!({"agentName": "new", "learning": "x"}),
    )
    .await;
    assert_eq!(
        squad_text(&engine, "agents/new/history.md"),
        "# Project Context\n\n## Learnings\n\n- **[general]** x\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_learnings_are_all_kept() {
    let engine = Arc::new(MockEngine::new());
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..20 {
        let engine = Arc::clone(&engine);
        writers.spawn(async move {
            let learn = json!({"agentName": "fenster", "learning": format!("learning {number}.")});
            call(&engine, "memory", learn).await.0
        });
    }
    assert!(
        writers
            .join_all()
            .await
            .iter()
            .all(|kind| kind == "success")
    );
    let history = squad_text(&engine, "agents/fenster/history.md");
    assert!(
        (0..20).all(|number| history.contains(&format!("learning {number}."))),
        "{history}"
    );
    assert_eq!(
        std::fs::read_dir(engine.dir.path().join(".squad/agents/fenster"))
            .unwrap()
            .count(),
        1
    );
}

#[tokio::test]
async fn skills_are_written_listed_and_read() {
    let engine = MockEngine::new();
    assert_eq!(
        call(&engine, "skill", json!({"action": "list"})).await,
        ("success".to_owned(), "There are no skills yet.".to_owned())
    );
    let write = |name: &str, content: &str| json!({"action": "write", "skillName": name, "content": content});
    assert_eq!(
        call(&engine, "skill", write("git-flow", "# Git flow"))
            .await
            .0,
        "success"
    );
    assert_eq!(
        squad_text(&engine, "skills/git-flow/SKILL.md"),
        "# Git flow"
    );
    call(&engine, "skill", write("a.b", &"é".repeat(9000))).await;
    assert_eq!(
        call(&engine, "skill", json!({"action": "list"})).await.1,
        "**Available Skills (2):**\n- a.b\n- git-flow"
    );
    let described = json!({"action": "write", "skillName": "tea", "content": "Boil water.", "description": "Makes \"tea\": hot.\nUse it\tin the morning."});
    assert_eq!(call(&engine, "skill", described).await.0, "success");
    assert_eq!(
        squad_text(&engine, "skills/tea/SKILL.md"),
        "---\nname: tea\ndescription: \"Makes \\\"tea\\\": hot. Use it in the morning.\"\n---\n\nBoil water."
    );
    let (_, listed) = call(&engine, "skill", json!({"action": "list"})).await;
    assert!(
        listed.ends_with("\n- tea: Makes \"tea\": hot. Use it in the morning."),
        "{listed}"
    );
    for (name, description) in [
        ("a.b", "x"),
        ("tea", " "),
        ("tea", "x".repeat(1025).as_str()),
    ] {
        let args = json!({"action": "write", "skillName": name, "content": "x", "description": description});
        assert_eq!(
            call(&engine, "skill", args).await.0,
            "failure",
            "{name} {description}"
        );
    }
    let read = |name: &str| json!({"action": "read", "skillName": name});
    assert_eq!(
        call(&engine, "skill", read("git-flow")).await.1,
        "# Git flow"
    );
    let (_, long) = call(&engine, "skill", read("a.b")).await;
    assert!(
        long.len() < 10 * 1024 + 50 && long.ends_with("[7760 more bytes were cut.]"),
        "{}",
        &long[long.len() - 60..]
    );
    for (args, words) in [
        (read("nope"), "\"nope\""),
        (json!({"action": "read"}), "skillName"),
        (json!({"action": "write", "skillName": "x"}), "content"),
        (
            json!({"action": "write", "skillName": " ", "content": "x"}),
            "skillName",
        ),
    ] {
        let (kind, text) = call(&engine, "skill", args).await;
        assert_eq!(kind, "failure");
        assert!(text.contains(words), "{text}");
    }
}

#[tokio::test]
async fn squad_names_cannot_leave_their_directory() {
    let engine = MockEngine::new();
    for name in [
        "../../evil",
        "..",
        "a/b",
        "/etc",
        "a\\b",
        ".hidden",
        "a..b",
        &"x".repeat(100),
    ] {
        let calls = [
            (
                "skill",
                json!({"action": "write", "skillName": name, "content": "x"}),
            ),
            ("memory", json!({"agentName": name, "learning": "x"})),
            (
                "decide",
                json!({"agentName": name, "title": "x", "body": "x"}),
            ),
            ("route", json!({"targetAgent": name, "task": "x"})),
        ];
        for (export, args) in calls {
            let (kind, text) = call(&engine, export, args).await;
            assert_eq!(kind, "failure", "{export} {name}");
            assert!(text.contains("is not a valid"), "{text}");
        }
    }
    assert!(!exists(engine.dir.path().join("evil")));
}

#[cfg(unix)]
#[tokio::test]
async fn links_out_of_the_squad_directory_are_rejected() {
    let engine = MockEngine::new();
    squad_file(&engine, "skills/x", "");
    std::fs::create_dir(engine.dir.path().join("outside")).unwrap();
    std::os::unix::fs::symlink(
        "../../outside",
        engine.dir.path().join(".squad/skills/link"),
    )
    .unwrap();
    let (kind, text) = call(
        &engine,
        "skill",
        json!({"action": "write", "skillName": "link", "content": "x"}),
    )
    .await;
    assert_eq!(kind, "failure");
    assert!(text.contains("leads out"), "{text}");
    assert_eq!(
        std::fs::read_dir(engine.dir.path().join("outside"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn a_routed_session_receives_charter_history_and_context() {
    let engine = MockEngine::new();
    squad_file(&engine, "agents/hockney/charter.md", "You test everything.");
    squad_file(&engine, "agents/hockney/history.md", "Learned: be quick.");
    let route = json!({"targetAgent": "hockney", "task": "write tests", "context": "mind Windows"});
    assert_eq!(
        call(&engine, "route", route).await,
        ("success".to_owned(), "stset etirw".to_owned())
    );
    let log = engine.runtime.log.lock().unwrap().join("\n");
    // No agent is named hockney, so the caller's own definition plays the role in a separate
    // conversation.
    assert!(
        log.contains("spawn assistant") && log.contains("request assistant"),
        "{log}"
    );
    assert!(log.contains("instance_key: Some(\"assistant-1\")"), "{log}");
    let expected_prompt = "You are hockney, a Squad agent.\\n\\n## Charter\\n\\nYou test everything.\\n\\n## Project Knowledge\\n\\nLearned: be \
                quick.\\n\\n## Additional Context\\n\\nmind Windows";
    assert!(log.contains(expected_prompt), "{log}");
}

#[tokio::test]
async fn route_uses_a_declared_agent_with_the_same_name() {
    let engine = MockEngine::new();
    squad_file(&engine, "agents/worker/charter.md", "You work.");
    let route = json!({"targetAgent": "worker", "task": "abc", "waitForResult": false});
    let (kind, text) = call(&engine, "route", route).await;
    assert_eq!(kind, "success");
    assert!(
        text.contains("session worker-1") && text.contains("abc"),
        "{text}"
    );
    let log = engine.runtime.log.lock().unwrap().join("\n");
    assert!(
        log.contains("request worker") && log.contains("async_: true"),
        "{log}"
    );
    let (_, status) = call(&engine, "status", json!({})).await;
    assert!(
        status.contains("**worker** [started] session=worker-1"),
        "{status}"
    );
}

#[tokio::test]
async fn an_agent_without_a_charter_is_not_found() {
    let engine = MockEngine::new();
    squad_file(&engine, "agents/hockney/charter.md", "c");
    let (kind, text) = call(
        &engine,
        "route",
        json!({"targetAgent": "nobody", "task": "x"}),
    )
    .await;
    assert_eq!(kind, "failure");
    assert!(
        text.contains("\"nobody\"") && text.contains("hockney"),
        "{text}"
    );
    assert!(engine.runtime.log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_number_of_concurrent_routed_sessions_is_limited() {
    let engine = Arc::new(MockEngine::new().config(json!({"maxConcurrent": 1})));
    squad_file(&engine, "agents/hockney/charter.md", "c");
    let waiting = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move {
            engine
                .err(
                    "squad__route",
                    json!({"targetAgent": "hockney", "task": "never"}),
                )
                .await
                .0
        }
    });
    crate::mock_engine::until("the request", || {
        engine
            .runtime
            .log
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains("request"))
    })
    .await;
    let (kind, text) = call(
        &engine,
        "route",
        json!({"targetAgent": "hockney", "task": "x"}),
    )
    .await;
    assert_eq!(kind, "failure");
    assert!(text.contains("limit of 1"), "{text}");
    assert!(
        call(&engine, "status", json!({}))
            .await
            .1
            .contains("**hockney** [active]")
    );
    engine.cancellation.cancel();
    assert_eq!(waiting.await.unwrap(), "E_TOOL_CANCELLED");
    let open = crate::mock_engine::object(json!({}));
    let (_, status) = engine.open("squad__status").await;
    let mut context = engine.context();
    context.cancellation = tokio_util::sync::CancellationToken::new();
    let output = status.call(&context, open).await.unwrap().output;
    assert_eq!(
        output["textResultForLlm"],
        "There are no active agent sessions."
    );
    let all = crate::mock_engine::object(json!({"includeDestroyed": true, "agentName": "hockney"}));
    let output = status.call(&context, all).await.unwrap().output;
    assert!(
        output["textResultForLlm"]
            .as_str()
            .unwrap()
            .contains("**hockney** [error]"),
        "{output}"
    );
}

#[tokio::test]
async fn the_squad_directory_is_configurable_inside_the_project() {
    let engine = MockEngine::new().config(json!({"dir": ".ai-team"}));
    call(
        &engine,
        "skill",
        json!({"action": "write", "skillName": "x", "content": "y"}),
    )
    .await;
    assert!(exists(engine.dir.path().join(".ai-team/skills/x/SKILL.md")));
    let engine = MockEngine::new().config(json!({"dir": "../outside"}));
    let (kind, _) = call(
        &engine,
        "skill",
        json!({"action": "write", "skillName": "x", "content": "y"}),
    )
    .await;
    assert_eq!(kind, "failure");
}

#[tokio::test]
async fn squad_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let bad = [
        ("route", json!({"targetAgent": "", "task": "x"})),
        ("route", json!({"targetAgent": "a"})),
        (
            "route",
            json!({"targetAgent": "a", "task": "x", "waitForResult": "no"}),
        ),
        ("decide", json!({"title": "a", "body": "b"})),
        (
            "decide",
            json!({"title": "a", "body": "b", "agentName": ""}),
        ),
        (
            "decide",
            json!({"title": "a", "body": "b", "agentName": "c", "category": "other"}),
        ),
        ("memory", json!({"agentName": "a"})),
        ("memory", json!({"agentName": "a", "learning": ""})),
        (
            "memory",
            with_unknown(json!({"agentName": "a", "learning": "b"})),
        ),
        ("status", json!({"includeDestroyed": 1})),
        ("status", with_unknown(json!({}))),
        ("skill", json!({})),
        ("skill", json!({"action": "delete"})),
        ("skill", json!({"action": "read", "skillName": 1})),
    ];
    for (export, args) in bad {
        let (code, _) = engine.err(&format!("squad__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}

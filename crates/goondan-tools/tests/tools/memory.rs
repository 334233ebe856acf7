use serde_json::{Value, json};

use crate::mock_engine::{MockEngine, with_unknown};

fn notes() -> MockEngine {
    let engine = MockEngine::new();
    engine.write(
        "MEMORY.md",
        "# Memory\n\n## Deploy\nThe staging server is called heron.\n\n## Food\nThe team likes noodles.\n",
    );
    engine.write(
        "memory/2026-01-02.md",
        "Rotated the heron database password on Friday.\n",
    );
    engine.write("memory/deep/er.md", "Backups are kept in Reykjavik.\n");
    engine.write("memory/other.txt", "heron heron heron\n");
    engine.write("src/heron.md", "heron heron heron\n");
    engine
}

async fn search(engine: &MockEngine, args: Value) -> Vec<Value> {
    engine.ok("memory__search", args).await["results"]
        .as_array()
        .unwrap()
        .clone()
}

#[tokio::test]
async fn search_returns_the_best_passage_with_path_and_lines() {
    let engine = notes();
    let found = search(&engine, json!({"query": "name of the staging server"})).await;
    assert_eq!(found.len(), 1);
    let expected = json!({
        "path": "MEMORY.md", "from": 3, "to": 4, "score": found[0]["score"],
        "snippet": "## Deploy\nThe staging server is called heron.",
    });
    assert_eq!(found[0], expected);
    let score = found[0]["score"].as_f64().unwrap();
    assert!((0.35..=1.0).contains(&score), "{score}");
    let deep = search(&engine, json!({"query": "where are the backups?"})).await;
    assert_eq!(
        (&deep[0]["path"], &deep[0]["from"]),
        (&json!("memory/deep/er.md"), &json!(1))
    );
}

#[tokio::test]
async fn only_memory_files_are_searched() {
    let found = search(&notes(), json!({"query": "heron", "min_score": 0})).await;
    let mut paths: Vec<&str> = found
        .iter()
        .map(|result| result["path"].as_str().unwrap())
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, ["MEMORY.md", "memory/2026-01-02.md"]);
}

#[tokio::test]
async fn search_respects_max_results_min_score_and_snippet_length() {
    let engine = notes();
    assert_eq!(
        search(
            &engine,
            json!({"query": "heron", "min_score": 0, "max_results": 1})
        )
        .await
        .len(),
        1
    );
    assert!(
        search(&engine, json!({"query": "zebra quantum"}))
            .await
            .is_empty()
    );
    assert!(
        search(
            &engine,
            json!({"query": "heron backups noodles password", "min_score": 0.9})
        )
        .await
        .is_empty()
    );
    assert!(
        search(
            &MockEngine::new(),
            json!({"query": "heron", "min_score": 0})
        )
        .await
        .is_empty()
    );
    engine.write("memory/long.md", "wombat ".repeat(1000));
    let long = search(&engine, json!({"query": "wombat"})).await;
    assert_eq!(long[0]["snippet"].as_str().unwrap().chars().count(), 700);
}

#[tokio::test]
async fn memory_get_returns_the_requested_lines() {
    let engine = notes();
    assert_eq!(
        engine
            .ok(
                "memory__get",
                json!({"path": "MEMORY.md", "from": 4, "lines": 1})
            )
            .await,
        "The staging server is called heron.\n"
    );
    assert_eq!(
        engine
            .ok("memory__get", json!({"path": "memory/deep/er.md"}))
            .await,
        "Backups are kept in Reykjavik.\n"
    );
    engine.write("memory/long.md", "0123456789\n".repeat(10_000));
    let page = engine
        .ok("memory__get", json!({"path": "memory/long.md", "from": 2}))
        .await;
    let page = page.as_str().unwrap();
    assert!(
        page.len() < 50_100 && page.ends_with("continue with from 4547.]"),
        "{}",
        &page[page.len() - 60..]
    );
}

#[tokio::test]
async fn memory_get_rejects_other_paths() {
    let engine = notes();
    std::fs::write(engine.dir.path().join("secret.md"), "s").unwrap();
    let cases = [
        (json!({"path": "../secret.md"}), "E_TOOL_PATH_ESCAPE"),
        (
            json!({"path": "memory/../../secret.md"}),
            "E_TOOL_PATH_ESCAPE",
        ),
        (json!({"path": "src/heron.md"}), "E_TOOL_INVALID_ARGS"),
        (
            json!({"path": "memory/../src/heron.md"}),
            "E_TOOL_INVALID_ARGS",
        ),
        (json!({"path": "memory/other.txt"}), "E_TOOL_INVALID_ARGS"),
        (json!({"path": "memory/nope.md"}), "E_TOOL_FILE_NOT_FOUND"),
        (
            json!({"path": "MEMORY.md", "from": 99}),
            "E_TOOL_INVALID_ARGS",
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(
            engine.err("memory__get", args.clone()).await.0,
            expected,
            "{args}"
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn links_to_outside_files_are_not_searched_or_read() {
    let engine = MockEngine::new();
    std::fs::write(engine.dir.path().join("secret.md"), "the heron secret").unwrap();
    engine.write("memory/a.md", "x");
    std::os::unix::fs::symlink("../../secret.md", engine.work().join("memory/link.md")).unwrap();
    std::os::unix::fs::symlink("../secret.md", engine.work().join("MEMORY.md")).unwrap();
    assert!(
        search(&engine, json!({"query": "heron secret", "min_score": 0}))
            .await
            .is_empty()
    );
    assert_eq!(
        engine
            .err("memory__get", json!({"path": "MEMORY.md"}))
            .await
            .0,
        "E_TOOL_PATH_ESCAPE"
    );
}

#[tokio::test]
async fn memory_exports_reject_invalid_arguments() {
    let engine = notes();
    let bad = [
        ("search", json!({})),
        ("search", json!({"query": ""})),
        ("search", json!({"query": "a", "max_results": 0})),
        ("search", json!({"query": "a", "min_score": 1.5})),
        ("search", with_unknown(json!({"query": "a"}))),
        ("get", json!({})),
        ("get", json!({"path": "MEMORY.md", "from": 0})),
        ("get", json!({"path": "MEMORY.md", "lines": 0})),
    ];
    for (export, args) in bad {
        let (code, _) = engine.err(&format!("memory__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}

#[tokio::test]
async fn embeddings_rank_by_meaning_and_vectors_are_cached() {
    let cache = tempfile::tempdir().unwrap();
    let engine = || {
        MockEngine::new()
            .cache(cache.path())
            .config(json!({"embeddings": {"modelRef": "Model/vectors"}}))
    };
    let first = engine();
    let notes = "# Pets\n\nA feline sleeps here.\n\n# Food\n\nBread is baked on Mondays.\n";
    first.write("MEMORY.md", notes);
    let found = first
        .ok("memory__search", json!({"query": "cat", "min_score": 0.5}))
        .await;
    assert_eq!(
        (&found["count"], &found["results"][0]["from"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(first.runtime.embedded(), 3);
    // After a restart, known texts are not embedded again.
    let second = engine();
    second.write("MEMORY.md", notes);
    let again = second
        .ok("memory__search", json!({"query": "cat", "min_score": 0.5}))
        .await;
    assert_eq!(again, found);
    assert_eq!(second.runtime.embedded(), 0);
    second.ok("memory__search", json!({"query": "bread"})).await;
    assert_eq!(second.runtime.embedded(), 1);
}

#[tokio::test]
async fn search_falls_back_to_words_if_the_embedding_model_fails() {
    let engine = MockEngine::new().config(json!({"embeddings": {"modelRef": "Model/broken"}}));
    engine.write("MEMORY.md", "The staging server is called heron.\n");
    let found = engine
        .ok("memory__search", json!({"query": "staging server"}))
        .await;
    assert_eq!(found["count"], 1);
    assert!(
        found["note"].as_str().unwrap().contains("only by words"),
        "{found}"
    );
}

#[tokio::test]
async fn notes_in_other_encodings_are_found_and_read() {
    let engine = MockEngine::new();
    let utf_16: Vec<u8> = "\u{feff}# Plan\nthe caf\u{e9} opens\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    engine.write("memory/wide.md", utf_16);
    engine.write("memory/latin.md", b"the caf\xe9 closes\n");
    engine.write("memory/marked.md", "\u{feff}the caf\u{e9} moves\n");
    let found = engine
        .ok(
            "memory__search",
            json!({"query": "caf\u{e9}", "min_score": 0}),
        )
        .await;
    assert_eq!(found["count"], 3, "{found}");
    assert!(!found.to_string().contains('\u{feff}'), "{found}");
    let read = engine
        .ok("memory__get", json!({"path": "memory/latin.md"}))
        .await;
    assert_eq!(read, "the caf\u{e9} closes\n");
}

#[tokio::test]
async fn an_oversized_note_is_an_error() {
    let engine = notes();
    engine.write("memory/large.md", vec![b'x'; 16 * 1024 * 1024 + 1]);
    let error = engine
        .call("memory__get", json!({"path": "memory/large.md"}))
        .await
        .unwrap_err();
    assert_eq!(error.code.as_deref(), Some("E_TOOL_TOO_LARGE"));
    assert!(error.message.contains("16777217 bytes"), "{error}");
    assert_eq!(search(&engine, json!({"query": "heron"})).await.len(), 2);
}

use serde_json::{Value, json};

use crate::bench::{Bench, with_unknown};

fn notes() -> Bench {
    let bench = Bench::new();
    bench.write(
        "MEMORY.md",
        "# Memory\n\n## Deploy\nThe staging server is called heron.\n\n## Food\nThe team likes noodles.\n",
    );
    bench.write(
        "memory/2026-01-02.md",
        "Rotated the heron database password on Friday.\n",
    );
    bench.write("memory/deep/er.md", "Backups are kept in Reykjavik.\n");
    bench.write("memory/other.txt", "heron heron heron\n");
    bench.write("src/heron.md", "heron heron heron\n");
    bench
}

async fn search(bench: &Bench, args: Value) -> Vec<Value> {
    bench.ok("memory__search", args).await["results"]
        .as_array()
        .unwrap()
        .clone()
}

#[tokio::test]
async fn the_best_passage_comes_first_with_its_place() {
    let bench = notes();
    let found = search(&bench, json!({"query": "name of the staging server"})).await;
    assert_eq!(found.len(), 1);
    let expected = json!({
        "path": "MEMORY.md", "from": 3, "to": 4, "score": found[0]["score"],
        "snippet": "## Deploy\nThe staging server is called heron.",
    });
    assert_eq!(found[0], expected);
    let score = found[0]["score"].as_f64().unwrap();
    assert!((0.35..=1.0).contains(&score), "{score}");
    let deep = search(&bench, json!({"query": "where are the backups?"})).await;
    assert_eq!(
        (&deep[0]["path"], &deep[0]["from"]),
        (&json!("memory/deep/er.md"), &json!(1))
    );
}

#[tokio::test]
async fn only_notes_are_searched() {
    let found = search(&notes(), json!({"query": "heron", "min_score": 0})).await;
    let mut paths: Vec<&str> = found
        .iter()
        .map(|result| result["path"].as_str().unwrap())
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, ["MEMORY.md", "memory/2026-01-02.md"]);
}

#[tokio::test]
async fn limits_are_kept() {
    let bench = notes();
    assert_eq!(
        search(
            &bench,
            json!({"query": "heron", "min_score": 0, "max_results": 1})
        )
        .await
        .len(),
        1
    );
    assert!(
        search(&bench, json!({"query": "zebra quantum"}))
            .await
            .is_empty()
    );
    assert!(
        search(
            &bench,
            json!({"query": "heron backups noodles password", "min_score": 0.9})
        )
        .await
        .is_empty()
    );
    assert!(
        search(&Bench::new(), json!({"query": "heron", "min_score": 0}))
            .await
            .is_empty()
    );
    bench.write("memory/long.md", "wombat ".repeat(1000));
    let long = search(&bench, json!({"query": "wombat"})).await;
    assert_eq!(long[0]["snippet"].as_str().unwrap().chars().count(), 700);
}

#[tokio::test]
async fn get_reads_lines() {
    let bench = notes();
    assert_eq!(
        bench
            .ok(
                "memory__get",
                json!({"path": "MEMORY.md", "from": 4, "lines": 1})
            )
            .await,
        "The staging server is called heron.\n"
    );
    assert_eq!(
        bench
            .ok("memory__get", json!({"path": "memory/deep/er.md"}))
            .await,
        "Backups are kept in Reykjavik.\n"
    );
    bench.write("memory/long.md", "0123456789\n".repeat(10_000));
    let page = bench
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
async fn what_is_no_note_is_not_read() {
    let bench = notes();
    std::fs::write(bench.dir.path().join("secret.md"), "s").unwrap();
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
            bench.err("memory__get", args.clone()).await.0,
            expected,
            "{args}"
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn links_to_the_outside_are_no_notes() {
    let bench = Bench::new();
    std::fs::write(bench.dir.path().join("secret.md"), "the heron secret").unwrap();
    bench.write("memory/a.md", "x");
    std::os::unix::fs::symlink("../../secret.md", bench.work().join("memory/link.md")).unwrap();
    std::os::unix::fs::symlink("../secret.md", bench.work().join("MEMORY.md")).unwrap();
    assert!(
        search(&bench, json!({"query": "heron secret", "min_score": 0}))
            .await
            .is_empty()
    );
    assert_eq!(
        bench
            .err("memory__get", json!({"path": "MEMORY.md"}))
            .await
            .0,
        "E_TOOL_PATH_ESCAPE"
    );
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let bench = notes();
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
        let (code, _) = bench.err(&format!("memory__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}

#[tokio::test]
async fn with_embeddings_meaning_counts_and_vectors_are_kept() {
    let cache = tempfile::tempdir().unwrap();
    let bench = || {
        Bench::new()
            .cache(cache.path())
            .config(json!({"embeddings": {"modelRef": "Model/vectors"}}))
    };
    let first = bench();
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
    let second = bench();
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
async fn where_the_embedding_model_fails_words_still_count() {
    let bench = Bench::new().config(json!({"embeddings": {"modelRef": "Model/broken"}}));
    bench.write("MEMORY.md", "The staging server is called heron.\n");
    let found = bench
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
    let bench = Bench::new();
    let utf_16: Vec<u8> = "\u{feff}# Plan\nthe caf\u{e9} opens\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    bench.write("memory/wide.md", utf_16);
    bench.write("memory/latin.md", b"the caf\xe9 closes\n");
    bench.write("memory/marked.md", "\u{feff}the caf\u{e9} moves\n");
    let found = bench
        .ok(
            "memory__search",
            json!({"query": "caf\u{e9}", "min_score": 0}),
        )
        .await;
    assert_eq!(found["count"], 3, "{found}");
    assert!(!found.to_string().contains('\u{feff}'), "{found}");
    let read = bench
        .ok("memory__get", json!({"path": "memory/latin.md"}))
        .await;
    assert_eq!(read, "the caf\u{e9} closes\n");
}

#[tokio::test]
async fn a_note_that_is_too_large_is_an_error() {
    let bench = notes();
    bench.write("memory/large.md", vec![b'x'; 16 * 1024 * 1024 + 1]);
    let error = bench
        .call("memory__get", json!({"path": "memory/large.md"}))
        .await
        .unwrap_err();
    assert_eq!(error.code.as_deref(), Some("E_TOOL_TOO_LARGE"));
    assert!(error.message.contains("16777217 bytes"), "{error}");
    assert_eq!(search(&bench, json!({"query": "heron"})).await.len(), 2);
}

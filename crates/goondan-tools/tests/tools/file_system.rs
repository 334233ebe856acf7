use serde_json::json;

use crate::mock_engine::{MockEngine, exists, with_unknown};

#[tokio::test]
async fn written_and_appended_content_can_be_read() {
    let engine = MockEngine::new();
    let path = engine.work().join("a/b/c.txt");
    assert_eq!(
        engine
            .ok(
                "file-system__write",
                json!({"path": "a/b/c.txt", "content": "héllo"})
            )
            .await,
        json!({"path": path, "size": 6, "written": true, "append": false})
    );
    assert_eq!(
        engine
            .ok(
                "file-system__write",
                json!({"path": "a/b/c.txt", "content": "!", "append": true})
            )
            .await,
        json!({"path": path, "size": 7, "written": true, "append": true})
    );
    assert_eq!(
        engine
            .ok("file-system__read", json!({"path": "a/b/../b/c.txt"}))
            .await,
        json!({"path": path, "size": 7, "truncated": false, "content": "héllo!"})
    );
    assert_eq!(
        engine.ok("file-system__read", json!({"path": path})).await["content"],
        "héllo!"
    );
    engine
        .ok(
            "file-system__write",
            json!({"path": "a/b/c.txt", "content": "new"}),
        )
        .await;
    assert_eq!(engine.read("a/b/c.txt"), "new");
}

#[tokio::test]
async fn read_stops_at_max_bytes_on_a_character_boundary() {
    let engine = MockEngine::new();
    engine.write("t", "aéé");
    let read = async |max| {
        engine
            .ok("file-system__read", json!({"path": "t", "maxBytes": max}))
            .await
    };
    let output = read(4).await;
    assert_eq!(
        (&output["content"], &output["size"], &output["truncated"]),
        (&json!("aé"), &json!(5), &json!(true))
    );
    assert_eq!(read(5).await["truncated"], false);
    engine.write("binary", [0xff, b'a', 0xc3]);
    assert_eq!(
        engine
            .ok("file-system__read", json!({"path": "binary"}))
            .await["content"],
        "\u{FFFD}a\u{FFFD}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn writing_keeps_the_file_mode_and_leaves_no_temporary_files() {
    use std::os::unix::fs::PermissionsExt;
    let engine = MockEngine::new();
    engine.write("run.sh", "old");
    let path = engine.work().join("run.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    engine
        .ok(
            "file-system__write",
            json!({"path": "run.sh", "content": "new"}),
        )
        .await;
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o750
    );
    engine
        .ok(
            "file-system__write",
            json!({"path": "fresh", "content": "x"}),
        )
        .await;
    let ordinary = engine.work().join("ordinary");
    std::fs::write(&ordinary, "").unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&engine.work().join("fresh")), mode(&ordinary));
    assert_eq!(std::fs::read_dir(engine.work()).unwrap().count(), 3);
}

#[tokio::test]
async fn list_is_sorted_and_contains_only_files_and_directories() {
    let engine = MockEngine::new();
    engine.write("b.txt", "12345");
    engine.write("a/inner.txt", "1");
    #[cfg(unix)]
    std::os::unix::fs::symlink("b.txt", engine.work().join("link")).unwrap();
    let entry = |path: &str, size: Option<u64>| {
        let full = engine.work().join(path);
        let name = full.file_name().unwrap().to_string_lossy().into_owned();
        match size {
            Some(size) => json!({"name": name, "path": full, "type": "file", "size": size}),
            None => json!({"name": name, "path": full, "type": "dir"}),
        }
    };
    assert_eq!(
        engine.ok("file-system__list", json!({})).await,
        json!({"path": engine.work(), "recursive": false, "count": 2, "entries": [entry("a", None), entry("b.txt", Some(5))]})
    );
    let all = engine
        .ok("file-system__list", json!({"recursive": true}))
        .await;
    assert_eq!(
        all["entries"],
        json!([
            entry("a", None),
            entry("a/inner.txt", Some(1)),
            entry("b.txt", Some(5))
        ])
    );
    let files = engine
        .ok(
            "file-system__list",
            json!({"recursive": true, "includeDirs": false}),
        )
        .await;
    assert_eq!(files["count"], 2);
    let dirs = engine
        .ok(
            "file-system__list",
            json!({"path": ".", "includeFiles": false}),
        )
        .await;
    assert_eq!(dirs["entries"], json!([entry("a", None)]));
}

#[tokio::test]
async fn mkdir_reports_whether_a_directory_was_created() {
    let engine = MockEngine::new();
    let path = engine.work().join("x/y");
    let output = engine
        .ok("file-system__mkdir", json!({"path": "x/y"}))
        .await;
    assert_eq!(
        output,
        json!({"path": path, "created": true, "recursive": true})
    );
    assert!(path.is_dir());
    assert_eq!(
        engine
            .ok("file-system__mkdir", json!({"path": "x/y"}))
            .await["created"],
        false
    );
    let (_, message) = engine
        .err(
            "file-system__mkdir",
            json!({"path": "x/y", "recursive": false}),
        )
        .await;
    assert!(
        message.contains("`x/y`") && message.contains("exists"),
        "{message}"
    );
    let (code, _) = engine
        .err(
            "file-system__mkdir",
            json!({"path": "q/r", "recursive": false}),
        )
        .await;
    assert_eq!(code, "E_TOOL_FILE_NOT_FOUND");
}

#[tokio::test]
async fn file_system_exports_cannot_leave_the_working_directory() {
    let engine = MockEngine::new();
    std::fs::write(engine.dir.path().join("secret"), "s").unwrap();
    let outside = engine.dir.path().canonicalize().unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&outside, engine.work().join("door")).unwrap();
    let absolute = outside.join("secret").display().to_string();
    for path in [
        "../secret",
        "door/secret",
        &absolute,
        "door/new",
        "../work-2/x",
        "/etc/passwd",
    ] {
        for (export, args) in [
            ("read", json!({"path": path})),
            ("write", json!({"path": path, "content": "x"})),
            (
                "write",
                json!({"path": path, "content": "x", "append": true}),
            ),
            ("list", json!({"path": path})),
            ("mkdir", json!({"path": path})),
        ] {
            let (code, message) = engine.err(&format!("file-system__{export}"), args).await;
            assert_eq!(code, "E_TOOL_PATH_ESCAPE", "{export} {path}");
            assert!(message.contains(path), "{message}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(outside.join("secret")).unwrap(),
        "s"
    );
    assert!(!exists(outside.join("new")) && !exists(outside.join("work-2")));
}

#[tokio::test]
async fn file_system_errors_contain_the_path_and_the_reason() {
    let engine = MockEngine::new();
    engine.write("dir/file", "x");
    let cases = [
        (
            "read",
            json!({"path": "nope.txt"}),
            "E_TOOL_FILE_NOT_FOUND",
            "nope.txt",
        ),
        (
            "read",
            json!({"path": "dir"}),
            "E_TOOL_WRONG_FILE_TYPE",
            "directory",
        ),
        (
            "read",
            json!({"path": "dir/file/x"}),
            "E_TOOL_WRONG_FILE_TYPE",
            "dir/file/x",
        ),
        (
            "write",
            json!({"path": "dir", "content": "x"}),
            "E_TOOL_WRONG_FILE_TYPE",
            "directory",
        ),
        (
            "write",
            json!({"path": "dir", "content": "x", "append": true}),
            "E_TOOL_WRONG_FILE_TYPE",
            "directory",
        ),
        (
            "list",
            json!({"path": "nope"}),
            "E_TOOL_FILE_NOT_FOUND",
            "nope",
        ),
        (
            "list",
            json!({"path": "dir/file"}),
            "E_TOOL_WRONG_FILE_TYPE",
            "dir/file",
        ),
    ];
    for (export, args, expected, words) in cases {
        let (code, message) = engine.err(&format!("file-system__{export}"), args).await;
        assert_eq!(code, expected, "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn file_system_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let bad = [
        ("read", json!({})),
        ("read", json!({"path": ""})),
        ("read", json!({"path": "a", "maxBytes": 0})),
        ("read", json!({"path": "a\0b"})),
        ("write", json!({"path": "a"})),
        ("write", json!({"path": "a", "content": 1})),
        (
            "write",
            json!({"path": "a", "content": "x", "append": "yes"}),
        ),
        ("list", json!({"path": 1})),
        ("list", json!({"recursive": "true"})),
        ("list", with_unknown(json!({}))),
        ("mkdir", json!({})),
        ("mkdir", json!({"path": ["a"]})),
        ("mkdir", with_unknown(json!({"path": "a"}))),
    ];
    for (export, args) in bad {
        let (code, _) = engine
            .err(&format!("file-system__{export}"), args.clone())
            .await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}

#[tokio::test]
async fn recursive_searches_skip_a_state_directory() {
    let engine = MockEngine::new();
    engine.write("src/main.rs", "fn main() {}");
    engine.write("var/state/control.rs", "fn main() {}");
    goondan_tools::state_directory::protect(&engine.work().join("var/state"));

    let listed = engine
        .ok("file-system__list", json!({"recursive": true}))
        .await;
    let found = engine.ok("fs__glob", json!({"pattern": "**/*.rs"})).await;
    let matches = engine.ok("fs__grep", json!({"pattern": "main"})).await;
    for output in [&listed, &found, &matches] {
        let output = output.to_string();
        assert!(
            output.contains("main.rs") && !output.contains("control"),
            "{output}"
        );
    }
    let error = engine
        .err("fs__read", json!({"path": "var/state/control.rs"}))
        .await;
    assert_eq!(error.0, "E_TOOL_PATH_ESCAPE", "{error:?}");
}

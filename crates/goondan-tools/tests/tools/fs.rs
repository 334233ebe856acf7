use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::mock_engine::{MockEngine, exists, with_unknown};

async fn text(engine: &MockEngine, tool: &str, args: Value) -> String {
    engine.ok(tool, args).await.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn read_numbers_lines() {
    let engine = MockEngine::new();
    engine.write("t", "\u{FEFF}one\r\ntwo\n\nfour");
    assert_eq!(
        text(&engine, "fs__read", json!({"path": "t"})).await,
        "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n"
    );
    assert_eq!(
        text(
            &engine,
            "fs__read",
            json!({"path": "t", "offset": 1, "limit": 2})
        )
        .await,
        "     2\ttwo\n     3\t\n\n[There are more lines: continue with offset 3.]"
    );
    assert_eq!(
        text(&engine, "fs__read", json!({"path": "t", "offset": 3})).await,
        "     4\tfour\n"
    );
    engine.write("empty", "");
    assert_eq!(
        text(&engine, "fs__read", json!({"path": "empty"})).await,
        "[The file is empty.]"
    );
    let (code, message) = engine
        .err("fs__read", json!({"path": "t", "offset": 9}))
        .await;
    assert_eq!(code, "E_TOOL_INVALID_ARGS");
    assert!(message.contains("4 lines"), "{message}");
}

#[tokio::test]
async fn read_returns_a_long_file_in_pages() {
    let engine = MockEngine::new();
    engine.write(
        "long",
        (0..5000)
            .map(|n| format!("line {n} {}\n", "x".repeat(40)))
            .collect::<String>(),
    );
    let mut offset = 0;
    let mut seen = 0;
    let mut pages = 0;
    loop {
        let page = text(
            &engine,
            "fs__read",
            json!({"path": "long", "offset": offset}),
        )
        .await;
        assert!(page.len() < 51 * 1024 + 200, "{}", page.len());
        pages += 1;
        for line in page.lines().take_while(|line| !line.is_empty()) {
            assert!(
                line.contains(&format!("{}\tline {seen} ", seen + 1)),
                "{line}"
            );
            seen += 1;
        }
        let Some((_, next)) = page.split_once("offset ") else {
            break;
        };
        offset = next.trim_end_matches(".]").parse().unwrap();
    }
    assert_eq!((seen, pages > 4), (5000, true));
    // An explicit number of lines permits a larger page, up to a limit.
    let page = text(&engine, "fs__read", json!({"path": "long", "limit": 4000})).await;
    assert!(page.contains("\tline 3999 ") && page.contains("offset 4000"));
    engine.write("one-line", "y".repeat(2_000_000));
    let page = text(&engine, "fs__read", json!({"path": "one-line", "limit": 1})).await;
    assert!(
        page.len() < 513 * 1024 && page.contains("1475712 more bytes in this line"),
        "{}",
        &page[page.len() - 80..]
    );
}

#[tokio::test]
async fn read_describes_binary_files_and_attaches_images() {
    let engine = MockEngine::new();
    engine.write("a.bin", b"\x7fELF\0\0\0");
    assert_eq!(
        text(&engine, "fs__read", json!({"path": "a.bin"})).await,
        "[a.bin is a binary file (application/x-elf, 7 bytes).]"
    );
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    engine.write("i.png", png);
    let output = engine
        .call("fs__read", json!({"path": "i.png"}))
        .await
        .unwrap();
    assert_eq!(
        output.output,
        "[i.png is a binary file (image/png, 16 bytes).]"
    );
    assert_eq!(output.attachments.len(), 1);
    assert_eq!(output.attachments[0].media_type, "image/png");
    assert_eq!(output.attachments[0].data, "iVBORw0KGgoAAAANSUhEUg==");
    engine.write("nothing-known", b"\xc3\x28\x01\x02");
    let output = engine
        .ok("fs__read", json!({"path": "nothing-known"}))
        .await;
    assert_eq!(
        output,
        "[nothing-known is a binary file (application/octet-stream, 4 bytes).]"
    );
}

#[tokio::test]
async fn unsupported_text_encodings_are_rejected_by_name() {
    let engine = MockEngine::new();
    engine.write("latin", b"caf\xe9\n");
    engine.write("wide", b"\xff\xfec\0a\0f\0\xe9\0");
    engine.write("wide-without-mark", b"c\0a\0f\0e\0");
    for (path, name) in [
        ("latin", "ISO-8859-1"),
        ("wide", "UTF-16"),
        ("wide-without-mark", "UTF-16LE"),
    ] {
        let patch = format!("*** Begin Patch\n*** Update File: {path}\n-a\n+b\n*** End Patch");
        let calls = [
            ("fs__read", json!({"path": path})),
            (
                "fs__edit",
                json!({"path": path, "old_text": "a", "new_text": "b"}),
            ),
            ("fs__apply_patch", json!({"patch": patch})),
        ];
        let before = std::fs::read(engine.work().join(path)).unwrap();
        for (tool, args) in calls {
            let error = engine.call(tool, args).await.unwrap_err();
            assert_eq!(error.code.as_deref(), Some("E_TOOL_ENCODING"), "{error:?}");
            assert!(
                error.message.contains(name) && error.suggestion.unwrap().contains("iconv"),
                "{}",
                error.message
            );
        }
        assert_eq!(std::fs::read(engine.work().join(path)).unwrap(), before);
    }
}

#[tokio::test]
async fn write_creates_and_replaces_files() {
    let engine = MockEngine::new();
    assert_eq!(
        engine
            .ok("fs__write", json!({"path": "a/b.txt", "content": "hé"}))
            .await,
        json!({"path": "a/b.txt", "bytes": 3, "created": true})
    );
    assert_eq!(
        engine
            .ok("fs__write", json!({"path": "a/b.txt", "content": ""}))
            .await["created"],
        false
    );
    assert_eq!(engine.read("a/b.txt"), "");
}

#[tokio::test]
async fn edit_returns_the_diff() {
    let engine = MockEngine::new();
    engine.write("a.txt", "one\r\ntwo\r\nthree\r\n");
    let output = engine
        .ok(
            "fs__edit",
            json!({"path": "a.txt", "old_text": "two", "new_text": "2\nzwei"}),
        )
        .await;
    assert_eq!(engine.read("a.txt"), "one\r\n2\r\nzwei\r\nthree\r\n");
    assert_eq!(
        (&output["path"], &output["line"]),
        (&json!("a.txt"), &json!(2))
    );
    let diff = output["diff"].as_str().unwrap();
    assert!(
        diff.contains("-two") && diff.contains("+2") && diff.contains("+zwei"),
        "{diff}"
    );
}

#[tokio::test]
async fn edit_accepts_a_number_as_new_text() {
    let engine = MockEngine::new();
    engine.write("a.txt", "port = 80\n");
    engine
        .ok(
            "fs__edit",
            json!({"path": "a.txt", "old_text": "80", "new_text": 8080}),
        )
        .await;
    assert_eq!(engine.read("a.txt"), "port = 8080\n");
}

#[tokio::test]
async fn an_ambiguous_or_missing_match_leaves_the_file_unchanged() {
    let engine = MockEngine::new();
    engine.write("a.txt", "one\ntwo\ntwo\n");
    let edit = |old: &str| json!({"path": "a.txt", "old_text": old, "new_text": "x"});
    let (code, message) = engine.err("fs__edit", edit("two")).await;
    assert_eq!(code, "E_TOOL_EDIT_AMBIGUOUS");
    assert!(
        message.contains("2 times") && message.contains("lines 2, 3"),
        "{message}"
    );
    assert_eq!(
        engine.err("fs__edit", edit("three")).await.0,
        "E_TOOL_EDIT_NOT_FOUND"
    );
    assert_eq!(
        engine.err("fs__edit", edit("x")).await.0,
        "E_TOOL_INVALID_ARGS"
    );
    assert_eq!(engine.read("a.txt"), "one\ntwo\ntwo\n");
    engine.write("binary", [0xc3, 0x28, 0x01]);
    let (code, _) = engine
        .err(
            "fs__edit",
            json!({"path": "binary", "old_text": "a", "new_text": "b"}),
        )
        .await;
    assert_eq!(code, "E_TOOL_WRONG_FILE_TYPE");
}

#[tokio::test]
async fn a_patch_adds_updates_moves_and_deletes_files() {
    let engine = MockEngine::new();
    engine.write("src/a.txt", "alpha\nbeta\ngamma\n");
    engine.write("old.txt", "bye\n");
    engine.write("name.txt", "1\n2\n");
    let patch = "*** Begin Patch\n*** Add File: new/b.txt\n+hello\n*** Update File: src/a.txt\n@@ alpha\n alpha\n-beta\n\
                 +BETA\n gamma\n*** Update File: name.txt\n*** Move to: new/name.txt\n@@\n-2\n+two\n*** Delete File: \
                 old.txt\n*** End Patch\n";
    let output = engine.ok("fs__apply_patch", json!({"patch": patch})).await;
    assert_eq!(
        output,
        json!({"files": [
            {"path": "new/b.txt", "action": "added", "added": 1, "removed": 0},
            {"path": "src/a.txt", "action": "updated", "added": 1, "removed": 1},
            {"path": "name.txt", "action": "moved", "added": 1, "removed": 1, "to": "new/name.txt"},
            {"path": "old.txt", "action": "deleted", "added": 0, "removed": 1},
        ]})
    );
    assert_eq!(engine.read("new/b.txt"), "hello\n");
    assert_eq!(engine.read("src/a.txt"), "alpha\nBETA\ngamma\n");
    assert_eq!(engine.read("new/name.txt"), "1\ntwo\n");
    assert!(!exists(engine.work().join("old.txt")) && !exists(engine.work().join("name.txt")));
}

#[tokio::test]
async fn a_patch_that_does_not_apply_changes_no_file() {
    let engine = MockEngine::new();
    engine.write("a.txt", "alpha\n");
    engine.write("b.txt", "beta\n");
    let patch =
        |sections: &str| json!({"patch": format!("*** Begin Patch\n{sections}\n*** End Patch")});
    let good = "*** Add File: new.txt\n+x\n*** Update File: a.txt\n-alpha\n+A\n";
    let bad = [
        ("*** Update File: b.txt\n-nope", "E_TOOL_PATCH", "b.txt"),
        (
            "*** Update File: c.txt\n-nope",
            "E_TOOL_FILE_NOT_FOUND",
            "c.txt",
        ),
        ("*** Delete File: c.txt", "E_TOOL_FILE_NOT_FOUND", "c.txt"),
        ("*** Add File: b.txt\n+x", "E_TOOL_PATCH", "b.txt"),
        (
            "*** Update File: b.txt\n*** Move to: a.txt\n-beta",
            "E_TOOL_PATCH",
            "a.txt",
        ),
        (
            "*** Update File: b.txt\n*** Move to: new.txt\n-beta",
            "E_TOOL_PATCH",
            "new.txt",
        ),
        ("*** Update File: ./a.txt\n-alpha", "E_TOOL_PATCH", "twice"),
        ("*** Add File: ../x\n+x", "E_TOOL_PATH_ESCAPE", "../x"),
        ("nonsense", "E_TOOL_PATCH", "nonsense"),
        // A file is in the place of a directory.
        (
            "*** Add File: b.txt/x\n+x",
            "E_TOOL_WRONG_FILE_TYPE",
            "b.txt/x",
        ),
    ];
    for (sections, expected, words) in bad {
        let (code, message) = engine
            .err("fs__apply_patch", patch(&format!("{good}{sections}")))
            .await;
        assert!(message.contains(words), "{message}");
        assert_eq!(code, expected, "{message}");
        assert_eq!(
            (engine.read("a.txt"), engine.read("b.txt")),
            ("alpha\n".to_owned(), "beta\n".to_owned())
        );
        assert!(!exists(engine.work().join("new.txt")), "{sections}");
    }
}

/// Creates a project with source files, an ignored file, a hidden file and a binary file.
fn project() -> MockEngine {
    let engine = MockEngine::new();
    engine.write("src/main.rs", "fn main() {\n    hello();\n}\n");
    engine.write("src/lib.rs", "pub fn hello() {}\n");
    engine.write("notes.md", "say Hello\n");
    engine.write("target/out.rs", "fn hello() {}\n");
    engine.write(".hidden.rs", "hello\n");
    engine.write("data.bin", b"\x01hello\0\n");
    engine.write(".gitignore", "target/\n");
    engine
}

#[tokio::test]
async fn grep_finds_lines_in_files_that_are_not_ignored() {
    let engine = project();
    assert_eq!(
        text(&engine, "fs__grep", json!({"pattern": "hello"})).await,
        "data.bin: matches in binary data, not shown\nsrc/lib.rs:1:pub fn hello() {}\nsrc/main.rs:2:    hello();\n"
    );
    assert_eq!(
        text(
            &engine,
            "fs__grep",
            json!({"pattern": "(?i)hello", "include": "*.md"})
        )
        .await,
        "notes.md:1:say Hello\n"
    );
    assert_eq!(
        text(
            &engine,
            "fs__grep",
            json!({"pattern": "hello", "path": "src", "include": "m*.{rs,md}", "context": 1})
        )
        .await,
        "src/main.rs-1-fn main() {\nsrc/main.rs:2:    hello();\nsrc/main.rs-3-}\n"
    );
    assert_eq!(
        text(
            &engine,
            "fs__grep",
            json!({"pattern": "pub", "path": "src/lib.rs"})
        )
        .await,
        "src/lib.rs:1:pub fn hello() {}\n"
    );
    assert_eq!(
        text(&engine, "fs__grep", json!({"pattern": "zebra"})).await,
        "[No matches in `.`.]"
    );
    assert_eq!(
        text(
            &engine,
            "fs__grep",
            json!({"pattern": "hello", "include": "src/*.md"})
        )
        .await,
        "[No matches in `.`.]"
    );
}

#[tokio::test]
async fn grep_limits_matches_and_line_lengths() {
    let engine = MockEngine::new();
    engine.write("many", "match\n".repeat(1000));
    let found = text(
        &engine,
        "fs__grep",
        json!({"pattern": "match", "maxMatches": 3}),
    )
    .await;
    assert!(
        found.starts_with("many:1:match\nmany:2:match\nmany:3:match\n[")
            && found.contains("after 3"),
        "{found}"
    );
    engine.write("ends", "unix end\nwindows end\r\nlast end");
    for pattern in ["end$", "^.* end$", "(end|other)$"] {
        let args = json!({"pattern": pattern, "path": "ends"});
        assert_eq!(
            text(&engine, "fs__grep", args).await,
            "ends:1:unix end\nends:2:windows end\nends:3:last end\n"
        );
    }
    engine.write("wide", format!("{}match\n", "é".repeat(1000)));
    let found = text(
        &engine,
        "fs__grep",
        json!({"pattern": "match", "path": "wide"}),
    )
    .await;
    assert!(
        found.len() < 600 && found.starts_with("wide:1:[cut] ") && found.ends_with("match\n"),
        "{found}"
    );
    engine.write("wide", format!("match{}\n", "é".repeat(1000)));
    let found = text(
        &engine,
        "fs__grep",
        json!({"pattern": "match", "path": "wide"}),
    )
    .await;
    assert!(found.len() < 600 && found.ends_with("[cut]\n"), "{found}");
}

#[tokio::test]
async fn ignore_files_apply_from_the_working_directory_down() {
    let engine = project();
    std::fs::write(engine.dir.path().join(".gitignore"), "*\n").unwrap();
    engine.write("src/gen/target/x.rs", "hello");
    let found = text(
        &engine,
        "fs__grep",
        json!({"pattern": "hello", "path": "src"}),
    )
    .await;
    assert!(
        found.contains("src/lib.rs") && !found.contains("gen/target"),
        "{found}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn ignore_files_that_are_links_or_pipes_are_not_read() {
    let engine = project();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "lib.rs\n").unwrap();
    std::fs::remove_file(engine.work().join(".gitignore")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", engine.work().join(".gitignore")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), engine.work().join(".ignore"))
        .unwrap();
    let pipe = engine.work().join("src/.gitignore");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    let args = json!({"pattern": "src/lib.rs", "path": "."});
    assert_eq!(engine.ok("fs__glob", args).await["count"], 1);
    let args = json!({"pattern": "hello", "path": "src"});
    assert!(text(&engine, "fs__grep", args).await.contains("src/lib.rs"));
}

#[cfg(unix)]
#[tokio::test]
async fn an_absolute_glob_must_stay_inside_the_working_directory() {
    let engine = project();
    let absolute = format!("{}/src/*.rs", engine.work().display());
    for pattern in ["src/../src/*.rs", absolute.as_str()] {
        let args = json!({"pattern": pattern, "path": "."});
        assert_eq!(engine.ok("fs__glob", args).await["count"], 2, "{pattern}");
    }
    let args = json!({"pattern": "/etc/*", "path": "."});
    assert_eq!(engine.err("fs__glob", args).await.0, "E_TOOL_PATH_ESCAPE");
}

#[tokio::test]
async fn glob_lists_the_newest_files_first() {
    let engine = project();
    let now = SystemTime::now();
    for (path, age) in [("src/main.rs", 10), ("src/lib.rs", 5)] {
        let file = std::fs::File::options()
            .write(true)
            .open(engine.work().join(path))
            .unwrap();
        file.set_modified(now - Duration::from_secs(age)).unwrap();
    }
    assert_eq!(
        engine.ok("fs__glob", json!({"pattern": "**/*.rs"})).await,
        json!({"count": 2, "files": ["src/lib.rs", "src/main.rs"], "truncated": false})
    );
    assert_eq!(
        engine
            .ok("fs__glob", json!({"pattern": "*.rs", "path": "src"}))
            .await["count"],
        2
    );
    assert_eq!(
        engine.ok("fs__glob", json!({"pattern": "src/*.md"})).await["files"],
        json!([])
    );
    for n in 0..201 {
        engine.write(&format!("many/{n}.txt"), "");
    }
    let output = engine.ok("fs__glob", json!({"pattern": "*.txt"})).await;
    assert_eq!(
        (&output["count"], &output["truncated"]),
        (&json!(201), &json!(true))
    );
    assert_eq!(output["files"].as_array().unwrap().len(), 200);
}

#[tokio::test]
async fn ls_returns_type_and_size() {
    let engine = project();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc", engine.work().join("etc")).unwrap();
    let output = engine.ok("fs__ls", json!({"path": "."})).await;
    assert_eq!(output["path"], ".");
    let entries = output["entries"].as_array().unwrap();
    assert_eq!(entries[0], json!({"name": "src", "type": "dir"}));
    assert!(entries.contains(&json!({"name": "notes.md", "type": "file", "size": 10})));
    #[cfg(unix)]
    assert!(entries.contains(&json!({"name": "etc", "type": "link"})));
    for n in 0..1001 {
        engine.write(&format!("many/{n}"), "");
    }
    let output = engine.ok("fs__ls", json!({"path": "many"})).await;
    assert_eq!(output["entries"].as_array().unwrap().len(), 1000);
    assert!(output["note"].as_str().unwrap().contains("1000 of 1001"));
}

#[tokio::test]
async fn fs_exports_cannot_leave_the_working_directory() {
    let engine = MockEngine::new();
    std::fs::write(engine.dir.path().join("secret"), "s").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../", engine.work().join("door")).unwrap();
    for path in ["../secret", "door/secret", "/etc/hosts"] {
        for (export, args) in [
            ("read", json!({"path": path})),
            ("write", json!({"path": path, "content": "x"})),
            (
                "edit",
                json!({"path": path, "old_text": "s", "new_text": "x"}),
            ),
            (
                "apply_patch",
                json!({"patch": format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch")}),
            ),
            ("grep", json!({"pattern": "s", "path": path})),
            ("glob", json!({"pattern": "*", "path": path})),
            ("ls", json!({"path": path})),
        ] {
            assert_eq!(
                engine.err(&format!("fs__{export}"), args).await.0,
                "E_TOOL_PATH_ESCAPE",
                "{export} {path}"
            );
        }
    }
    // A search does not follow a link to the outside either.
    assert_eq!(
        text(&engine, "fs__grep", json!({"pattern": "s"})).await,
        "[No matches in `.`.]"
    );
    assert_eq!(
        engine.ok("fs__glob", json!({"pattern": "**"})).await["count"],
        0
    );
    assert_eq!(
        std::fs::read_to_string(engine.dir.path().join("secret")).unwrap(),
        "s"
    );
}

#[tokio::test]
async fn fs_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let bad = [
        ("read", json!({})),
        ("read", json!({"path": "a", "offset": -1})),
        ("read", json!({"path": "a", "limit": 0})),
        ("write", json!({"path": "a"})),
        ("write", json!({"path": "", "content": ""})),
        ("write", with_unknown(json!({"path": "a", "content": ""}))),
        ("edit", json!({"path": "a", "old_text": "", "new_text": ""})),
        ("edit", json!({"path": "a", "old_text": "x"})),
        (
            "edit",
            json!({"path": "a", "old_text": "x", "new_text": ["y"]}),
        ),
        ("edit", json!({"path": "a", "oldText": "x", "new_text": ""})),
        ("apply_patch", json!({})),
        ("apply_patch", json!({"patch": ""})),
        ("apply_patch", json!({"patch": ["*** Begin Patch"]})),
        ("grep", json!({"pattern": "("})),
        ("grep", json!({"pattern": "a", "include": "{"})),
        ("grep", json!({"pattern": "a", "context": 51})),
        ("grep", json!({"pattern": "a", "maxMatches": 0})),
        ("glob", json!({"pattern": "[" })),
        ("glob", json!({})),
        ("glob", with_unknown(json!({"pattern": "*"}))),
        ("ls", json!({})),
        ("ls", json!({"path": 1})),
        ("ls", json!({"path": ""})),
    ];
    for (export, args) in bad {
        let (code, _) = engine.err(&format!("fs__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
    for (export, args) in [
        ("read", json!({"path": "nope"})),
        ("grep", json!({"pattern": "a", "path": "nope"})),
        ("glob", json!({"pattern": "a", "path": "nope"})),
        ("ls", json!({"path": "nope"})),
    ] {
        let (code, message) = engine.err(&format!("fs__{export}"), args).await;
        assert_eq!(code, "E_TOOL_FILE_NOT_FOUND");
        assert!(message.contains("`nope`"), "{message}");
    }
}

/// Returns the preview of a call with the working directory `workdir`.
async fn preview_in(
    engine: &MockEngine,
    workdir: &std::path::Path,
    tool: &str,
    args: Value,
) -> String {
    let (_, handler) = engine.open(tool).await;
    let mut context = engine.context();
    context.workdir = workdir.to_owned();
    let preview = handler.preview(&context, args.as_object().unwrap()).await;
    preview.unwrap()
}

#[tokio::test]
async fn a_preview_treats_a_missing_working_directory_as_empty() {
    let engine = MockEngine::new();
    let missing = engine.work().join("conversations/new");
    let patch = "*** Begin Patch\n*** Add File: a/b.txt\n+hi\n*** End Patch";
    for (tool, args) in [
        ("fs__write", json!({"path": "a/b.txt", "content": "hi\n"})),
        ("fs__apply_patch", json!({"patch": patch})),
    ] {
        let preview = preview_in(&engine, &missing, tool, args).await;
        assert!(
            preview.contains("a/b.txt") && preview.contains("+hi"),
            "{tool}: {preview}"
        );
        assert!(!preview.contains("would fail"), "{tool}: {preview}");
    }
    // These calls fail because the file is missing, not because the directory is missing.
    let patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch";
    let edit = json!({"path": "a.txt", "old_text": "a", "new_text": "b"});
    for (tool, args) in [
        ("fs__edit", edit),
        ("fs__apply_patch", json!({"patch": patch})),
    ] {
        let preview = preview_in(&engine, &missing, tool, args.clone()).await;
        let (_, message) = engine.err(tool, args).await;
        assert_eq!(preview, format!("the call would fail: {message}"), "{tool}");
    }
    let escape = json!({"path": "../outside.txt", "content": "x"});
    let preview = preview_in(&engine, &missing, "fs__write", escape).await;
    assert!(preview.starts_with("the call would fail"), "{preview}");
    assert!(!exists(&missing));
}

/// The engine resolves links in the working directory for the call, but not for its preview.
#[cfg(unix)]
#[tokio::test]
async fn a_preview_follows_a_link_to_the_working_directory() {
    let engine = MockEngine::new();
    engine.write("a.txt", "old\n");
    let link = engine.dir.path().join("link");
    std::os::unix::fs::symlink(engine.work(), &link).unwrap();
    let args = json!({"path": "a.txt", "content": "new\n"});
    let preview = preview_in(&engine, &link, "fs__write", args).await;
    assert!(
        preview.contains("-old") && preview.contains("+new"),
        "{preview}"
    );
}

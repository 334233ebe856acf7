use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::bench::{Bench, exists, with_unknown};

async fn text(bench: &Bench, tool: &str, args: Value) -> String {
    bench.ok(tool, args).await.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn read_numbers_lines() {
    let bench = Bench::new();
    bench.write("t", "\u{FEFF}one\r\ntwo\n\nfour");
    assert_eq!(
        text(&bench, "fs__read", json!({"path": "t"})).await,
        "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n"
    );
    assert_eq!(
        text(
            &bench,
            "fs__read",
            json!({"path": "t", "offset": 1, "limit": 2})
        )
        .await,
        "     2\ttwo\n     3\t\n\n[There are more lines: continue with offset 3.]"
    );
    assert_eq!(
        text(&bench, "fs__read", json!({"path": "t", "offset": 3})).await,
        "     4\tfour\n"
    );
    bench.write("empty", "");
    assert_eq!(
        text(&bench, "fs__read", json!({"path": "empty"})).await,
        "[The file is empty.]"
    );
    let (code, message) = bench
        .err("fs__read", json!({"path": "t", "offset": 9}))
        .await;
    assert_eq!(code, "E_TOOL_INVALID_ARGS");
    assert!(message.contains("4 lines"), "{message}");
}

#[tokio::test]
async fn read_pages_through_a_long_file() {
    let bench = Bench::new();
    bench.write(
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
            &bench,
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
    let page = text(&bench, "fs__read", json!({"path": "long", "limit": 4000})).await;
    assert!(page.contains("\tline 3999 ") && page.contains("offset 4000"));
    bench.write("one-line", "y".repeat(2_000_000));
    let page = text(&bench, "fs__read", json!({"path": "one-line", "limit": 1})).await;
    assert!(
        page.len() < 513 * 1024 && page.contains("1475712 more bytes in this line"),
        "{}",
        &page[page.len() - 80..]
    );
}

#[tokio::test]
async fn read_describes_what_is_no_text_and_attaches_images() {
    let bench = Bench::new();
    bench.write("a.bin", b"\x7fELF\0\0\0");
    assert_eq!(
        text(&bench, "fs__read", json!({"path": "a.bin"})).await,
        "[a.bin is a binary file (application/x-elf, 7 bytes).]"
    );
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    bench.write("i.png", png);
    let output = bench
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
    bench.write("nothing-known", b"\xc3\x28\x01\x02");
    let output = bench.ok("fs__read", json!({"path": "nothing-known"})).await;
    assert_eq!(
        output,
        "[nothing-known is a binary file (application/octet-stream, 4 bytes).]"
    );
}

#[tokio::test]
async fn text_in_other_encodings_is_refused_by_its_name() {
    let bench = Bench::new();
    bench.write("latin", b"caf\xe9\n");
    bench.write("wide", b"\xff\xfec\0a\0f\0\xe9\0");
    bench.write("wide-without-mark", b"c\0a\0f\0e\0");
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
        let before = std::fs::read(bench.work().join(path)).unwrap();
        for (tool, args) in calls {
            let error = bench.call(tool, args).await.unwrap_err();
            assert_eq!(error.code.as_deref(), Some("E_TOOL_ENCODING"), "{error:?}");
            assert!(
                error.message.contains(name) && error.suggestion.unwrap().contains("iconv"),
                "{}",
                error.message
            );
        }
        assert_eq!(std::fs::read(bench.work().join(path)).unwrap(), before);
    }
}

#[tokio::test]
async fn write_makes_and_replaces() {
    let bench = Bench::new();
    assert_eq!(
        bench
            .ok("fs__write", json!({"path": "a/b.txt", "content": "hé"}))
            .await,
        json!({"path": "a/b.txt", "bytes": 3, "created": true})
    );
    assert_eq!(
        bench
            .ok("fs__write", json!({"path": "a/b.txt", "content": ""}))
            .await["created"],
        false
    );
    assert_eq!(bench.read("a/b.txt"), "");
}

#[tokio::test]
async fn edit_shows_what_it_changed() {
    let bench = Bench::new();
    bench.write("a.txt", "one\r\ntwo\r\nthree\r\n");
    let output = bench
        .ok(
            "fs__edit",
            json!({"path": "a.txt", "old_text": "two", "new_text": "2\nzwei"}),
        )
        .await;
    assert_eq!(bench.read("a.txt"), "one\r\n2\r\nzwei\r\nthree\r\n");
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
async fn a_number_to_put_in_is_its_digits() {
    let bench = Bench::new();
    bench.write("a.txt", "port = 80\n");
    bench
        .ok(
            "fs__edit",
            json!({"path": "a.txt", "old_text": "80", "new_text": 8080}),
        )
        .await;
    assert_eq!(bench.read("a.txt"), "port = 8080\n");
}

#[tokio::test]
async fn edit_leaves_the_file_alone_if_it_is_not_sure() {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\ntwo\n");
    let edit = |old: &str| json!({"path": "a.txt", "old_text": old, "new_text": "x"});
    let (code, message) = bench.err("fs__edit", edit("two")).await;
    assert_eq!(code, "E_TOOL_EDIT_AMBIGUOUS");
    assert!(
        message.contains("2 times") && message.contains("lines 2, 3"),
        "{message}"
    );
    assert_eq!(
        bench.err("fs__edit", edit("three")).await.0,
        "E_TOOL_EDIT_NOT_FOUND"
    );
    assert_eq!(
        bench.err("fs__edit", edit("x")).await.0,
        "E_TOOL_INVALID_ARGS"
    );
    assert_eq!(bench.read("a.txt"), "one\ntwo\ntwo\n");
    bench.write("binary", [0xc3, 0x28, 0x01]);
    let (code, _) = bench
        .err(
            "fs__edit",
            json!({"path": "binary", "old_text": "a", "new_text": "b"}),
        )
        .await;
    assert_eq!(code, "E_TOOL_WRONG_FILE_TYPE");
}

#[tokio::test]
async fn a_patch_adds_updates_moves_and_deletes() {
    let bench = Bench::new();
    bench.write("src/a.txt", "alpha\nbeta\ngamma\n");
    bench.write("old.txt", "bye\n");
    bench.write("name.txt", "1\n2\n");
    let patch = "*** Begin Patch\n*** Add File: new/b.txt\n+hello\n*** Update File: src/a.txt\n@@ alpha\n alpha\n-beta\n\
                 +BETA\n gamma\n*** Update File: name.txt\n*** Move to: new/name.txt\n@@\n-2\n+two\n*** Delete File: \
                 old.txt\n*** End Patch\n";
    let output = bench.ok("fs__apply_patch", json!({"patch": patch})).await;
    assert_eq!(
        output,
        json!({"files": [
            {"path": "new/b.txt", "action": "added", "added": 1, "removed": 0},
            {"path": "src/a.txt", "action": "updated", "added": 1, "removed": 1},
            {"path": "name.txt", "action": "moved", "added": 1, "removed": 1, "to": "new/name.txt"},
            {"path": "old.txt", "action": "deleted", "added": 0, "removed": 1},
        ]})
    );
    assert_eq!(bench.read("new/b.txt"), "hello\n");
    assert_eq!(bench.read("src/a.txt"), "alpha\nBETA\ngamma\n");
    assert_eq!(bench.read("new/name.txt"), "1\ntwo\n");
    assert!(!exists(bench.work().join("old.txt")) && !exists(bench.work().join("name.txt")));
}

#[tokio::test]
async fn a_patch_that_does_not_fit_changes_nothing() {
    let bench = Bench::new();
    bench.write("a.txt", "alpha\n");
    bench.write("b.txt", "beta\n");
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
        let (code, message) = bench
            .err("fs__apply_patch", patch(&format!("{good}{sections}")))
            .await;
        assert!(message.contains(words), "{message}");
        assert_eq!(code, expected, "{message}");
        assert_eq!(
            (bench.read("a.txt"), bench.read("b.txt")),
            ("alpha\n".to_owned(), "beta\n".to_owned())
        );
        assert!(!exists(bench.work().join("new.txt")), "{sections}");
    }
}

/// Creates a few files, one of them ignored and one hidden.
fn project() -> Bench {
    let bench = Bench::new();
    bench.write("src/main.rs", "fn main() {\n    hello();\n}\n");
    bench.write("src/lib.rs", "pub fn hello() {}\n");
    bench.write("notes.md", "say Hello\n");
    bench.write("target/out.rs", "fn hello() {}\n");
    bench.write(".hidden.rs", "hello\n");
    bench.write("data.bin", b"\x01hello\0\n");
    bench.write(".gitignore", "target/\n");
    bench
}

#[tokio::test]
async fn grep_finds_lines_of_files_that_count() {
    let bench = project();
    assert_eq!(
        text(&bench, "fs__grep", json!({"pattern": "hello"})).await,
        "data.bin: matches in binary data, not shown\nsrc/lib.rs:1:pub fn hello() {}\nsrc/main.rs:2:    hello();\n"
    );
    assert_eq!(
        text(
            &bench,
            "fs__grep",
            json!({"pattern": "(?i)hello", "include": "*.md"})
        )
        .await,
        "notes.md:1:say Hello\n"
    );
    assert_eq!(
        text(
            &bench,
            "fs__grep",
            json!({"pattern": "hello", "path": "src", "include": "m*.{rs,md}", "context": 1})
        )
        .await,
        "src/main.rs-1-fn main() {\nsrc/main.rs:2:    hello();\nsrc/main.rs-3-}\n"
    );
    assert_eq!(
        text(
            &bench,
            "fs__grep",
            json!({"pattern": "pub", "path": "src/lib.rs"})
        )
        .await,
        "src/lib.rs:1:pub fn hello() {}\n"
    );
    assert_eq!(
        text(&bench, "fs__grep", json!({"pattern": "zebra"})).await,
        "[No matches in `.`.]"
    );
    assert_eq!(
        text(
            &bench,
            "fs__grep",
            json!({"pattern": "hello", "include": "src/*.md"})
        )
        .await,
        "[No matches in `.`.]"
    );
}

#[tokio::test]
async fn grep_stops_at_its_limits() {
    let bench = Bench::new();
    bench.write("many", "match\n".repeat(1000));
    let found = text(
        &bench,
        "fs__grep",
        json!({"pattern": "match", "maxMatches": 3}),
    )
    .await;
    assert!(
        found.starts_with("many:1:match\nmany:2:match\nmany:3:match\n[")
            && found.contains("after 3"),
        "{found}"
    );
    bench.write("ends", "unix end\nwindows end\r\nlast end");
    for pattern in ["end$", "^.* end$", "(end|other)$"] {
        let args = json!({"pattern": pattern, "path": "ends"});
        assert_eq!(
            text(&bench, "fs__grep", args).await,
            "ends:1:unix end\nends:2:windows end\nends:3:last end\n"
        );
    }
    bench.write("wide", format!("{}match\n", "é".repeat(1000)));
    let found = text(
        &bench,
        "fs__grep",
        json!({"pattern": "match", "path": "wide"}),
    )
    .await;
    assert!(
        found.len() < 600 && found.starts_with("wide:1:[cut] ") && found.ends_with("match\n"),
        "{found}"
    );
    bench.write("wide", format!("match{}\n", "é".repeat(1000)));
    let found = text(
        &bench,
        "fs__grep",
        json!({"pattern": "match", "path": "wide"}),
    )
    .await;
    assert!(found.len() < 600 && found.ends_with("[cut]\n"), "{found}");
}

#[tokio::test]
async fn ignore_files_count_from_the_working_directory_on() {
    let bench = project();
    std::fs::write(bench.dir.path().join(".gitignore"), "*\n").unwrap();
    bench.write("src/gen/target/x.rs", "hello");
    let found = text(
        &bench,
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
async fn ignore_files_that_lead_elsewhere_or_never_end_are_not_read() {
    let bench = project();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "lib.rs\n").unwrap();
    std::fs::remove_file(bench.work().join(".gitignore")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", bench.work().join(".gitignore")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), bench.work().join(".ignore"))
        .unwrap();
    let pipe = bench.work().join("src/.gitignore");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    let args = json!({"pattern": "src/lib.rs", "path": "."});
    assert_eq!(bench.ok("fs__glob", args).await["count"], 1);
    let args = json!({"pattern": "hello", "path": "src"});
    assert!(text(&bench, "fs__grep", args).await.contains("src/lib.rs"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_glob_may_be_absolute_but_stays_inside() {
    let bench = project();
    let absolute = format!("{}/src/*.rs", bench.work().display());
    for pattern in ["src/../src/*.rs", absolute.as_str()] {
        let args = json!({"pattern": pattern, "path": "."});
        assert_eq!(bench.ok("fs__glob", args).await["count"], 2, "{pattern}");
    }
    let args = json!({"pattern": "/etc/*", "path": "."});
    assert_eq!(bench.err("fs__glob", args).await.0, "E_TOOL_PATH_ESCAPE");
}

#[tokio::test]
async fn glob_names_the_newest_files_first() {
    let bench = project();
    let now = SystemTime::now();
    for (path, age) in [("src/main.rs", 10), ("src/lib.rs", 5)] {
        let file = std::fs::File::options()
            .write(true)
            .open(bench.work().join(path))
            .unwrap();
        file.set_modified(now - Duration::from_secs(age)).unwrap();
    }
    assert_eq!(
        bench.ok("fs__glob", json!({"pattern": "**/*.rs"})).await,
        json!({"count": 2, "files": ["src/lib.rs", "src/main.rs"], "truncated": false})
    );
    assert_eq!(
        bench
            .ok("fs__glob", json!({"pattern": "*.rs", "path": "src"}))
            .await["count"],
        2
    );
    assert_eq!(
        bench.ok("fs__glob", json!({"pattern": "src/*.md"})).await["files"],
        json!([])
    );
    for n in 0..201 {
        bench.write(&format!("many/{n}.txt"), "");
    }
    let output = bench.ok("fs__glob", json!({"pattern": "*.txt"})).await;
    assert_eq!(
        (&output["count"], &output["truncated"]),
        (&json!(201), &json!(true))
    );
    assert_eq!(output["files"].as_array().unwrap().len(), 200);
}

#[tokio::test]
async fn ls_tells_type_and_size() {
    let bench = project();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc", bench.work().join("etc")).unwrap();
    let output = bench.ok("fs__ls", json!({"path": "."})).await;
    assert_eq!(output["path"], ".");
    let entries = output["entries"].as_array().unwrap();
    assert_eq!(entries[0], json!({"name": "src", "type": "dir"}));
    assert!(entries.contains(&json!({"name": "notes.md", "type": "file", "size": 10})));
    #[cfg(unix)]
    assert!(entries.contains(&json!({"name": "etc", "type": "link"})));
    for n in 0..1001 {
        bench.write(&format!("many/{n}"), "");
    }
    let output = bench.ok("fs__ls", json!({"path": "many"})).await;
    assert_eq!(output["entries"].as_array().unwrap().len(), 1000);
    assert!(output["note"].as_str().unwrap().contains("1000 of 1001"));
}

#[tokio::test]
async fn nothing_reaches_outside_the_working_directory() {
    let bench = Bench::new();
    std::fs::write(bench.dir.path().join("secret"), "s").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../", bench.work().join("door")).unwrap();
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
                bench.err(&format!("fs__{export}"), args).await.0,
                "E_TOOL_PATH_ESCAPE",
                "{export} {path}"
            );
        }
    }
    // A search does not follow a link to the outside either.
    assert_eq!(
        text(&bench, "fs__grep", json!({"pattern": "s"})).await,
        "[No matches in `.`.]"
    );
    assert_eq!(
        bench.ok("fs__glob", json!({"pattern": "**"})).await["count"],
        0
    );
    assert_eq!(
        std::fs::read_to_string(bench.dir.path().join("secret")).unwrap(),
        "s"
    );
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let bench = Bench::new();
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
        let (code, _) = bench.err(&format!("fs__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
    for (export, args) in [
        ("read", json!({"path": "nope"})),
        ("grep", json!({"pattern": "a", "path": "nope"})),
        ("glob", json!({"pattern": "a", "path": "nope"})),
        ("ls", json!({"path": "nope"})),
    ] {
        let (code, message) = bench.err(&format!("fs__{export}"), args).await;
        assert_eq!(code, "E_TOOL_FILE_NOT_FOUND");
        assert!(message.contains("`nope`"), "{message}");
    }
}

/// Returns the preview of a call with the working directory `workdir`.
async fn preview_in(bench: &Bench, workdir: &std::path::Path, tool: &str, args: Value) -> String {
    let (_, handler) = bench.open(tool).await;
    let mut context = bench.context();
    context.workdir = workdir.to_owned();
    let preview = handler.preview(&context, args.as_object().unwrap()).await;
    preview.unwrap()
}

#[tokio::test]
async fn a_preview_treats_a_missing_working_directory_as_empty() {
    let bench = Bench::new();
    let missing = bench.work().join("conversations/new");
    let patch = "*** Begin Patch\n*** Add File: a/b.txt\n+hi\n*** End Patch";
    for (tool, args) in [
        ("fs__write", json!({"path": "a/b.txt", "content": "hi\n"})),
        ("fs__apply_patch", json!({"patch": patch})),
    ] {
        let preview = preview_in(&bench, &missing, tool, args).await;
        assert!(
            preview.contains("a/b.txt") && preview.contains("+hi"),
            "{tool}: {preview}"
        );
        assert!(!preview.contains("would fail"), "{tool}: {preview}");
    }
    // These calls fail, because of the file and not because of the directory.
    let patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch";
    let edit = json!({"path": "a.txt", "old_text": "a", "new_text": "b"});
    for (tool, args) in [
        ("fs__edit", edit),
        ("fs__apply_patch", json!({"patch": patch})),
    ] {
        let preview = preview_in(&bench, &missing, tool, args.clone()).await;
        let (_, message) = bench.err(tool, args).await;
        assert_eq!(preview, format!("the call would fail: {message}"), "{tool}");
    }
    let escape = json!({"path": "../outside.txt", "content": "x"});
    let preview = preview_in(&bench, &missing, "fs__write", escape).await;
    assert!(preview.starts_with("the call would fail"), "{preview}");
    assert!(!exists(&missing));
}

/// The engine resolves links in the working directory for the call, but not for its preview.
#[cfg(unix)]
#[tokio::test]
async fn a_preview_follows_a_link_to_the_working_directory() {
    let bench = Bench::new();
    bench.write("a.txt", "old\n");
    let link = bench.dir.path().join("link");
    std::os::unix::fs::symlink(bench.work(), &link).unwrap();
    let args = json!({"path": "a.txt", "content": "new\n"});
    let preview = preview_in(&bench, &link, "fs__write", args).await;
    assert!(
        preview.contains("-old") && preview.contains("+new"),
        "{preview}"
    );
}

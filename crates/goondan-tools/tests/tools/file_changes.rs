//! Calls that change the same files at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolHandler, ToolOutput};
use goondan_spec::kinds::Permission;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::mock_engine::{MockEngine, exists, object};

/// A change of one file by a tool call.
#[derive(Debug, Clone)]
enum FileChange {
    Edit(usize, &'static str, &'static str),
    PatchLine(usize, &'static str, &'static str),
    Write(usize, &'static str),
    Append(usize, &'static str),
    Move(usize, usize),
    Delete(usize),
}

const NAMES: [&str; 3] = ["a.txt", "b.txt", "c.txt"];

type Files = BTreeMap<&'static str, String>;

impl FileChange {
    /// Returns the tool and the arguments of the call.
    fn call(&self) -> (&'static str, Value) {
        let patch =
            |body: String| json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch")});
        match self {
            FileChange::Edit(file, old, new) => (
                "fs__edit",
                json!({"path": NAMES[*file], "old_text": old, "new_text": new}),
            ),
            FileChange::PatchLine(file, old, new) => (
                "fs__apply_patch",
                patch(format!(
                    "*** Update File: {}\n@@\n-{old}\n+{new}",
                    NAMES[*file]
                )),
            ),
            FileChange::Write(file, content) => (
                "fs__write",
                json!({"path": NAMES[*file], "content": content}),
            ),
            FileChange::Append(file, content) => (
                "file-system__write",
                json!({"path": NAMES[*file], "content": content, "append": true}),
            ),
            FileChange::Move(from, to) => (
                "fs__apply_patch",
                patch(format!(
                    "*** Update File: {}\n*** Move to: {}",
                    NAMES[*from], NAMES[*to]
                )),
            ),
            FileChange::Delete(file) => (
                "fs__apply_patch",
                patch(format!("*** Delete File: {}", NAMES[*file])),
            ),
        }
    }

    /// Applies the change to a model of the files. Returns true if the call succeeds.
    fn apply(&self, files: &mut Files) -> bool {
        match self {
            FileChange::Edit(file, old, new) | FileChange::PatchLine(file, old, new) => {
                let Some(text) = files.get_mut(NAMES[*file]) else {
                    return false;
                };
                let matches = text.lines().filter(|line| line == old).count() == 1;
                if matches {
                    let lines = text
                        .lines()
                        .map(|line| if line == *old { new } else { line });
                    *text = lines.map(|line| format!("{line}\n")).collect();
                }
                matches
            }
            FileChange::Write(file, content) => {
                files.insert(NAMES[*file], (*content).to_owned());
                true
            }
            FileChange::Append(file, content) => {
                files.entry(NAMES[*file]).or_default().push_str(content);
                true
            }
            FileChange::Move(from, to) => {
                if files.contains_key(NAMES[*to]) {
                    return false;
                }
                match files.remove(NAMES[*from]) {
                    Some(text) => files.insert(NAMES[*to], text).is_none(),
                    None => false,
                }
            }
            FileChange::Delete(file) => files.remove(NAMES[*file]).is_some(),
        }
    }
}

/// Returns true if some order of the changes gives these results and these files.
fn is_serializable(
    start: &Files,
    changes: &[(FileChange, bool)],
    end: &Files,
    done: &mut Vec<usize>,
) -> bool {
    if done.len() == changes.len() {
        return start == end;
    }
    (0..changes.len()).any(|index| {
        if done.contains(&index) {
            return false;
        }
        let mut files = start.clone();
        if changes[index].0.apply(&mut files) != changes[index].1 {
            return false;
        }
        done.push(index);
        let found = is_serializable(&files, changes, end, done);
        done.pop();
        found
    })
}

fn change() -> impl Strategy<Value = FileChange> {
    // No old text is part of another line.
    let line = || prop::sample::select(vec!["one", "two", "three"]);
    let text = || prop::sample::select(vec!["four\n", "one\ntwo\n", "five\nthree\n"]);
    let file = || 0..NAMES.len();
    prop_oneof![
        3 => (file(), line(), prop::sample::select(vec!["six", "seven"]))
            .prop_map(|(file, old, new)| FileChange::Edit(file, old, new)),
        3 => (file(), line(), prop::sample::select(vec!["eight", "nine"]))
            .prop_map(|(file, old, new)| FileChange::PatchLine(file, old, new)),
        2 => (file(), text()).prop_map(|(file, text)| FileChange::Write(file, text)),
        2 => (file(), text()).prop_map(|(file, text)| FileChange::Append(file, text)),
        1 => (file(), file()).prop_map(|(from, to)| FileChange::Move(from, to)),
        1 => file().prop_map(FileChange::Delete),
    ]
}

/// Runs all calls at the same time, each in its own conversation.
async fn run_at_once(
    engine: &MockEngine,
    calls: Vec<(&str, Value)>,
) -> Vec<Result<ToolOutput, HandlerError>> {
    let mut running = Vec::new();
    for (index, (tool, args)) in calls.into_iter().enumerate() {
        let (_, handler) = engine.open(tool).await;
        let context = conversation(engine, &format!("key-{index}"));
        running.push(tokio::spawn(async move {
            let handler: Arc<dyn ToolHandler> = handler;
            handler.call(&context, object(args)).await
        }));
    }
    let results = join_all(running).await;
    results.into_iter().map(Result::unwrap).collect()
}

fn conversation(engine: &MockEngine, key: &str) -> ToolContext {
    ToolContext {
        instance_key: key.to_owned(),
        granted: [Permission::Read, Permission::Write].into(),
        ..engine.context()
    }
}

fn files_of(engine: &MockEngine) -> Files {
    let present = NAMES
        .into_iter()
        .filter(|name| exists(engine.work().join(name)));
    present.map(|name| (name, engine.read(name))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every set of concurrent calls has the effect of some serial order of the calls.
    #[test]
    fn concurrent_changes_are_serializable(
        changes in prop::collection::vec(change(), 2..=6),
        present in prop::collection::vec(any::<bool>(), NAMES.len()),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let engine = MockEngine::new();
        let mut start = Files::new();
        for (name, _) in NAMES.into_iter().zip(present).filter(|(_, present)| *present) {
            engine.write(name, "one\ntwo\nthree\n");
            start.insert(name, "one\ntwo\nthree\n".to_owned());
        }
        let calls = changes.iter().map(FileChange::call).collect();
        let results = runtime.block_on(run_at_once(&engine, calls));
        let outcomes: Vec<(FileChange, bool)> =
            changes.into_iter().zip(results.iter().map(Result::is_ok)).collect();
        let end = files_of(&engine);
        prop_assert!(
            is_serializable(&start, &outcomes, &end, &mut Vec::new()),
            "{:?} gives {:?} and {:?}", outcomes, end, results
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_edits_through_different_paths_are_not_lost() {
    for _ in 0..20 {
        let engine = MockEngine::new();
        let lines: String = (0..8).map(|index| format!("line{index}.\n")).collect();
        engine.write("sub/a.txt", &lines);
        let names = ["sub/a.txt", "./sub/a.txt", "sub/../sub/a.txt", "link"];
        #[cfg(unix)]
        std::os::unix::fs::symlink("sub/a.txt", engine.work().join("link")).unwrap();
        #[cfg(not(unix))]
        let names = &names[..3];
        let calls = (0..8).map(|index| {
            let args = json!({
                "path": names[index % names.len()],
                "old_text": format!("line{index}."),
                "new_text": format!("LINE{index}."),
            });
            ("fs__edit", args)
        });
        let results = run_at_once(&engine, calls.collect()).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!(engine.read("sub/a.txt"), lines.to_uppercase());
    }
}

/// Calls a tool in a conversation.
async fn call_in(
    engine: &MockEngine,
    key: &str,
    tool: &str,
    args: Value,
) -> Result<ToolOutput, HandlerError> {
    let (_, handler) = engine.open(tool).await;
    handler.call(&conversation(engine, key), object(args)).await
}

/// Creates a file with `one`, reads it as `reader`, and changes it to `two` as `writer`.
async fn change_after_read(engine: &MockEngine) {
    engine.write("notes.md", "one\n");
    let read = json!({"path": "notes.md"});
    call_in(engine, "reader", "file-system__read", read)
        .await
        .unwrap();
    let write = json!({"path": "notes.md", "content": "two\n"});
    call_in(engine, "writer", "file-system__write", write)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_write_after_a_change_by_another_conversation_is_rejected_once() {
    let engine = MockEngine::new();
    engine.write("notes.md", "one\ntwo\n");
    let read = json!({"path": "notes.md", "offset": 0});
    call_in(&engine, "reader", "fs__read", read).await.unwrap();
    let edit = json!({"path": "notes.md", "old_text": "two", "new_text": "zwei"});
    call_in(&engine, "writer", "fs__edit", edit).await.unwrap();
    let own = json!({"path": "notes.md", "content": "one\ntwo\nthree\n"});
    let error = call_in(&engine, "reader", "fs__write", own.clone())
        .await
        .unwrap_err();
    assert_eq!(error.code.as_deref(), Some("E_TOOL_STALE"));
    assert!(
        error.message.contains("conversation `writer`")
            && error.message.contains("-two\n+zwei")
            && error.message.ends_with("Nothing was changed"),
        "{error}"
    );
    assert_eq!(engine.read("notes.md"), "one\nzwei\n");
    // The error showed the change, so the repeated call may write.
    call_in(&engine, "reader", "fs__write", own).await.unwrap();
    assert_eq!(engine.read("notes.md"), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn own_changes_and_unread_files_are_not_stale() {
    let engine = MockEngine::new();
    engine.write("notes.md", "one\n");
    let write = |content: &str| json!({"path": "notes.md", "content": content});
    for key in ["first", "second"] {
        call_in(&engine, key, "fs__write", write(key))
            .await
            .unwrap();
    }
    let error = call_in(&engine, "first", "fs__write", write("x")).await;
    assert_eq!(error.unwrap_err().code.as_deref(), Some("E_TOOL_STALE"));
    call_in(&engine, "second", "fs__write", write("y"))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_stale_write_policy_can_warn_or_allow() {
    for (policy, has_warning) in [("warn", true), ("allow", false)] {
        let engine = MockEngine::new().config(json!({"staleWrites": policy}));
        engine.write("notes.md", "one\n");
        let read = json!({"path": "notes.md", "offset": 0});
        call_in(&engine, "reader", "fs__read", read).await.unwrap();
        let write = |content: &str| json!({"path": "notes.md", "content": content});
        call_in(&engine, "writer", "fs__write", write("two\n"))
            .await
            .unwrap();
        let patch = "*** Begin Patch\n*** Update File: notes.md\n@@\n-two\n+2\n*** End Patch";
        let done = call_in(
            &engine,
            "reader",
            "fs__apply_patch",
            json!({"patch": patch}),
        )
        .await
        .unwrap();
        assert_eq!(done.output["warning"].is_string(), has_warning, "{done:?}");
        assert_eq!(engine.read("notes.md"), "2\n");
    }
}

#[tokio::test]
async fn an_append_warns_about_a_change_by_another_conversation() {
    let engine = MockEngine::new();
    change_after_read(&engine).await;
    let append = json!({"path": "notes.md", "content": "three\n", "append": true});
    let done = call_in(&engine, "reader", "file-system__write", append)
        .await
        .unwrap();
    let warning = done.output["warning"].as_str().unwrap_or_default();
    assert!(warning.contains("-one\n+two"), "{done:?}");
    assert_eq!(engine.read("notes.md"), "two\nthree\n");
}

#[tokio::test]
async fn an_append_to_a_binary_file_does_not_clear_the_stale_state() {
    let engine = MockEngine::new();
    change_after_read(&engine).await;
    engine.write("notes.md", b"\xff\x01");
    let append = json!({"path": "notes.md", "content": "x", "append": true});
    call_in(&engine, "reader", "file-system__write", append)
        .await
        .unwrap();
    engine.write("notes.md", "two\n");
    let write = json!({"path": "notes.md", "content": "three\n"});
    let error = call_in(&engine, "reader", "fs__write", write).await;
    assert_eq!(error.unwrap_err().code.as_deref(), Some("E_TOOL_STALE"));
}

/// Another program repeatedly replaces the file while a conversation reads it. The next write of
/// the conversation is rejected only if the read returned the old contents.
#[tokio::test]
async fn the_stale_write_guard_compares_the_contents_that_were_read() {
    use std::sync::atomic::{AtomicBool, Ordering};
    for tool in ["fs__read", "file-system__read"]
        .into_iter()
        .cycle()
        .take(60)
    {
        let engine = MockEngine::new();
        let write = |content: &str| json!({"path": "notes.md", "content": content});
        call_in(&engine, "writer", "fs__write", write("new\n"))
            .await
            .unwrap();
        let (draft, file) = (engine.work().join("draft"), engine.work().join("notes.md"));
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let replacing = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for content in ["old\n", "new\n"] {
                    std::fs::write(&draft, content).unwrap();
                    std::fs::rename(&draft, &file).unwrap();
                }
            }
        });
        let read = json!({"path": "notes.md"});
        let read = call_in(&engine, "reader", tool, read).await;
        is_over.store(true, Ordering::Relaxed);
        replacing.join().unwrap();
        let got_old = read.unwrap().output.to_string().contains("old");
        let written = call_in(&engine, "reader", "fs__write", write("mine\n")).await;
        assert_eq!(written.is_err(), got_old, "{tool}: {written:?}");
    }
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[tokio::test]
    async fn deleting_a_link_keeps_its_target() {
        let engine = MockEngine::new();
        engine.write("real/x.txt", "keep\n");
        let links = [
            ("l.txt", "real/x.txt"),
            ("dangling", "nowhere"),
            ("out", "/etc/passwd"),
        ];
        for (name, target) in links {
            symlink(target, engine.work().join(name)).unwrap();
            let patch = format!("*** Begin Patch\n*** Delete File: {name}\n*** End Patch");
            engine.ok("fs__apply_patch", json!({"patch": patch})).await;
            assert!(!exists(engine.work().join(name)), "{name}");
        }
        assert_eq!(engine.read("real/x.txt"), "keep\n");
    }

    #[tokio::test]
    async fn a_failed_patch_restores_a_deleted_link() {
        let engine = MockEngine::new();
        engine.write("real.txt", "keep\n");
        engine.write("file", "in the way");
        symlink("real.txt", engine.work().join("link")).unwrap();
        let patch =
            "*** Begin Patch\n*** Delete File: link\n*** Add File: file/new\n+x\n*** End Patch";
        engine.err("fs__apply_patch", json!({"patch": patch})).await;
        assert_eq!(
            engine.work().join("link").read_link().unwrap().to_str(),
            Some("real.txt")
        );
    }

    #[tokio::test]
    async fn moving_a_symbolic_link_is_rejected() {
        let engine = MockEngine::new();
        engine.write("real.txt", "keep\n");
        symlink("real.txt", engine.work().join("link")).unwrap();
        let patch = "*** Begin Patch\n*** Update File: link\n*** Move to: new\n*** End Patch";
        let (code, message) = engine.err("fs__apply_patch", json!({"patch": patch})).await;
        assert_eq!(code, "E_TOOL_PATCH");
        assert!(message.contains("symbolic link"), "{message}");
        assert_eq!(engine.read("real.txt"), "keep\n");
    }

    #[tokio::test]
    async fn edits_preserve_hard_links() {
        let engine = MockEngine::new();
        engine.write("one", "hello\nworld\n");
        std::fs::hard_link(engine.work().join("one"), engine.work().join("two")).unwrap();
        let edit = json!({"path": "one", "old_text": "world", "new_text": "there, everyone"});
        engine.ok("fs__edit", edit).await;
        assert_eq!(engine.read("two"), "hello\nthere, everyone\n");
        let write = json!({"path": "two", "content": "x\n"});
        engine.ok("fs__write", write).await;
        assert_eq!(engine.read("one"), "x\n");
        assert_eq!(
            std::fs::metadata(engine.work().join("one"))
                .unwrap()
                .nlink(),
            2
        );
    }

    #[tokio::test]
    async fn non_utf8_names_are_shown_with_replacement_characters() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;
        let engine = MockEngine::new();
        let folder = engine.work().join(OsStr::from_bytes(b"bad\xff"));
        if std::fs::create_dir(&folder).is_err() {
            eprintln!("skipped: the file system accepts only UTF-8 names");
            return;
        }
        std::fs::write(folder.join(OsStr::from_bytes(b"x\xff.txt")), "one\n").unwrap();
        std::fs::write(folder.join("y.txt"), "one\n").unwrap();
        symlink(&folder, engine.work().join("link")).unwrap();
        let calls = [
            ("fs__glob", json!({"pattern": "*.txt", "path": "."})),
            ("fs__ls", json!({"path": "link"})),
            (
                "fs__edit",
                json!({"path": "link/y.txt", "old_text": "one", "new_text": "two"}),
            ),
            ("fs__write", json!({"path": "link/z.txt", "content": "x"})),
            (
                "fs__apply_patch",
                json!({"patch":
                "*** Begin Patch\n*** Update File: link/y.txt\n@@\n-two\n+three\n*** End Patch"}),
            ),
            ("file-system__list", json!({"path": ".", "recursive": true})),
            ("file-system__read", json!({"path": "link/y.txt"})),
            (
                "file-system__write",
                json!({"path": "link/w.txt", "content": "x"}),
            ),
            ("file-system__mkdir", json!({"path": "link/sub"})),
        ];
        for (tool, args) in calls {
            let output = engine.ok(tool, args).await;
            assert!(
                output.to_string().contains("bad\u{FFFD}"),
                "{tool}: {output}"
            );
        }
    }
}

//! Tests of the editor: access outside of the project, and changes by other programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use goondan::StateRoot;

use super::*;

const PROJECT: &str = "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {default: {text: hi}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, prompt: {systemRef: prompts/a.md}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

/// Creates a project in the directory `p`, next to a file that does not belong to the project.
fn project() -> (tempfile::TempDir, DirectoryEditor) {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let root = dir.path().join("p");
    fs::create_dir_all(root.join("prompts")).expect("a new directory");
    for (path, text) in [
        ("p/goondan.yaml", PROJECT),
        ("p/prompts/a.md", "You are kind.\n"),
        ("p/AGENTS.md", "Be brief.\n"),
        ("p/a.case.yaml", "case: one\nproject: .\nsteps: []\n"),
        ("p/notes.md", "private\n"),
        ("p/.env", "KEY=secret\n"),
        ("outside.md", "outside\n"),
    ] {
        fs::write(dir.path().join(path), text).expect("a writable file");
    }
    let trust = TrustSettings::new(&StateRoot(dir.path().join("state")), false);
    let editor = DirectoryEditor::new(&root, trust).expect("an editor of the directory");
    (dir, editor)
}

fn edit(path: &str, text: &str, hash: &str) -> EditedFileBody {
    EditedFileBody {
        path: path.to_owned(),
        text: text.to_owned(),
        hash: hash.to_owned(),
    }
}

#[test]
fn only_text_files_that_the_project_loads_can_be_edited() {
    let (dir, editor) = project();
    let root = dir.path().join("p");
    symlink(
        dir.path().join("outside.md"),
        root.join("prompts/AGENTS.md"),
    )
    .unwrap();
    symlink(dir.path(), root.join("above")).unwrap();
    let paths: Vec<String> = editor.editable_files().into_keys().collect();
    assert_eq!(
        paths,
        ["AGENTS.md", "a.case.yaml", "goondan.yaml", "prompts/a.md"]
    );
    for path in [
        "notes.md",
        ".env",
        "../outside.md",
        "prompts/../goondan.yaml",
        "above/outside.md",
        "prompts/AGENTS.md",
        "prompts",
        "",
        "/etc/passwd",
    ] {
        let refused = editor.text(path).unwrap_err();
        assert_eq!(refused.code, Code::SERVE_NOT_FOUND, "{path}");
        let refused = editor.save_file(&edit(path, "x", "")).unwrap_err();
        assert_eq!(refused.code, Code::SERVE_NOT_FOUND, "{path}");
    }
}

#[test]
fn a_file_replaced_by_a_link_is_not_written() {
    let (dir, editor) = project();
    let prompt = dir.path().join("p/prompts/a.md");
    let hash = editor.text("prompts/a.md").unwrap().hash;
    fs::remove_file(&prompt).unwrap();
    symlink(dir.path().join("outside.md"), &prompt).unwrap();
    assert!(editor.save_file(&edit("prompts/a.md", "x", &hash)).is_err());
    let outside = fs::read_to_string(dir.path().join("outside.md")).unwrap();
    assert_eq!(outside, "outside\n");
}

#[test]
fn a_file_is_saved_only_if_unchanged_since_it_was_opened() {
    let (dir, editor) = project();
    let prompt = dir.path().join("p/prompts/a.md");
    fs::set_permissions(&prompt, fs::Permissions::from_mode(0o640)).unwrap();
    let opened = editor.text("prompts/a.md").unwrap();
    let saved = editor
        .save_file(&edit("prompts/a.md", "You are calm.\n", &opened.hash))
        .unwrap();
    assert_eq!(fs::read_to_string(&prompt).unwrap(), "You are calm.\n");
    let mode = fs::metadata(&prompt).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let refused = editor
        .save_file(&edit("prompts/a.md", "You are rude.\n", &opened.hash))
        .unwrap_err();
    assert_eq!(refused.code, Code::SERVE_FILE_CHANGED);
    assert_eq!(fs::read_to_string(&prompt).unwrap(), "You are calm.\n");
    assert_eq!(editor.text("prompts/a.md").unwrap().hash, saved.hash);
}

#[test]
fn an_edit_is_checked_without_saving_it() {
    let (dir, editor) = project();
    let text = PROJECT.replace("Model/m}", "Model/gone}");
    let checked = editor.check_file(&edit("goondan.yaml", &text, "")).unwrap();
    let error = &checked.findings[0];
    assert_eq!(
        (error.severity.as_str(), error.file.as_deref(), error.line),
        ("error", Some("goondan.yaml"), Some(9))
    );
    assert!(
        checked
            .diff
            .contains("+spec: {modelConfig: {modelRef: Model/gone}")
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("p/goondan.yaml")).unwrap(),
        PROJECT
    );
    let case = editor
        .check_file(&edit("a.case.yaml", "case: one\nsteps: 1\n", ""))
        .unwrap();
    assert_eq!(case.findings[0].file.as_deref(), Some("a.case.yaml"));
    let same = editor
        .check_file(&edit("goondan.yaml", PROJECT, ""))
        .unwrap();
    assert_eq!((same.findings, same.diff.as_str()), (Vec::new(), ""));
}

#[test]
fn a_new_test_case_is_created_only_inside_the_project() {
    let (dir, editor) = project();
    let root = dir.path().join("p");
    symlink(dir.path(), root.join("above")).unwrap();
    symlink(dir.path().join("x"), root.join("link.case.yaml")).unwrap();
    let text = "case: two\nproject: .\nsteps: []\n";
    for path in [
        "new.md",
        ".case.yaml",
        "../out.case.yaml",
        "prompts/../x.case.yaml",
        "above/out.case.yaml",
        "link.case.yaml",
        "gone/x.case.yaml",
        ".goondan/x.case.yaml",
        "/tmp/x.case.yaml",
    ] {
        let refused = editor.save_file(&edit(path, text, "")).unwrap_err();
        assert_eq!(refused.code, Code::SERVE_NOT_FOUND, "{path}");
        let refused = editor.check_file(&edit(path, text, "")).unwrap_err();
        assert_eq!(refused.code, Code::SERVE_NOT_FOUND, "{path}");
    }
    let new = "prompts/two.case.yaml";
    assert!(editor.text(new).is_err());
    let checked = editor.check_file(&edit(new, text, "")).unwrap();
    assert_eq!((checked.hash.as_str(), checked.findings), ("", Vec::new()));
    assert!(checked.diff.contains("+case: two"), "{}", checked.diff);
    assert!(!root.join(new).exists());
    let refused = editor.save_file(&edit(new, text, "other")).unwrap_err();
    assert_eq!(refused.code, Code::SERVE_NOT_FOUND);
    let saved = editor.save_file(&edit(new, text, "")).unwrap();
    assert_eq!(fs::read_to_string(root.join(new)).unwrap(), text);
    assert_eq!(editor.text(new).unwrap().hash, saved.hash);
    let refused = editor
        .save_file(&edit(new, "case: three\n", ""))
        .unwrap_err();
    assert_eq!(refused.code, Code::SERVE_FILE_CHANGED);
    assert_eq!(fs::read_to_string(root.join(new)).unwrap(), text);
}

#[test]
fn an_invalid_project_file_can_be_edited() {
    let (dir, editor) = project();
    fs::write(dir.path().join("p/goondan.yaml"), "kind: [").unwrap();
    assert!(editor.editable_files().contains_key("goondan.yaml"));
}

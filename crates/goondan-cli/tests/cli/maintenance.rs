//! `gdn doctor --deep`, `gdn backup`, `gdn restore`, and a workspace without its log.

use std::path::PathBuf;

use serde_json::Value;

use crate::projects::{ECHO, scripted};
use crate::sandbox::Sandbox;

/// Creates a project with a conversation.
fn with_conversation() -> Sandbox {
    let sandbox = scripted(ECHO);
    sandbox.gdn(&["run", "p", "--input", "first"]).ok();
    sandbox
}

/// Returns the directory of the only workspace.
fn workspace(sandbox: &Sandbox) -> PathBuf {
    let mut found = std::fs::read_dir(sandbox.state().join("workspaces")).unwrap();
    found.next().unwrap().unwrap().path()
}

fn base(sandbox: &Sandbox) -> PathBuf {
    let mut found = std::fs::read_dir(workspace(sandbox).join("instances")).unwrap();
    found
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("messages/base.jsonl")
}

fn input_count(sandbox: &Sandbox) -> usize {
    let text = std::fs::read_to_string(base(sandbox)).unwrap();
    text.matches("\"role\":\"user\"").count()
}

#[test]
fn a_deep_check_finds_damage_and_copies_intact_records() {
    let sandbox = with_conversation();
    let intact = sandbox.gdn(&["doctor", "p", "--deep"]);
    assert!(
        intact.ok().contains("is intact (1 conversation, "),
        "{}",
        intact.stdout
    );
    let text = std::fs::read_to_string(base(&sandbox)).unwrap();
    let changed = text.replacen("\"role\":\"user\"", "\"role\":\"uses\"", 1);
    std::fs::write(base(&sandbox), &changed).unwrap();

    let found = sandbox.gdn(&["doctor", "p", "--deep", "--json"]);
    assert_eq!(found.code, 1);
    let checks: Vec<Value> = serde_json::from_str(&found.stdout).unwrap();
    let files = checks
        .iter()
        .find(|check| check["name"] == "files")
        .unwrap();
    assert_eq!(files["status"], "fail");
    let problem = files["problems"][0].as_str().unwrap();
    assert!(
        problem.contains("base.jsonl:2: skipped a line that was changed"),
        "{problem}"
    );

    let saved = sandbox.gdn(&["doctor", "p", "--deep", "--repair", "copies"]);
    assert_eq!(saved.code, 1);
    assert!(saved.stdout.contains("not saved:"), "{}", saved.stdout);
    assert_eq!(std::fs::read_to_string(base(&sandbox)).unwrap(), changed);
    let id = workspace(&sandbox)
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    std::fs::rename(workspace(&sandbox), sandbox.dir().join("damaged")).unwrap();
    sandbox.gdn(&["restore", &format!("copies/{id}")]).ok();
    sandbox.gdn(&["doctor", "p", "--deep"]).ok();
    sandbox.gdn(&["run", "p", "--input", "second"]).ok();
}

#[test]
fn a_repair_without_losses_reports_no_unsaved_records() {
    let sandbox = with_conversation();
    let instances = workspace(&sandbox).join("instances");
    let mut found = std::fs::read_dir(&instances).unwrap();
    let conversation = found.next().unwrap().unwrap().path();
    std::fs::rename(conversation, instances.join("other")).unwrap();
    let saved = sandbox.gdn(&["doctor", "p", "--deep", "--repair", "copies"]);
    assert!(
        saved.stdout.contains("belongs to another conversation")
            && saved.stdout.contains(" records; nothing is lost"),
        "{}",
        saved.stdout
    );
    assert!(!saved.stdout.contains("not saved"), "{}", saved.stdout);
}

#[test]
fn a_backup_is_restored() {
    let sandbox = with_conversation();
    for target in ["monday", "monday.tar.gz"] {
        sandbox.gdn(&["backup", target, "--project", "p"]).ok();
        let again = sandbox.gdn(&["backup", target, "--project", "p"]);
        assert!(again.stderr.contains("[BACKUP_ERROR]"), "{}", again.stderr);
    }
    sandbox.gdn(&["run", "p", "--input", "second"]).ok();
    assert_eq!(input_count(&sandbox), 2);
    let refused = sandbox.gdn(&["restore", "monday"]);
    assert!(
        refused.stderr.contains("exists already"),
        "{}",
        refused.stderr
    );
    for source in ["monday", "monday.tar.gz"] {
        std::fs::remove_dir_all(workspace(&sandbox)).unwrap();
        sandbox.gdn(&["restore", source]).ok();
        assert_eq!(input_count(&sandbox), 1, "{source}");
        sandbox.gdn(&["run", "p", "--input", "second"]).ok();
        assert_eq!(input_count(&sandbox), 2, "{source}");
    }
    sandbox
        .gdn(&["restore", "monday", "--workspace", "other"])
        .ok();
    assert!(sandbox.state().join("workspaces/other/instances").is_dir());
    sandbox.write("no-backup.tar.gz", "text");
    let refused = sandbox.gdn(&["restore", "no-backup.tar.gz", "--workspace", "third"]);
    assert!(
        refused.stderr.contains("[BACKUP_ERROR]"),
        "{}",
        refused.stderr
    );
    assert!(!sandbox.state().join("workspaces/third").exists());
}

#[cfg(unix)]
#[test]
fn a_foreign_backup_restores_no_approvals_and_no_links() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = with_conversation();
    sandbox.gdn(&["backup", "monday", "--project", "p"]).ok();
    let backup = sandbox.dir().join("monday");
    sandbox.write("monday/approvals.yaml", "approvals: []\n");
    sandbox.write("monday/token", "known\n");
    sandbox.write("monday/control.json", "{}");
    sandbox.write("monday/connections/chat/approved.jsonl", "\"7\"\n");
    sandbox.write("monday/connections/chat/pending.json", "[]");
    let instance = std::fs::read_dir(backup.join("instances")).unwrap().next();
    let instance = instance.unwrap().unwrap().path();
    std::fs::create_dir_all(instance.join("extensions")).unwrap();
    let remembered = instance.join("extensions/gdn.approvals.json");
    std::fs::write(&remembered, "[]").unwrap();
    let tool = instance.join("workdir/tool");
    std::fs::create_dir_all(instance.join("workdir")).unwrap();
    std::fs::write(&tool, "text").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o4755)).unwrap();
    sandbox
        .gdn(&["restore", "monday", "--workspace", "other"])
        .ok();
    let restored = sandbox.state().join("workspaces/other");
    let remembered = remembered.strip_prefix(&backup).unwrap();
    let granting = [
        "approvals.yaml",
        "token",
        "control.json",
        "connections/chat/approved.jsonl",
    ];
    for path in granting
        .map(std::path::Path::new)
        .iter()
        .chain([&remembered])
    {
        assert!(!restored.join(path).exists(), "{}", path.display());
    }
    assert!(restored.join("connections/chat/pending.json").exists());
    let tool = restored.join(tool.strip_prefix(&backup).unwrap());
    let mode = tool.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    sandbox.write("victim", "text");
    for path in [
        backup.join("lock.link"),
        backup.join("instances/linked"),
        instance.join("messages/more"),
    ] {
        std::os::unix::fs::symlink(sandbox.dir().join("victim"), &path).unwrap();
        let refused = sandbox.gdn(&["restore", "monday", "--workspace", "third"]);
        assert!(
            refused.stderr.contains("contains the link"),
            "{}",
            refused.stderr
        );
        assert!(!sandbox.state().join("workspaces/third").exists());
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_refused_restore_creates_no_workspace() {
    let sandbox = with_conversation();
    let id = workspace(&sandbox);
    let id = id.file_name().unwrap().to_str().unwrap();
    // The directory is not a backup. A restore that reads it reports another error.
    sandbox.write("d/text", "text");
    let refused = sandbox.gdn(&["restore", "d", "--workspace", id]);
    assert!(
        refused.stderr.contains("exists already"),
        "{}",
        refused.stderr
    );
    let state = sandbox.dir().join("fresh");
    let refused = sandbox.gdn(&["restore", "d", "--state-root", &state.to_string_lossy()]);
    assert!(
        refused.stderr.contains("it is not a backup"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read_dir(state).unwrap().count(), 0);
}

#[test]
fn a_workspace_without_its_log_starts_only_with_accept_loss() {
    let sandbox = with_conversation();
    std::fs::remove_file(workspace(&sandbox).join("inbox.jsonl")).unwrap();
    let refused = sandbox.gdn(&["run", "p", "--input", "second"]);
    assert!(
        refused.stderr.contains("[WORKSPACE_LOG_LOST]"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("--accept-loss"),
        "{}",
        refused.stderr
    );
    assert_eq!(input_count(&sandbox), 1);
    sandbox
        .gdn(&["run", "p", "--input", "second", "--accept-loss"])
        .ok();
    sandbox.gdn(&["run", "p", "--input", "third"]).ok();
    assert_eq!(input_count(&sandbox), 3);
}

#[test]
fn a_newer_format_is_refused() {
    let sandbox = with_conversation();
    let log = workspace(&sandbox).join("inbox.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    let newer = format!("{{\"format\":\"gdn-inbox\",\"version\":3}}\n{rest}");
    std::fs::write(&log, &newer).unwrap();
    let refused = sandbox.gdn(&["run", "p", "--input", "second"]);
    assert!(
        refused.stderr.contains("[WORKSPACE_NEWER]"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("gdn self update"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read_to_string(&log).unwrap(), newer);
}

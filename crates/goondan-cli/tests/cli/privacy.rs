//! Files with conversations are private, for any umask.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::projects::{ECHO, manifest, scripted};
use crate::pty_session::PtySession;
use crate::sandbox::Sandbox;

/// The model runs a command whose output exceeds the output limit.
const OUTPUT_SCRIPT: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: bash__exec, args: {command: 'touch made; seq 1 600'}}]}
  - when: {role: tool}
    reply: {text: done}
";

/// Returns `gdn` with `arguments` and the umask 000.
fn command_with_open_umask(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let gdn = sandbox.command(arguments);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "umask 000; exec \"$@\"", "sh"])
        .arg(gdn.get_program())
        .args(gdn.get_args());
    shell.current_dir(sandbox.dir()).env_clear();
    shell.envs(
        gdn.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell
}

#[track_caller]
fn run(sandbox: &Sandbox, arguments: &[&str]) {
    let output = command_with_open_umask(sandbox, arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Returns `folder` and all paths below it, except for the contents of working directories. Tools
/// create these contents.
fn paths_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    if folder.is_dir() && folder.file_name().is_none_or(|name| name != "workdir") {
        for entry in std::fs::read_dir(folder).unwrap() {
            found.extend(paths_below(&entry.unwrap().path()));
        }
    }
    found
}

#[track_caller]
fn assert_private(folder: &Path) -> Vec<PathBuf> {
    let paths = paths_below(folder);
    for path in &paths {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), expected, "{}: {:o}", path.display(), mode(path));
    }
    paths
}

#[test]
fn all_state_files_are_private_for_any_umask() {
    let sandbox = scripted(OUTPUT_SCRIPT);
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    sandbox.write(
        "p/goondan.yaml",
        &manifest(model, "permissions: {default: allow}"),
    );
    let tool = "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: bash}\nspec: {entry: 'builtin:bash', outputLimit: 100}\n";
    sandbox.write("p/tools/bash.yaml", tool);
    run(
        &sandbox,
        &["run", "p", "--input", "go", "--record", "tape.jsonl"],
    );
    let paths = assert_private(&sandbox.state());
    let has = |name: &str| {
        paths
            .iter()
            .any(|path| path.to_string_lossy().contains(name))
    };
    for name in [
        "lock",
        "inbox.jsonl",
        "generation.json",
        "base.jsonl",
        "runtime-events.jsonl",
        "files/",
        "workdir",
    ] {
        assert!(has(name), "{name} is missing: {paths:#?}");
    }
    assert_eq!(
        mode(&sandbox.dir().join("tape.jsonl")),
        0o600,
        "the cassette"
    );
    run(
        &sandbox,
        &["instance", "export", "a:main", "-o", "out.jsonl"],
    );
    assert_eq!(mode(&sandbox.dir().join("out.jsonl")), 0o600, "the export");
    run(
        &sandbox,
        &[
            "instance",
            "import",
            "out.jsonl",
            "--as",
            "a:copy",
            "--workspace",
            "other",
        ],
    );
    run(&sandbox, &["doctor", "p"]);
    assert_private(&sandbox.state());
}

#[test]
fn project_files_are_created_with_the_umask_of_the_user() {
    let sandbox = Sandbox::new();
    run(&sandbox, &["init", "swarm"]);
    assert_eq!(mode(&sandbox.dir().join("swarm")), 0o777);
    assert_eq!(mode(&sandbox.dir().join("swarm/goondan.yaml")), 0o666);
}

#[test]
fn an_open_state_root_is_made_private_unless_it_is_shared() {
    let sandbox = scripted(ECHO);
    std::fs::create_dir(sandbox.state()).unwrap();
    let open = |mode| {
        std::fs::set_permissions(sandbox.state(), std::fs::Permissions::from_mode(mode)).unwrap()
    };
    open(0o755);
    assert_eq!(
        sandbox.gdn(&["run", "p", "--input", "hi"]).ok(),
        "heard hi\n"
    );
    assert_eq!(mode(&sandbox.state()), 0o700);
    // A shared directory stays open, because it has files of other users. A warning is printed.
    open(0o1777);
    let run = sandbox.gdn(&["run", "p", "--input", "hi"]);
    assert_eq!(run.ok(), "heard hi\n");
    assert!(
        run.stderr.contains("state root is readable by other users"),
        "{}",
        run.stderr
    );
    let checked = sandbox.gdn(&["doctor", "p"]);
    assert!(
        checked.ok().contains("is readable by other users"),
        "{}",
        checked.stdout
    );
    assert_eq!(mode(&sandbox.state()), 0o1777);
}

/// Types `lines` into a chat. Returns the content of its history file.
fn chat_history_after(sandbox: &Sandbox, lines: &[&str], history: Option<&str>) -> Option<String> {
    let mut command = command_with_open_umask(sandbox, &["run", "p", "--plain"]);
    command
        .env("MY_API_KEY", "hunter2-hunter2")
        .envs(history.map(|value| ("GOONDAN_HISTORY", value)));
    let mut pty = PtySession::start(command);
    for line in lines {
        pty.read_until("a> ");
        pty.write(&format!("{line}\r"));
        pty.read_until("heard");
    }
    pty.read_until("a> ");
    pty.write("/quit\r");
    assert_eq!(pty.exit_code(), Some(0));
    let workspaces: Vec<_> = std::fs::read_dir(sandbox.state().join("workspaces"))
        .unwrap()
        .collect();
    let file = workspaces[0]
        .as_ref()
        .unwrap()
        .path()
        .join("chat-history.txt");
    file.exists().then(|| {
        assert_eq!(mode(&file), 0o600);
        std::fs::read_to_string(file).unwrap()
    })
}

#[test]
fn the_chat_history_is_private_omits_secrets_and_can_be_disabled() {
    let sandbox = scripted(ECHO);
    let lines = ["one", "it is hunter2-hunter2", "two"];
    assert_eq!(chat_history_after(&sandbox, &lines, Some("off")), None);
    assert_eq!(
        chat_history_after(&sandbox, &lines, None).as_deref(),
        Some("#V2\none\ntwo\n/quit\n")
    );
    assert_private(&sandbox.state());
}

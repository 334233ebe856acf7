//! Errors of invalid command lines and of missing or unusable files.

use crate::projects::{SHOUT, scripted};
use crate::sandbox::Sandbox;

/// Snapshots exit code, standard output and standard error of commands that fail.
fn snapshot(sandbox: &Sandbox, cases: &[(&str, &[&str])]) {
    for (name, arguments) in cases {
        let outcome = sandbox.gdn(arguments);
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(*name, outcome.report()));
    }
}

#[test]
fn an_invalid_command_line_is_reported_with_a_suggestion() {
    snapshot(
        &Sandbox::new(),
        &[
            ("unknown command", &["valdate"]),
            ("unknown option", &["run", "--inpt", "x"]),
            ("unknown option as json", &["run", "--json", "--inpt", "x"]),
            ("bad value", &["run", "--output-format", "xml"]),
            ("two inputs", &["run", "--input", "a", "--input-file", "b"]),
            ("two volumes", &["-q", "-v", "doctor"]),
            (
                "input beside stream",
                &["run", "--input", "a", "--input-format", "stream-json"],
            ),
            (
                "text beside stream",
                &[
                    "run",
                    "--input-format",
                    "stream-json",
                    "--output-format",
                    "text",
                ],
            ),
            (
                "bad arguments of a tool",
                &[
                    "tool",
                    "call",
                    "text-transform__case",
                    "--args",
                    "{text: hi}",
                ],
            ),
        ],
    );
}

#[test]
fn a_missing_input_or_input_file_is_an_error() {
    let cases: &[(&str, &[&str])] = &[
        ("no input", &["run", "p"]),
        (
            "no such input file",
            &["run", "p", "--input-file", "nothing.txt"],
        ),
    ];
    snapshot(&scripted(SHOUT), cases);
}

#[test]
fn a_missing_project_is_reported_with_the_command_to_create_one() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.yaml", "a: 1\n");
    snapshot(
        &sandbox,
        &[
            ("no project here", &["validate"]),
            ("no project here as json", &["validate", "--json"]),
            ("no such folder", &["run", "nowhere", "--input", "hi"]),
            ("no project and no input", &["run"]),
            ("another file", &["validate", "notes.yaml"]),
        ],
    );
}

#[test]
fn output_to_a_pipe_has_no_colors() {
    let sandbox = Sandbox::new();
    for arguments in [&["--help"][..], &["frob"], &["validate"], &["doctor"]] {
        let outcome = sandbox.gdn(arguments);
        assert!(
            !outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command(&["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

/// Asserts that the command fails, and that its error contains all `words` but no number of an OS
/// error.
#[track_caller]
fn assert_refused(sandbox: &Sandbox, arguments: &[&str], words: &[&str]) {
    let outcome = sandbox.gdn(arguments);
    assert_ne!(outcome.code, 0, "{arguments:?}: {}", outcome.report());
    for word in words {
        assert!(
            outcome.stderr.contains(word),
            "{arguments:?} lacks {word:?}: {}",
            outcome.report()
        );
    }
    assert!(
        !outcome.stderr.contains("os error"),
        "{arguments:?}: {}",
        outcome.report()
    );
    assert!(
        !outcome.stderr.contains("INTERNAL_ERROR"),
        "{arguments:?}: {}",
        outcome.report()
    );
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_a_project_is_described_in_the_error() {
    let sandbox = Sandbox::new();
    sandbox.write("bin.dat", "x");
    std::os::unix::fs::symlink("loop", sandbox.dir().join("loop")).unwrap();
    std::os::unix::fs::symlink("nothing", sandbox.dir().join("dangling")).unwrap();
    std::fs::create_dir_all(sandbox.dir().join("folder/goondan.yaml")).unwrap();
    sandbox.write("pipe/x", "");
    sandbox.named_pipe("pipe/goondan.yaml");
    assert_refused(
        &sandbox,
        &["validate", "/dev/null"],
        &["`/dev/null` is not a file or a directory."],
    );
    assert_refused(
        &sandbox,
        &["validate", "loop"],
        &["`loop` can't be opened: a link leads back to itself."],
    );
    assert_refused(
        &sandbox,
        &["validate", "dangling"],
        &["`dangling` is a link to something that does not exist."],
    );
    assert_refused(
        &sandbox,
        &["validate", "folder"],
        &["`folder/goondan.yaml` is a directory, not a file."],
    );
    assert_refused(
        &sandbox,
        &["validate", "pipe"],
        &["`pipe/goondan.yaml` is not a regular file."],
    );
    assert_refused(
        &sandbox,
        &["validate", "dir with ü"],
        &["`gdn init 'dir with ü'`"],
    );
    assert_refused(
        &sandbox,
        &["init", "bin.dat"],
        &["`bin.dat` is not a directory."],
    );
    assert_refused(
        &sandbox,
        &["trust", ".", "--state-root", "bin.dat"],
        &["a part of its path is not a directory", "--state-root"],
    );
    assert_refused(
        &sandbox,
        &["trust", "nowhere"],
        &["`nowhere` does not exist.", "suggestion"],
    );
    assert_refused(
        &sandbox,
        &["mcp", "import", "nofile"],
        &[
            "`nofile` can't be read: there is no such file",
            "suggestion",
        ],
    );
}

#[test]
fn a_corrupt_trust_file_is_reported_with_a_fix() {
    let sandbox = scripted(SHOUT);
    std::fs::create_dir_all(sandbox.state()).unwrap();
    std::fs::write(sandbox.state().join("trust.json"), "{").unwrap();
    assert_refused(
        &sandbox,
        &["trust", "p"],
        &["trust.json", "Correct the file, or remove it"],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn unreadable_inputs_and_unwritable_outputs_are_named() {
    let sandbox = scripted(SHOUT);
    sandbox.gdn(&["run", "p", "--input", "hi"]).ok();
    assert_refused(
        &sandbox,
        &["run", "p", "--input-file", "/dev/zero"],
        &["`/dev/zero` is larger than 32 MiB."],
    );
    assert_refused(
        &sandbox,
        &["run", "p", "--input-file", "."],
        &["can't be read: it is a directory", "suggestion"],
    );
    let export = |place: &str| {
        vec![
            "instance".to_owned(),
            "export".into(),
            "a:main".into(),
            "-o".into(),
            place.into(),
        ]
    };
    for (place, reason) in [
        (".", "it is a directory"),
        ("/nonexist/x", "there is no such file or directory"),
    ] {
        let arguments = export(place);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_refused(
            &sandbox,
            &arguments,
            &[
                &format!("`{place}` can't be written: {reason}"),
                "suggestion",
            ],
        );
    }
    assert_refused(
        &sandbox,
        &["instance", "import", "."],
        &["`.` can't be read: it is a directory"],
    );
}

#[cfg(unix)]
#[test]
fn doctor_checks_the_state_root_without_changing_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    sandbox.gdn(&["doctor"]).ok();
    assert!(!sandbox.state().exists(), "the state root is not created");
    std::fs::create_dir(sandbox.state()).unwrap();
    std::fs::set_permissions(sandbox.state(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = sandbox.gdn(&["doctor"]);
    assert!(
        outcome.ok().contains("is readable by other users"),
        "{}",
        outcome.report()
    );
    assert_eq!(
        sandbox.state().metadata().unwrap().permissions().mode() & 0o777,
        0o755
    );
}

#[test]
fn messages_of_the_argument_parser_are_rewritten() {
    let sandbox = Sandbox::new();
    assert_refused(&sandbox, &["test", "--jobs", "0"], &["must be at least 1"]);
    assert_refused(
        &sandbox,
        &["test", "--live", "--runs", "0"],
        &["must be from 1 to 1000"],
    );
    assert_refused(
        &sandbox,
        &["test", "--runs", "3"],
        &["`--runs` requires `--live`."],
    );
    assert_refused(&sandbox, &["rnu"], &["Did you mean `run`?"]);
    assert_refused(
        &sandbox,
        &["policy", "approvals", "remove"],
        &["requires <N>."],
    );
    let outcome = sandbox.gdn(&["policy", "approvals", "remove"]);
    assert!(!outcome.stderr.contains("...."), "{}", outcome.report());
}

//! What a wrong command line or a missing project leads to.

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
fn a_wrong_command_line_says_what_is_wrong_and_what_fits() {
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
fn an_input_that_is_not_there_is_told() {
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
fn a_missing_project_says_how_to_make_one() {
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
fn no_colour_reaches_a_pipe() {
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
fn a_reader_that_goes_away_is_no_failure() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command(&["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

/// Each of these must fail, say all those words, and no number of the operating system.
#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &[&str], words: &[&str]) {
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
fn a_project_that_is_none_is_told_for_what_it_is() {
    let sandbox = Sandbox::new();
    sandbox.write("bin.dat", "x");
    std::os::unix::fs::symlink("loop", sandbox.dir().join("loop")).unwrap();
    std::os::unix::fs::symlink("nothing", sandbox.dir().join("dangling")).unwrap();
    std::fs::create_dir_all(sandbox.dir().join("folder/goondan.yaml")).unwrap();
    sandbox.write("pipe/x", "");
    sandbox.named_pipe("pipe/goondan.yaml");
    refused(
        &sandbox,
        &["validate", "/dev/null"],
        &["`/dev/null` is not a file or a directory."],
    );
    refused(
        &sandbox,
        &["validate", "loop"],
        &["`loop` can't be opened: a link leads back to itself."],
    );
    refused(
        &sandbox,
        &["validate", "dangling"],
        &["`dangling` is a link to something that does not exist."],
    );
    refused(
        &sandbox,
        &["validate", "folder"],
        &["`folder/goondan.yaml` is a directory, not a file."],
    );
    refused(
        &sandbox,
        &["validate", "pipe"],
        &["`pipe/goondan.yaml` is not a regular file."],
    );
    refused(
        &sandbox,
        &["validate", "dir with ü"],
        &["`gdn init 'dir with ü'`"],
    );
    refused(
        &sandbox,
        &["init", "bin.dat"],
        &["`bin.dat` is not a directory."],
    );
    refused(
        &sandbox,
        &["trust", ".", "--state-root", "bin.dat"],
        &["a part of its path is not a directory", "--state-root"],
    );
    refused(
        &sandbox,
        &["trust", "nowhere"],
        &["`nowhere` does not exist.", "suggestion"],
    );
    refused(
        &sandbox,
        &["mcp", "import", "nofile"],
        &[
            "`nofile` can't be read: there is no such file",
            "suggestion",
        ],
    );
}

#[test]
fn a_list_of_trusted_folders_that_is_broken_is_to_be_corrected() {
    let sandbox = scripted(SHOUT);
    std::fs::create_dir_all(sandbox.state()).unwrap();
    std::fs::write(sandbox.state().join("trust.json"), "{").unwrap();
    refused(
        &sandbox,
        &["trust", "p"],
        &["trust.json", "Correct the file, or remove it"],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn what_can_not_be_read_or_written_is_named() {
    let sandbox = scripted(SHOUT);
    sandbox.gdn(&["run", "p", "--input", "hi"]).ok();
    refused(
        &sandbox,
        &["run", "p", "--input-file", "/dev/zero"],
        &["`/dev/zero` is larger than 32 MiB."],
    );
    refused(
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
    for (place, why) in [
        (".", "it is a directory"),
        ("/nonexist/x", "there is no such file or directory"),
    ] {
        let arguments = export(place);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        refused(
            &sandbox,
            &arguments,
            &[&format!("`{place}` can't be written: {why}"), "suggestion"],
        );
    }
    refused(
        &sandbox,
        &["instance", "import", "."],
        &["`.` can't be read: it is a directory"],
    );
}

#[cfg(unix)]
#[test]
fn doctor_looks_at_the_state_root_and_changes_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    sandbox.gdn(&["doctor"]).ok();
    assert!(!sandbox.state().exists(), "it is not made");
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
fn words_of_libraries_are_put_into_ours() {
    let sandbox = Sandbox::new();
    refused(&sandbox, &["test", "--jobs", "0"], &["must be at least 1"]);
    refused(
        &sandbox,
        &["test", "--live", "--runs", "0"],
        &["must be from 1 to 1000"],
    );
    refused(
        &sandbox,
        &["test", "--runs", "3"],
        &["`--runs` requires `--live`."],
    );
    refused(&sandbox, &["rnu"], &["Did you mean `run`?"]);
    refused(
        &sandbox,
        &["policy", "approvals", "remove"],
        &["requires <N>."],
    );
    let outcome = sandbox.gdn(&["policy", "approvals", "remove"]);
    assert!(!outcome.stderr.contains("...."), "{}", outcome.report());
}

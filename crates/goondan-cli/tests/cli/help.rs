//! Tests of `--help`, `help` and `man`.

use crate::sandbox::Sandbox;

const COMMANDS: [&[&str]; 45] = [
    &[],
    &["init"],
    &["new"],
    &["new", "tool"],
    &["new", "agent"],
    &["new", "connection"],
    &["validate"],
    &["run"],
    &["ps"],
    &["stop"],
    &["cancel"],
    &["reload"],
    &["build"],
    &["tool"],
    &["tool", "list"],
    &["tool", "call"],
    &["connection"],
    &["connection", "list"],
    &["connection", "approve"],
    &["connection", "test"],
    &["conversation"],
    &["conversation", "list"],
    &["conversation", "show"],
    &["conversation", "retry"],
    &["conversation", "fork"],
    &["conversation", "delete"],
    &["conversation", "export"],
    &["conversation", "import"],
    &["conversation", "adopt"],
    &["models"],
    &["policy"],
    &["policy", "explain"],
    &["trust"],
    &["backup"],
    &["restore"],
    &["logs"],
    &["explain"],
    &["schema"],
    &["test"],
    &["doctor"],
    &["completions"],
    &["man"],
    &["self"],
    &["self", "update"],
    &["--version"],
];

#[test]
fn help_and_version_work_as_commands_and_as_flags() {
    let sandbox = Sandbox::new();
    let cases: [(&[&str], &[&str]); 4] = [
        (&["help"], &["--help"]),
        (&["help", "run"], &["run", "--help"]),
        (&["help", "mcp", "list"], &["mcp", "list", "--help"]),
        (&["version"], &["--version"]),
    ];
    for (command, flag) in cases {
        assert_eq!(sandbox.gdn(command).ok(), sandbox.gdn(flag).ok());
    }
}

#[test]
fn every_command_has_long_help_on_standard_output() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let mut arguments = command.to_vec();
        if command != ["--version"] {
            arguments.push("--help");
        }
        let outcome = sandbox.gdn(&arguments);
        assert_eq!(outcome.stderr, "", "help is written to standard output");
        let name = format!("help {}", command.join(" "));
        sandbox
            .settings()
            .bind(|| insta::assert_snapshot!(name.trim_end(), outcome.ok()));
    }
}

#[test]
fn the_short_help_leaves_out_explanations_and_examples() {
    let sandbox = Sandbox::new();
    for command in [&[][..], &["run"], &["conversation", "show"]] {
        let help = |flag: &str| sandbox.gdn(&[command, &[flag]].concat()).ok().to_owned();
        let (short, long) = (help("-h"), help("--help"));
        assert!(
            short.contains("Usage: gdn") && !short.contains("Examples:"),
            "{short}"
        );
        assert!(short.contains("--help` explains the command"), "{short}");
        assert!(
            long.contains("Examples:") && long.len() > short.len(),
            "{long}"
        );
    }
}

#[test]
fn a_missing_subcommand_prints_help_and_exits_with_2() {
    let sandbox = Sandbox::new();
    for (command, listed) in [
        (&[][..], "Create a project that runs at once"),
        (&["new"][..], "Usage: gdn new"),
    ] {
        let outcome = sandbox.gdn(command);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
        assert!(
            outcome.stderr.contains(listed) && !outcome.stderr.contains("error["),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn man_writes_a_page_for_each_public_command() {
    let sandbox = Sandbox::new();
    sandbox.gdn(&["man", "pages"]).ok();
    let page =
        |name: &str| std::fs::read_to_string(sandbox.dir().join("pages").join(name)).unwrap();
    assert!(page("gdn.1").contains("validate"));
    for command in COMMANDS
        .iter()
        .filter(|command| !command.is_empty() && **command != ["--version"])
    {
        assert!(
            page(&format!("gdn-{}.1", command.join("-"))).contains("SYNOPSIS"),
            "{command:?}"
        );
    }
    let hidden = std::fs::exists(sandbox.dir().join("pages/gdn-tool-host.1")).unwrap();
    assert!(!hidden, "an internal command has no page");
}

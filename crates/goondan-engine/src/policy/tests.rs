use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use goondan_spec::kinds::{
    MarkedArguments, Permission, PermissionAction, PermissionRule, Permissions, SourceLocation,
};

use super::*;

fn decide_action(
    permissions: Option<&Permissions>,
    tool_name: &str,
    needs: &[Permission],
    arguments: Value,
) -> PermissionAction {
    let needs = needs.iter().copied().collect();
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object")
    };
    let marked = MarkedArguments {
        commands: vec!["command".to_owned()],
        environments: vec!["env".to_owned()],
        paths: vec!["path".to_owned()],
        ..MarkedArguments::default()
    };
    let paths = PathArguments::of(&marked, &arguments);
    let question = PolicyQuestion {
        tool_name,
        needs: &needs,
        arguments: &arguments,
        marked: &marked,
        paths: &paths,
    };
    decide(permissions, question).action
}

pub(super) fn rule(
    tool: Option<&str>,
    permission: Option<Permission>,
    args: &[(&str, &str)],
    action: PermissionAction,
) -> PermissionRule {
    let args: BTreeMap<_, _> = args
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    PermissionRule {
        tool: tool.map(str::to_owned),
        permission,
        args,
        action,
        sandbox: Default::default(),
        written: SourceLocation::default(),
    }
}

#[test]
fn without_permissions_execute_and_network_calls_need_approval() {
    assert_eq!(
        decide_action(None, "fs__write", &[Permission::Write], json!({})),
        PermissionAction::Allow
    );
    assert_eq!(
        decide_action(None, "bash__exec", &[Permission::Execute], json!({})),
        PermissionAction::Ask
    );
    assert_eq!(
        decide_action(None, "http-fetch__get", &[Permission::Network], json!({})),
        PermissionAction::Ask
    );
}

#[test]
fn the_last_matching_rule_wins() {
    let permissions = Permissions {
        default: PermissionAction::Allow,
        rules: vec![
            rule(None, Some(Permission::Execute), &[], PermissionAction::Ask),
            rule(
                Some("bash__*"),
                None,
                &[("command", "echo *")],
                PermissionAction::Allow,
            ),
        ],
        sandbox: None,
    };
    let needs = [Permission::Execute];
    assert_eq!(
        decide_action(
            Some(&permissions),
            "bash__exec",
            &needs,
            json!({"command": "echo hi"})
        ),
        PermissionAction::Allow
    );
    assert_eq!(
        decide_action(
            Some(&permissions),
            "bash__exec",
            &needs,
            json!({"command": "ls"})
        ),
        PermissionAction::Ask
    );
    assert_eq!(
        decide_action(Some(&permissions), "wait__seconds", &[], json!({})),
        PermissionAction::Allow
    );
}

#[test]
fn an_allowed_permission_does_not_allow_the_others() {
    use Permission::{Network, Read, Write};
    use PermissionAction::{Allow, Ask, Deny};
    let action = |default, rules: &[(Permission, PermissionAction)], needs: &[Permission]| {
        let rules = rules
            .iter()
            .map(|(permission, action)| rule(None, Some(*permission), &[], *action));
        let permissions = Permissions {
            default,
            rules: rules.collect(),
            sandbox: None,
        };
        decide_action(Some(&permissions), "discord__sendFile", needs, json!({}))
    };
    let both = [Read, Network];
    assert_eq!(action(Ask, &[(Read, Allow)], &[Read]), Allow);
    assert_eq!(action(Ask, &[(Read, Allow)], &both), Ask);
    assert_eq!(action(Deny, &[(Read, Allow)], &both), Deny);
    assert_eq!(action(Allow, &[(Read, Allow)], &both), Allow);
    let allowed = [(Network, Allow), (Read, Allow)];
    assert_eq!(action(Deny, &allowed, &both), Allow);
    assert_eq!(action(Deny, &allowed, &[Read, Network, Write]), Deny);
    assert_eq!(
        action(Allow, &[(Network, Deny), (Read, Allow)], &both),
        Deny
    );
    let overridden = [(Read, Deny), (Network, Allow), (Read, Allow)];
    assert_eq!(action(Deny, &overridden, &both), Allow);
    // A restriction applies if the call needs its permission, and the last one decides.
    assert_eq!(action(Allow, &[(Network, Deny), (Read, Ask)], &both), Ask);
}

#[test]
fn a_second_permission_rule_keeps_the_containment_of_a_command_pattern() {
    let git = rule(
        None,
        Some(Permission::Execute),
        &[("command", "git *")],
        PermissionAction::Allow,
    );
    let network = rule(
        None,
        Some(Permission::Network),
        &[],
        PermissionAction::Allow,
    );
    let needs = BTreeSet::from([Permission::Execute, Permission::Network]);
    let Value::Object(arguments) = json!({"command": "git log"}) else {
        panic!("arguments are an object")
    };
    let marked = MarkedArguments {
        commands: vec!["command".to_owned()],
        ..MarkedArguments::default()
    };
    for rules in [[git.clone(), network.clone()], [network, git]] {
        let permissions = Permissions {
            default: PermissionAction::Deny,
            rules: rules.into(),
            sandbox: None,
        };
        let question = PolicyQuestion {
            tool_name: "bash__exec",
            needs: &needs,
            arguments: &arguments,
            marked: &marked,
            paths: &PathArguments::of(&marked, &arguments),
        };
        let decision = decide(Some(&permissions), question);
        assert_eq!(decision.action, PermissionAction::Allow);
        assert!(decision.parts.iter().all(|part| part.contained.is_some()));
    }
}

#[test]
fn an_argument_rule_does_not_match_without_the_argument() {
    let rules = vec![rule(None, None, &[("path", "*")], PermissionAction::Allow)];
    let permissions = Permissions {
        default: PermissionAction::Deny,
        rules,
        sandbox: None,
    };
    assert_eq!(
        decide_action(Some(&permissions), "fs__read", &[], json!({})),
        PermissionAction::Deny
    );
}

/// Returns the action of command rules for a command line.
pub(super) fn shell_action(
    default: PermissionAction,
    rules: &[(&str, PermissionAction)],
    command: &str,
) -> PermissionAction {
    let rules = rules
        .iter()
        .map(|(pattern, action)| rule(Some("bash__*"), None, &[("command", pattern)], *action));
    let permissions = Permissions {
        default,
        rules: rules.collect(),
        sandbox: None,
    };
    decide_action(
        Some(&permissions),
        "bash__exec",
        &[Permission::Execute],
        json!({"command": command}),
    )
}

#[test]
fn every_command_of_a_line_must_be_allowed() {
    let rules = [
        ("git *", PermissionAction::Allow),
        ("echo *", PermissionAction::Allow),
        ("ls", PermissionAction::Allow),
    ];
    for allowed in [
        "git status",
        "  git   status  ",
        "g'i't \"status\"",
        "git log | git show && ls",
        "git log 2>&1 >/dev/null",
        "(git status; ls) && git log\nls # rm x",
        "git diff || ls; git log",
        "echo \"$(git log)\"",
        "echo 'rm x; $(rm y)' a~ b=c {} [ *.rs a?b",
        "timeout -k 5 10 nice -n 3 git log",
        "nohup env git log",
        "sh -c 'git log; ls'",
        "echo a\\;b",
        "git log HEAD~\"$(echo \"$(git tag)\")\"",
    ] {
        assert_eq!(
            shell_action(PermissionAction::Ask, &rules, allowed),
            PermissionAction::Allow,
            "{allowed}"
        );
    }
    // These lines need a full shell, so the commands are unknown.
    for unparsed in [
        "(git status; ls) & git log",
        "if git diff; then ls; else git log; fi",
        "for f in a b; do echo $f; done",
        "echo $(git log) `ls`",
        "echo ${HOME} ~ $((1 + 2))",
        "command -p git log",
        "git log <<'E'\n$(rm x)\nE\n",
        "find_it() { ls; }; ls",
        "echo a\\\nb",
        "echo .*",
        "git log 3>&1",
        "git log 12>x",
    ] {
        assert_eq!(
            shell_action(PermissionAction::Ask, &rules, unparsed),
            PermissionAction::Ask,
            "{unparsed}"
        );
    }
    for command in NOT_ALLOWED {
        assert_eq!(
            shell_action(PermissionAction::Ask, &rules, command),
            PermissionAction::Ask,
            "{command}"
        );
        assert_eq!(
            shell_action(PermissionAction::Deny, &rules, command),
            PermissionAction::Deny,
            "{command}"
        );
    }
}

/// None of these matches `git *`, `echo *` or `ls`.
pub(super) const NOT_ALLOWED: &[&str] = &[
    "git status; rm -rf x",
    "git status && rm x",
    "git status || rm x",
    "git status | sh",
    "git status & rm x",
    "git status\nrm x",
    "git status;rm x",
    "git log $(rm x)",
    "git log `rm x`",
    "git log \"$(rm x)\"",
    "git log \"`rm x`\"",
    "git log ${x:-$(rm x)}",
    "git log $((a[$(rm x)]))",
    "git log <(rm x)",
    "git log > ~/.bashrc",
    "git log >> notes",
    "git log >| notes",
    "git log 2> notes",
    "git log &> notes",
    "git log <> notes",
    "> notes",
    "git log < /dev/tcp/evil/80",
    "git log < $X",
    "cat <<E\n$(rm x)\nE",
    "git log <<E\n$(rm x)\nE\n",
    "git log <<E\n'$(rm x)'\nE\n",
    "git log <<E\n\"`rm x`\"\nE\n",
    "git log <<-E\n\t`rm x`\n\tE\n",
    "LD_PRELOAD=x.so git log",
    "GIT_PAGER='rm x' git log",
    "PATH=. ; git log",
    "export PATH=.; git log",
    "$X git log",
    "$(echo rm) x",
    "\"$X\"",
    "g* log",
    "{git,rm} log",
    "eval git log",
    ". ./git",
    "source git",
    "alias git=rm; git log",
    "alias ls=rm\nls",
    "git() { rm x; }; git log",
    "function git { rm x; }; git log",
    "trap 'rm x' EXIT; git log",
    "sudo git log",
    "doas git log",
    "sudo -u root git log",
    "env -S 'rm x' git log",
    "env rm git",
    "env LD_PRELOAD=x git log",
    "env -u PATH rm",
    "xargs rm",
    "echo x | xargs rm",
    "echo x | xargs -I git git status",
    "echo -c alias.x='!rm' | xargs git",
    "sh -c 'git log; rm x'",
    "sh -c \"$X\"",
    "bash -ec 'rm x'",
    "sh -c 'git $0' '-calias.x=!rm'",
    "echo rm | sh",
    "echo rm | sh -s",
    "sh",
    "sh script.sh",
    "nohup rm x",
    "timeout 5 rm x",
    "timeout --foreground 5 rm x",
    "timeout \"$X\" git log",
    "time rm x",
    "! rm x",
    "nice rm x",
    "setsid rm x",
    "stdbuf -o0 rm x",
    "exec rm x",
    "exec > notes",
    "command rm x",
    "builtin eval rm x",
    "busybox rm x",
    "find . -name x -exec rm {} ;",
    "find . -exec git log ; -exec rm x +",
    "coproc rm x",
    "while rm x; do ls; done",
    "until ls; do rm x; done",
    "case x in x) rm x;; esac",
    "case $(rm x) in x) ls;; esac",
    "for i in $(rm x); do ls; done",
    "if ls; then ls; elif rm x; then ls; fi",
    "{ rm x; }",
    "( rm x )",
    "ls > out; ls",
    "( ls ) > out",
    "[[ -f $(rm x) ]]",
    "(( x = 1 ))",
    "ls; }",
    "git 'log",
    "git log $'\\'; rm x #'",
    "git log $\"x\"",
    "git log <<< x",
    "git -c alias.x='!rm x' x",
    "git --config-env=alias.x=Y x",
    "git submodule foreach rm x",
    "git bisect run rm x",
    "git fetch --upload-pack='rm x' .",
    "/tmp/git status",
    "./git status",
    "../git status",
    "'git status'",
    "git\u{a0}status",
    "git\r\nrm x",
    "git log \u{0} x",
    "git",
    "gitx status",
    "r\\\nm x",
    "x=(a b) git log",
    "ls;;rm x",
    "echo\u{2028}rm x",
];

#[test]
fn a_denied_command_is_denied_at_every_position_of_a_line() {
    let rules = [("rm *", PermissionAction::Deny)];
    for denied in [
        "rm x",
        "/bin/rm x",
        "r\\m x",
        "r''m \"x\"",
        "\\rm x",
        "ls; rm x",
        "ls | rm x",
        "X=1 rm x",
        "sudo rm x",
        "sudo -u root env A=b rm x",
        "timeout 5 rm x",
        "echo \"$(rm x)\"",
        "sh -c 'rm x'",
        "xargs -0 rm < list",
        "find . -exec rm '{}' +",
        "rm *",
        "rm $X",
    ] {
        assert_eq!(
            shell_action(PermissionAction::Allow, &rules, denied),
            PermissionAction::Deny,
            "{denied}"
        );
    }
    for doubtful in [
        "$X x",
        "eval 'r''m x'",
        "r$X x",
        "echo cm0gLXJm | base64 -d | sh",
        "a 'b",
        "git -c alias.x='!rm x' x",
        "r\\\nm x",
        "echo $(rm x)",
        "echo \"`rm x`\"",
        "cat <<E\n$(rm x)\nE\n",
        "f() { rm x; }; f",
        "echo $X",
    ] {
        assert_eq!(
            shell_action(PermissionAction::Allow, &rules, doubtful),
            PermissionAction::Ask,
            "{doubtful}"
        );
    }
    for allowed in [
        "ls",
        "git rm x",
        "echo rm x",
        "echo 'a; rm x'",
        "echo *",
        "ls > out",
    ] {
        assert_eq!(
            shell_action(PermissionAction::Allow, &rules, allowed),
            PermissionAction::Allow,
            "{allowed}"
        );
    }
}

#[test]
fn rules_that_allow_everything_allow_hidden_commands() {
    for command in NOT_ALLOWED {
        assert_eq!(
            shell_action(
                PermissionAction::Allow,
                &[("git *", PermissionAction::Allow)],
                command
            ),
            PermissionAction::Allow,
            "{command}"
        );
        let permissions = Permissions {
            default: PermissionAction::Ask,
            rules: vec![rule(Some("bash__*"), None, &[], PermissionAction::Allow)],
            sandbox: None,
        };
        let action = decide_action(
            Some(&permissions),
            "bash__exec",
            &[Permission::Execute],
            json!({"command": command}),
        );
        assert_eq!(action, PermissionAction::Allow, "{command}");
    }
}

#[test]
fn a_rule_with_the_exact_command_line_allows_only_this_line() {
    let line = "eval \"$X\"; rm x > y";
    assert_eq!(
        shell_action(
            PermissionAction::Ask,
            &[(line, PermissionAction::Allow)],
            line
        ),
        PermissionAction::Allow
    );
    assert_eq!(
        shell_action(
            PermissionAction::Ask,
            &[(line, PermissionAction::Allow)],
            "eval \"$X\"; rm x > z"
        ),
        PermissionAction::Ask
    );
}

#[test]
fn environment_arguments_count_as_assignments_before_the_command() {
    let rule = |pattern| {
        rule(
            Some("bash__*"),
            None,
            &[("command", pattern)],
            PermissionAction::Allow,
        )
    };
    let permissions = Permissions {
        default: PermissionAction::Ask,
        rules: vec![rule("git *"), rule("LANG=*")],
        sandbox: None,
    };
    let action = |env: Value| {
        let arguments = json!({"command": "git log", "env": env});
        decide_action(
            Some(&permissions),
            "bash__exec",
            &[Permission::Execute],
            arguments,
        )
    };
    assert_eq!(action(json!({})), PermissionAction::Allow);
    assert_eq!(action(json!({"LANG": "C"})), PermissionAction::Allow);
    assert_eq!(
        action(json!({"LANG": "C", "GIT_PAGER": "rm x"})),
        PermissionAction::Ask
    );
}

#[test]
fn a_redirection_needs_the_write_permission() {
    let permissions = |action| Permissions {
        default: PermissionAction::Ask,
        rules: vec![
            rule(None, Some(Permission::Write), &[], action),
            rule(
                Some("bash__*"),
                None,
                &[("command", "git *")],
                PermissionAction::Allow,
            ),
        ],
        sandbox: None,
    };
    let action = |permissions: &Permissions, command: &str| {
        decide_action(
            Some(permissions),
            "bash__exec",
            &[Permission::Execute],
            json!({"command": command}),
        )
    };
    assert_eq!(
        action(
            &permissions(PermissionAction::Allow),
            "git log > out/log.txt"
        ),
        PermissionAction::Allow
    );
    assert_eq!(
        action(
            &permissions(PermissionAction::Deny),
            "git log > out/log.txt"
        ),
        PermissionAction::Deny
    );
    for outside in [
        "git log > /etc/x",
        "git log > ../x",
        "git log > a/../../x",
        "git log > ~/x",
        "git log > $X",
    ] {
        assert_eq!(
            action(&permissions(PermissionAction::Allow), outside),
            PermissionAction::Ask,
            "{outside}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_neither_panics_nor_bypasses_the_rules(text in ".{0,60}", shell in "[ \n;&|<>(){}$`'\"\\\\a-c=#*!\\[\\]-]{0,40}") {
        for text in [text, shell] {
            shell_action(PermissionAction::Ask, &[("git *", PermissionAction::Allow)], &text);
            // A command after any text is recognized, or the whole line is unparsable.
            let action = shell_action(PermissionAction::Ask, &[("a *", PermissionAction::Allow), ("b", PermissionAction::Allow)], &format!("{text}\nrm x\n"));
            let commented_or_quoted = text.contains(['\'', '"', '`', '#', '\\', '<', '(', '{', '$']);
            proptest::prop_assert!(commented_or_quoted || action == PermissionAction::Ask, "{text}");
        }
    }
}

#[test]
fn deeply_nested_command_lines_are_not_allowed() {
    for (open, close) in [
        ("( ", " )"),
        ("$(", ")"),
        ("{ ", "; }"),
        ("if ", "; then ls; fi"),
        ("\"$(", ")\""),
    ] {
        for depth in [1, 13, 60, 199, 5_000] {
            let text = format!("echo {}rm x{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(
                shell_action(
                    PermissionAction::Ask,
                    &[("echo *", PermissionAction::Allow)],
                    &text
                ),
                PermissionAction::Ask,
                "{open} {depth}"
            );
        }
    }
    for many in ["env ", "nice ", "find . -exec "] {
        let text = format!("{}git log", many.repeat(32 * 1024 / many.len() - 3));
        assert_eq!(
            shell_action(
                PermissionAction::Ask,
                &[("git *", PermissionAction::Allow)],
                &text
            ),
            PermissionAction::Ask,
            "{many}"
        );
    }
    let long = "echo a;".repeat(10_000);
    assert_eq!(
        shell_action(
            PermissionAction::Ask,
            &[("echo *", PermissionAction::Allow)],
            &long
        ),
        PermissionAction::Ask
    );
}

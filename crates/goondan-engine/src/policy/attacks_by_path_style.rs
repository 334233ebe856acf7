//! Attacks on path rules, one per row, on systems where a file has many names.

use goondan_spec::kinds::{MarkedArguments, PermissionAction, Permissions};
use serde_json::json;

use super::tests::rule;
use super::{PathArguments, PolicyQuestion, decide};
use goondan_core::path_style::PathStyle::{self, Mac, Unix, Windows};

/// Returns the action of one rule about `path`, with the opposite default.
fn rule_action(
    style: PathStyle,
    pattern: &str,
    action: PermissionAction,
    path: &str,
    is_tree: bool,
) -> PermissionAction {
    let default = if action == PermissionAction::Allow {
        PermissionAction::Deny
    } else {
        PermissionAction::Allow
    };
    let permissions = Permissions {
        default,
        rules: vec![rule(None, None, &[("path", pattern)], action)],
        sandbox: None,
    };
    let path_argument = vec!["path".to_owned()];
    let marked = if is_tree {
        MarkedArguments {
            trees: path_argument,
            ..MarkedArguments::default()
        }
    } else {
        MarkedArguments {
            paths: path_argument,
            ..MarkedArguments::default()
        }
    };
    let arguments = json!({ "path": path }).as_object().cloned().unwrap();
    let paths = PathArguments::in_style(style, &marked, &arguments);
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
fn deny_rules_match_all_names_of_a_file_on_macos_and_windows() {
    let denied = [
        (Mac, "keep/*", "KEEP/a"),
        (Mac, "KEEP/*", "keep/a"),
        (Mac, "keep/Straße", "keep/STRASSE"),
        (Windows, "keep/*", "KEEP/a"),
        (Windows, "keep/*", r"keep\a"),
        (Windows, "keep/*", r".\x\..\Keep\a"),
        (Windows, r"keep\*", "keep/a"),
        (Windows, "keep/*", "keep/a::$DATA"),
        (Windows, "keep/*", "keep./a"),
        (Windows, "keep/*", "keep /a"),
        (Windows, "keep/a", "keep/a. ."),
        (Windows, "keep/a", "keep/a:stream"),
        (Windows, "C:/keep/*", r"\\?\C:\keep\a"),
        (Windows, "C:/keep/*", r"c:\KEEP\a"),
    ];
    for (style, pattern, path) in denied {
        assert_eq!(
            rule_action(style, pattern, PermissionAction::Deny, path, false),
            PermissionAction::Deny,
            "{style:?} {pattern} {path}"
        );
    }
    // Unknown paths require an approval if a rule restricts something, and no pattern allows them.
    let odd = [
        "KEEPIT~1/a",
        "C:a",
        "x:y",
        "CON",
        r"\\.\pipe\x",
        "elsewhere/a.",
    ];
    for path in odd {
        assert_eq!(
            rule_action(Windows, "keep/*", PermissionAction::Deny, path, false),
            PermissionAction::Ask,
            "{path}"
        );
        assert_eq!(
            rule_action(Windows, "*", PermissionAction::Allow, path, false),
            PermissionAction::Deny,
            "{path}"
        );
    }
    println!(
        "attacks: paths, names of one file on other systems: {} refused",
        denied.len() + 2 * odd.len()
    );
}

#[test]
fn allow_rules_match_only_exact_names_on_every_system() {
    for style in [Unix, Mac, Windows] {
        assert_eq!(
            rule_action(style, "keep/*", PermissionAction::Allow, "keep/a", false),
            PermissionAction::Allow
        );
        assert_eq!(
            rule_action(style, "keep/*", PermissionAction::Allow, "KEEP/a", false),
            PermissionAction::Deny
        );
        assert_eq!(
            rule_action(style, "keep/*", PermissionAction::Allow, "keep/../a", false),
            PermissionAction::Deny
        );
    }
    assert_eq!(
        rule_action(Windows, "keep/*", PermissionAction::Allow, r"keep\a", false),
        PermissionAction::Allow
    );
    assert_eq!(
        rule_action(
            Windows,
            "keep/*",
            PermissionAction::Allow,
            r"keep\..\a",
            false
        ),
        PermissionAction::Deny
    );
    // On Unix, a backslash is part of the name.
    assert_eq!(
        rule_action(Unix, "keep/*", PermissionAction::Allow, r"keep\a", false),
        PermissionAction::Deny
    );
}

#[test]
fn deny_rules_do_not_match_names_of_other_files() {
    assert_eq!(
        rule_action(Unix, "keep/*", PermissionAction::Deny, "KEEP/a", false),
        PermissionAction::Allow
    );
    assert_eq!(
        rule_action(Unix, "keep/*", PermissionAction::Deny, r"keep\a", false),
        PermissionAction::Allow
    );
    assert_eq!(
        rule_action(Mac, "keep/*", PermissionAction::Deny, r"keep\a", false),
        PermissionAction::Allow
    );
}

#[test]
fn deny_rules_below_a_searched_directory_match_both_separators() {
    for (style, pattern, folder) in [
        (Windows, "a/keep/*", r".\A"),
        (Windows, r"a\keep\*", "a"),
        (Windows, "a/b/keep", r"a\b\"),
        (Mac, "a/keep/*", "A"),
    ] {
        assert_eq!(
            rule_action(style, pattern, PermissionAction::Deny, folder, true),
            PermissionAction::Ask,
            "{style:?} {pattern} {folder}"
        );
    }
    assert_eq!(
        rule_action(Windows, "a/keep/*", PermissionAction::Deny, "b", true),
        PermissionAction::Allow
    );
}

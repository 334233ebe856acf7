//! Attacks on rules about paths, a row each, on systems where one file has many names.

use goondan_spec::kinds::{Action, MarkedArguments, Permissions};
use serde_json::json;

use super::tests::rule;
use super::{PathArguments, PolicyQuestion, decide};
use goondan_core::path_style::PathStyle::{self, Mac, Unix, Windows};

/// What one rule about `path` makes of a call, where the default is the opposite.
fn action(style: PathStyle, pattern: &str, action: Action, path: &str, is_tree: bool) -> Action {
    let default = if action == Action::Allow {
        Action::Deny
    } else {
        Action::Allow
    };
    let permissions = Permissions {
        default,
        rules: vec![rule(None, None, &[("path", pattern)], action)],
        sandbox: None,
    };
    let named = vec!["path".to_owned()];
    let marked = match is_tree {
        true => MarkedArguments {
            trees: named,
            ..MarkedArguments::default()
        },
        false => MarkedArguments {
            paths: named,
            ..MarkedArguments::default()
        },
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
fn names_of_one_file_on_other_systems() {
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
            action(style, pattern, Action::Deny, path, false),
            Action::Deny,
            "{style:?} {pattern} {path}"
        );
    }
    // What nobody can tell is asked about where something is restricted, and allowed by no pattern.
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
            action(Windows, "keep/*", Action::Deny, path, false),
            Action::Ask,
            "{path}"
        );
        assert_eq!(
            action(Windows, "*", Action::Allow, path, false),
            Action::Deny,
            "{path}"
        );
    }
    println!(
        "attacks: paths, names of one file on other systems: {} refused",
        denied.len() + 2 * odd.len()
    );
}

#[test]
fn what_allows_is_exact_everywhere() {
    for style in [Unix, Mac, Windows] {
        assert_eq!(
            action(style, "keep/*", Action::Allow, "keep/a", false),
            Action::Allow
        );
        assert_eq!(
            action(style, "keep/*", Action::Allow, "KEEP/a", false),
            Action::Deny
        );
        assert_eq!(
            action(style, "keep/*", Action::Allow, "keep/../a", false),
            Action::Deny
        );
    }
    assert_eq!(
        action(Windows, "keep/*", Action::Allow, r"keep\a", false),
        Action::Allow
    );
    assert_eq!(
        action(Windows, "keep/*", Action::Allow, r"keep\..\a", false),
        Action::Deny
    );
    // There it is a name with a backslash in it.
    assert_eq!(
        action(Unix, "keep/*", Action::Allow, r"keep\a", false),
        Action::Deny
    );
}

#[test]
fn other_files_are_other_files_where_letters_count() {
    assert_eq!(
        action(Unix, "keep/*", Action::Deny, "KEEP/a", false),
        Action::Allow
    );
    assert_eq!(
        action(Unix, "keep/*", Action::Deny, r"keep\a", false),
        Action::Allow
    );
    assert_eq!(
        action(Mac, "keep/*", Action::Deny, r"keep\a", false),
        Action::Allow
    );
}

#[test]
fn what_is_below_a_folder_is_found_with_both_separators() {
    for (style, pattern, folder) in [
        (Windows, "a/keep/*", r".\A"),
        (Windows, r"a\keep\*", "a"),
        (Windows, "a/b/keep", r"a\b\"),
        (Mac, "a/keep/*", "A"),
    ] {
        assert_eq!(
            action(style, pattern, Action::Deny, folder, true),
            Action::Ask,
            "{style:?} {pattern} {folder}"
        );
    }
    assert_eq!(
        action(Windows, "a/keep/*", Action::Deny, "b", true),
        Action::Allow
    );
}

//! Suggested commands, with the options that make them apply to the same state as the current
//! command.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::commands::quoted;

/// State root from the command line. One from the environment also applies to the next command.
static STATE_ROOT: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Stores the state root for suggestions.
pub(crate) fn set_state_root(state_root: Option<&PathBuf>) {
    // Only tests set it twice.
    let _ = STATE_ROOT.set(state_root.cloned());
}

/// Returns the typed command with `more` added, quoted for a shell. Returns `None` if it contains a
/// password.
pub(crate) fn repeat_command(more: &str) -> Option<String> {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    repeated_command(&words, more)
}

/// Returns the command with `addition` inserted before `--`; `None` if an argument contains a
/// password.
fn repeated_command(words: &[String], addition: &str) -> Option<String> {
    if words.iter().any(|word| has_password(word)) {
        return None;
    }
    // Arguments after `--` are not options.
    let end = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let quoted_words = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>();
    let line = [
        vec!["gdn".to_owned()],
        quoted_words(&words[..end]),
        vec![addition.to_owned()],
        quoted_words(&words[end..]),
    ]
    .concat();
    Some(line.join(" "))
}

/// Returns true if the argument is a URL with a password, or a setting `password=`.
fn has_password(word: &str) -> bool {
    let authority = word
        .split_once("://")
        .map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    let user = authority
        .and_then(|authority| authority.rsplit_once('@'))
        .map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':')) || word.contains("password=")
}

/// Returns the `--state-root` option with a leading space, or an empty string.
pub(crate) fn state_root() -> String {
    let state_root_option = STATE_ROOT.get().and_then(Option::as_ref);
    state_root_option
        .map(|folder| option("--state-root", &folder.to_string_lossy()))
        .unwrap_or_default()
}

/// Returns an option and its value, with a leading space.
pub(crate) fn option(name: &str, value: &str) -> String {
    format!(" {name} {}", quoted(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<String> {
        line.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_suggested_command_repeats_all_typed_arguments() {
        let typed = words(&["conversation", "delete", "--project", "my hp", "a:main"]);
        let expected = "gdn conversation delete --project 'my hp' a:main --force";
        assert_eq!(
            repeated_command(&typed, "--force").as_deref(),
            Some(expected)
        );
        let typed = words(&["conversation", "delete", "--", "-a"]);
        assert_eq!(
            repeated_command(&typed, "--force").as_deref(),
            Some("gdn conversation delete --force -- -a")
        );
    }

    #[test]
    fn a_password_is_not_repeated() {
        for address in [
            "postgres://me:secret@box/db",
            "--store=postgres://me:secret@box",
            "x://box/db?password=s",
        ] {
            assert_eq!(
                repeated_command(&words(&["conversation", "delete", "a", address]), "--force"),
                None,
                "{address}"
            );
        }
        assert!(
            repeated_command(
                &words(&[
                    "conversation",
                    "delete",
                    "a",
                    "--store",
                    "postgres://me@box/db"
                ]),
                "--force"
            )
            .is_some()
        );
    }
}

//! Shell completion of commands, options and names from the surrounding project.
//!
//! A shell asks for completions by running `gdn` with [`COMPLETE_VARIABLE`] set. The current directory can
//! be untrusted at that time. Therefore nothing of the project is executed, and names with shell or
//! terminal metacharacters are not offered.

use std::path::PathBuf;
use std::sync::Arc;

use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Shells};
use goondan::StateRoot;
use goondan::spec::Bundle;
use goondan::spec::kinds::ToolEntry;

use crate::exit::CliError;
use crate::instances::{self, ConversationScope};

/// Variable with the name of a shell; if it is set, `gdn` prints completions for that shell and
/// exits.
pub(crate) const COMPLETE_VARIABLE: &str = "GOONDAN_COMPLETE";

/// Addition for zsh, which sources a file in `fpath` at the first completion. clap's script only
/// registers itself then, so the first completion would be empty.
const ZSH_AUTOLOAD_SCRIPT: &str =
    "[ \"$funcstack[1]\" != _gdn ] || _clap_dynamic_completer_gdn \"$@\"\n";

/// Returns the registration script for `shell`.
pub(crate) fn script(shell: Shell) -> Result<Vec<u8>, CliError> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let completer: &dyn EnvCompleter = shells
        .completer(&name)
        .ok_or_else(|| CliError::usage(format!("Completions for {name} are not supported.")))?;
    let mut script = Vec::new();
    completer.write_registration(COMPLETE_VARIABLE, "gdn", "gdn", "gdn", &mut script)?;
    if shell == Shell::Zsh {
        script.extend_from_slice(ZSH_AUTOLOAD_SCRIPT.as_bytes());
    }
    Ok(script)
}

/// Completes agent names of the project.
pub(crate) fn agents() -> ArgValueCandidates {
    complete_from_project(|bundle| {
        bundle
            .agents()
            .keys()
            .map(|id| id.name.to_string())
            .collect()
    })
}

/// Completes swarm names of the project.
pub(crate) fn swarms() -> ArgValueCandidates {
    complete_from_project(|bundle| {
        bundle
            .swarms()
            .keys()
            .map(|id| id.name.to_string())
            .collect()
    })
}

/// Completes connection names of the project.
pub(crate) fn connections() -> ArgValueCandidates {
    complete_from_project(|bundle| {
        bundle
            .connections()
            .keys()
            .map(|id| id.name.to_string())
            .collect()
    })
}

/// Completes names of tools that are MCP servers.
pub(crate) fn servers() -> ArgValueCandidates {
    complete_from_project(|bundle| {
        let servers = bundle
            .tools()
            .values()
            .filter(|tool| matches!(tool.spec.entry, ToolEntry::Mcp(_)));
        servers.map(|tool| tool.id.name.to_string()).collect()
    })
}

/// Completes names of tools that have a build.
pub(crate) fn builds() -> ArgValueCandidates {
    complete_from_project(|bundle| {
        bundle
            .builds()
            .iter()
            .map(|build| build.tool.name.to_string())
            .collect()
    })
}

/// Completes the tool exports that agents use, as far as the YAML declares them.
pub(crate) fn exports() -> ArgValueCandidates {
    complete_from_project(|bundle| {
        let used_tools = bundle.agents().values().flat_map(|agent| &agent.spec.tools);
        used_tools
            .flat_map(|used| {
                let exports = bundle.tools()[&used.tool].spec.exports.iter();
                let chosen = exports.filter(|export| used.selects(&export.name));
                chosen.map(|export| format!("{}__{}", used.tool.name, export.name))
            })
            .collect()
    })
}

/// Completes conversations of the project, or of all projects outside of a project.
pub(crate) fn instances() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let state_root = StateRoot::find(None);
        let scope = match current_project() {
            None => ConversationScope::Everywhere,
            Some(root) => match state_root.workspaces_of(&root) {
                Ok(workspaces) => ConversationScope::Project(root, workspaces),
                Err(_) => return Vec::new(),
            },
        };
        let instances_in_files = instances::in_files(&state_root, &scope).unwrap_or_default();
        candidates(
            instances_in_files
                .iter()
                .map(instances::FoundConversation::name)
                .collect(),
        )
    })
}

/// Completes names from a valid project. An invalid project offers none, because its names are
/// unknown.
fn complete_from_project(names: fn(&Bundle) -> Vec<String>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let bundle: Option<Arc<Bundle>> =
            current_project().and_then(|root| goondan::load(&root).bundle);
        bundle
            .map(|bundle| candidates(names(&bundle)))
            .unwrap_or_default()
    })
}

/// Returns the project in or around the current directory, if there is one.
fn current_project() -> Option<PathBuf> {
    let current_dir = std::env::current_dir().ok()?;
    if goondan::manifest_in(&current_dir).is_some() {
        Some(current_dir)
    } else {
        goondan::around(&current_dir)
    }
}

/// Returns the names that need no quoting in any shell, sorted and without duplicates.
fn candidates(mut names: Vec<String>) -> Vec<CompletionCandidate> {
    names.retain(|name| is_plain(name));
    names.sort();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns true if no shell interprets any character of `word` and it is not an option.
fn is_plain(word: &str) -> bool {
    let is_harmless_mark = |c: char| matches!(c, '-' | '_' | '.' | ':' | '@' | '/' | '+');
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || is_harmless_mark(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_shell_syntax_are_not_completed() {
        let hostile = [
            "$(id)",
            "`id`",
            "a b",
            "a;b",
            "-rf",
            "~root",
            "a\nb",
            "a\u{1b}[2J",
            "a\u{202e}b",
            "a*",
            "{a,b}",
            "",
        ];
        let names = hostile
            .iter()
            .chain(&["writer:main", "a.b_c-d@e", "writer:main"])
            .map(ToString::to_string);
        let offered = candidates(names.collect());
        let values: Vec<_> = offered
            .iter()
            .map(|one| one.get_value().to_string_lossy())
            .collect();
        assert_eq!(values, ["a.b_c-d@e", "writer:main"]);
    }
}

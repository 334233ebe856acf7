//! What shells complete to: commands and options, and the names of the project around the folder that somebody types in.
//!
//! A shell asks by running `gdn` with [`VARIABLE`] set, behind a key that the user presses while standing in a folder that may be
//! anybody's. So nothing of the project is executed, and no word is offered that means something to a shell or a terminal.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Shells};
use goondan::StateRoot;
use goondan::spec::Bundle;
use goondan::spec::kinds::Entry;

use crate::args::Cli;
use crate::exit::{CliError, Exit};
use crate::instances::{self, Scope};

/// Set to the name of a shell, it makes `gdn` answer that shell's question and end.
const VARIABLE: &str = "GOONDAN_COMPLETE";

/// Answers the shell that asks what a line may go on with; none where no shell asks.
pub(crate) fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    let name = std::env::var(VARIABLE)
        .ok()
        .filter(|name| !name.is_empty())?;
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&name) else {
        return Some(Exit::Usage.into());
    };
    let words = arguments
        .iter()
        .skip_while(|word| *word != "--")
        .skip(1)
        .cloned()
        .collect();
    let mut command = Cli::command();
    command.build();
    let mut answer = Vec::new();
    let found = shell.write_complete(
        &mut command,
        words,
        std::env::current_dir().ok().as_deref(),
        &mut answer,
    );
    let told = found.and_then(|()| std::io::stdout().lock().write_all(&answer));
    // Nobody reads an error there; the shell offers nothing.
    Some(told.map_or(Exit::Failure, |()| Exit::Ok).into())
}

/// zsh runs a file in its `fpath` when it completes for the first time. The script that clap makes only registers itself then,
/// and so would offer nothing that time.
const AUTOLOADED: &str = "[ \"$funcstack[1]\" != _gdn ] || _clap_dynamic_completer_gdn \"$@\"\n";

/// The script that makes a shell ask.
pub(crate) fn script(shell: Shell) -> Result<Vec<u8>, CliError> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let completer: &dyn EnvCompleter = shells
        .completer(&name)
        .ok_or_else(|| CliError::usage(format!("There are no completions for {name}.")))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "gdn", "gdn", "gdn", &mut script)?;
    if shell == Shell::Zsh {
        script.extend_from_slice(AUTOLOADED.as_bytes());
    }
    Ok(script)
}

/// The agents of the project.
pub(crate) fn agents() -> ArgValueCandidates {
    of_project(|bundle| {
        bundle
            .agents()
            .keys()
            .map(|id| id.name.to_string())
            .collect()
    })
}

/// Its swarms.
pub(crate) fn swarms() -> ArgValueCandidates {
    of_project(|bundle| {
        bundle
            .swarms()
            .keys()
            .map(|id| id.name.to_string())
            .collect()
    })
}

/// Its connections.
pub(crate) fn connections() -> ArgValueCandidates {
    of_project(|bundle| {
        bundle
            .connections()
            .keys()
            .map(|id| id.name.to_string())
            .collect()
    })
}

/// Its tools that are MCP servers.
pub(crate) fn servers() -> ArgValueCandidates {
    of_project(|bundle| {
        let servers = bundle
            .tools()
            .values()
            .filter(|tool| matches!(tool.spec.entry, Entry::Mcp(_)));
        servers.map(|tool| tool.id.name.to_string()).collect()
    })
}

/// Its tools that are built.
pub(crate) fn builds() -> ArgValueCandidates {
    of_project(|bundle| {
        bundle
            .builds()
            .iter()
            .map(|build| build.tool.name.to_string())
            .collect()
    })
}

/// What its agents may call, as far as the YAML says it.
pub(crate) fn exports() -> ArgValueCandidates {
    of_project(|bundle| {
        let used = bundle.agents().values().flat_map(|agent| &agent.spec.tools);
        used.flat_map(|used| {
            let exports = bundle.tools()[&used.tool].spec.exports.iter();
            let chosen = exports.filter(|export| {
                used.exports
                    .as_ref()
                    .is_none_or(|only| only.contains(&export.name))
            });
            chosen.map(|export| format!("{}__{}", used.tool.name, export.name))
        })
        .collect()
    })
}

/// The conversations of the project; of all projects outside of one.
pub(crate) fn instances() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let state_root = StateRoot::find(None);
        let scope = match project() {
            None => Scope::Everywhere,
            Some(root) => match state_root.workspaces_of(&root) {
                Ok(workspaces) => Scope::Project(root, workspaces),
                Err(_) => return Vec::new(),
            },
        };
        let found = instances::in_files(&state_root, &scope).unwrap_or_default();
        candidates(found.iter().map(instances::Found::name).collect())
    })
}

/// Names that a valid project holds. One with mistakes offers none: which names it would have is open.
fn of_project(names: fn(&Bundle) -> Vec<String>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let bundle: Option<Arc<Bundle>> = project().and_then(|root| goondan::load(&root).bundle);
        bundle
            .map(|bundle| candidates(names(&bundle)))
            .unwrap_or_default()
    })
}

/// The folder of the project around this one.
fn project() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    if goondan::manifest_in(&here).is_some() {
        Some(here)
    } else {
        goondan::around(&here)
    }
}

/// The words among `names` that any shell takes as they are, each once.
fn candidates(mut names: Vec<String>) -> Vec<CompletionCandidate> {
    names.retain(|name| is_plain(name));
    names.sort();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Whether a word is nothing but a word to every shell, and no option.
fn is_plain(word: &str) -> bool {
    let is_mark = |c: char| matches!(c, '-' | '_' | '.' | ':' | '@' | '/' | '+');
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || is_mark(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_means_something_to_a_shell_is_not_offered() {
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

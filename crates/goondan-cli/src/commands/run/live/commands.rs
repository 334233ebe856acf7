//! Lines that begin with a slash, and their completion.

use super::super::chat::{Typed, understand};

/// What the commands are, in a line each.
pub(super) const HELP: &str = "\
/help            this text
/agents          list the agents of the swarm
/agent NAME      talk to another agent
/key KEY         go on with another conversation
/clear           begin a new conversation
/cancel          cancel the turn that runs
/reload          reload the project
/usage           what models have taken in this chat
/reasoning       show the last reasoning in full
/export [FILE]   write the conversation to a file
/quit            leave
Enter sends, also while a turn runs: the input waits for its end. Alt-Enter begins a new line. Tab completes.
Ctrl-C cancels the turn, then clears the line, then leaves. Ctrl-D leaves. Ctrl-Z stops the chat until `fg`.";

const NAMES: [&str; 12] = [
    "/agent",
    "/agents",
    "/cancel",
    "/clear",
    "/exit",
    "/export",
    "/help",
    "/key",
    "/quit",
    "/reasoning",
    "/reload",
    "/usage",
];

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'l> {
    Agents,
    Cancel,
    Clear,
    Reload,
    Usage,
    Reasoning,
    Export(Option<&'l str>),
    /// What every chat knows.
    Plain(Typed<'l>),
}

pub(super) fn read(line: &str) -> Command<'_> {
    let trimmed = line.trim();
    let (command, argument) = trimmed
        .split_once(char::is_whitespace)
        .unwrap_or((trimmed, ""));
    let argument = argument.trim();
    match (command, argument) {
        ("/agents", "") => Command::Agents,
        ("/cancel", "") => Command::Cancel,
        ("/clear", "") => Command::Clear,
        ("/reload", "") => Command::Reload,
        ("/usage", "") => Command::Usage,
        ("/reasoning", "") => Command::Reasoning,
        ("/export", file) => Command::Export((!file.is_empty()).then_some(file)),
        _ => Command::Plain(understand(line)),
    }
}

/// How the text before the cursor goes on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Completion {
    /// What all candidates have in common, behind what stands there.
    pub(super) more: String,
    /// The candidates, where there are several.
    pub(super) candidates: Vec<String>,
}

/// Completes commands, and behind `/agent` the names of agents.
pub(super) fn complete(before: &str, agents: &[String]) -> Completion {
    let (begun, names): (&str, Vec<&str>) = match before.strip_prefix("/agent ") {
        Some(begun) => (
            begun.trim_start(),
            agents.iter().map(String::as_str).collect(),
        ),
        None if before.starts_with('/') && !before.contains(char::is_whitespace) => {
            (before, NAMES.to_vec())
        }
        None => return Completion::default(),
    };
    let fitting: Vec<&str> = names
        .into_iter()
        .filter(|name| name.starts_with(begun))
        .collect();
    match fitting.as_slice() {
        [] => Completion::default(),
        [only] => Completion {
            more: format!("{} ", &only[begun.len()..]),
            candidates: Vec::new(),
        },
        [first, ..] => {
            let common = |other: &&str| {
                let same = first
                    .char_indices()
                    .zip(other.chars())
                    .take_while(|((_, one), two)| one == two);
                same.last().map_or(0, |((at, one), _)| at + one.len_utf8())
            };
            let length = fitting.iter().map(common).min().unwrap_or(0);
            let candidates = fitting.iter().map(|name| (*name).to_owned()).collect();
            Completion {
                more: first[begun.len()..length].to_owned(),
                candidates,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_what_is_said() {
        assert_eq!(read("/usage "), Command::Usage);
        assert_eq!(read("/export a b"), Command::Export(Some("a b")));
        assert_eq!(read("/agent x"), Command::Plain(Typed::Agent("x")));
        assert_eq!(read("hi\nthere"), Command::Plain(Typed::Say("hi\nthere")));
        assert_eq!(read("/usages"), Command::Plain(Typed::Unknown("/usages")));
        let named = |line: &str| {
            line.starts_with('/')
                .then(|| line.split_whitespace().next())
                .flatten()
                .map(str::to_owned)
        };
        assert!(
            HELP.lines()
                .filter_map(named)
                .all(|name| NAMES.contains(&&*name)),
            "what help lists is completed"
        );
    }

    #[test]
    fn what_is_unique_is_completed_and_what_is_not_is_listed() {
        let agents = ["writer", "worker", "wörter"].map(str::to_owned);
        assert_eq!(complete("/us", &agents).more, "age ");
        let several = complete("/a", &agents);
        assert_eq!(
            (several.more.as_str(), several.candidates.as_slice()),
            ("gent", &["/agent".to_owned(), "/agents".to_owned()][..])
        );
        assert_eq!(complete("/agent w", &agents).candidates.len(), 3);
        assert_eq!(complete("/agent wr", &agents).more, "iter ");
        assert_eq!(complete("/agent wö", &agents).more, "rter ");
        assert_eq!(complete("hello", &agents), Completion::default());
        assert_eq!(complete("/key a", &agents), Completion::default());
    }
}

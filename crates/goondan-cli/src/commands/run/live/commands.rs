//! Slash commands and their completion.

use goondan::mcp::ServerPrompt;

use super::super::chat::{TypedLine, parse_typed_line};

/// Help, one line per command.
pub(super) const HELP: &str = "\
/help            this text
/agents          list the agents of the swarm
/agent NAME      talk to another agent
/key KEY         switch to another conversation
/clear           start a new conversation
/cancel          cancel the running turn
/reload          reload the project
/sessions        list the conversations
/tools           list the tools of the agent
/model           show the models of the agent
/permissions     show the permission rules of the agent
/usage           show the model usage of this chat
/context         show what fills the context window
/reasoning       show the last reasoning in full
/export [FILE]   write the conversation to a file
/quit            leave
@PATH attaches a file or an image. Enter sends; while a turn runs, the input waits for its end. Alt-Enter begins a new line. Tab \
    completes.
Ctrl-C cancels the turn, then clears the line, then leaves. Ctrl-D leaves. Ctrl-Z stops the chat \
    until `fg`.";

const COMMAND_NAMES: [&str; 17] = [
    "/agent",
    "/agents",
    "/cancel",
    "/clear",
    "/context",
    "/exit",
    "/export",
    "/help",
    "/key",
    "/model",
    "/permissions",
    "/quit",
    "/reasoning",
    "/reload",
    "/sessions",
    "/tools",
    "/usage",
];

/// Meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatCommand<'l> {
    Agents,
    Cancel,
    Clear,
    Reload,
    Sessions,
    Tools,
    Model,
    Permissions,
    Usage,
    Context,
    Reasoning,
    Export(Option<&'l str>),
    /// Command or input common to all chats.
    Plain(TypedLine<'l>),
}

/// Parses a typed line, with the additional commands of this chat.
pub(super) fn read(line: &str) -> ChatCommand<'_> {
    let trimmed = line.trim();
    let (command, argument) = trimmed
        .split_once(char::is_whitespace)
        .unwrap_or((trimmed, ""));
    let argument = argument.trim();
    match (command, argument) {
        ("/agents", "") => ChatCommand::Agents,
        ("/cancel", "") => ChatCommand::Cancel,
        ("/clear", "") => ChatCommand::Clear,
        ("/reload", "") => ChatCommand::Reload,
        ("/sessions", "") => ChatCommand::Sessions,
        ("/tools", "") => ChatCommand::Tools,
        ("/model", "") => ChatCommand::Model,
        ("/permissions", "") => ChatCommand::Permissions,
        ("/usage", "") => ChatCommand::Usage,
        ("/context", "") => ChatCommand::Context,
        ("/reasoning", "") => ChatCommand::Reasoning,
        ("/export", file) => ChatCommand::Export((!file.is_empty()).then_some(file)),
        _ => ChatCommand::Plain(parse_typed_line(line)),
    }
}

/// Completion of the text before the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandCompletion {
    /// Common continuation of all candidates.
    pub(super) more: String,
    /// Candidates, if there are several.
    pub(super) candidates: Vec<String>,
}

/// Completes commands, prompts of MCP servers, and agent names after `/agent`.
pub(super) fn complete(
    before: &str,
    agents: &[String],
    prompts: &[ServerPrompt],
) -> CommandCompletion {
    let prompts: Vec<String> = prompts.iter().map(ServerPrompt::command).collect();
    let (prefix, names): (&str, Vec<&str>) = match before.strip_prefix("/agent ") {
        Some(prefix) => (
            prefix.trim_start(),
            agents.iter().map(String::as_str).collect(),
        ),
        None if before.starts_with('/') && !before.contains(char::is_whitespace) => {
            let prompts = prompts.iter().map(String::as_str);
            (before, COMMAND_NAMES.into_iter().chain(prompts).collect())
        }
        None => return CommandCompletion::default(),
    };
    let candidates_with_prefix: Vec<&str> = names
        .into_iter()
        .filter(|name| name.starts_with(prefix))
        .collect();
    match candidates_with_prefix.as_slice() {
        [] => CommandCompletion::default(),
        [only] => CommandCompletion {
            more: format!("{} ", &only[prefix.len()..]),
            candidates: Vec::new(),
        },
        [first, ..] => {
            let shared_length = |other: &&str| {
                let same = first
                    .char_indices()
                    .zip(other.chars())
                    .take_while(|((_, one), two)| one == two);
                same.last().map_or(0, |((at, one), _)| at + one.len_utf8())
            };
            let length = candidates_with_prefix
                .iter()
                .map(shared_length)
                .min()
                .unwrap_or(0);
            let candidates = candidates_with_prefix
                .iter()
                .map(|name| (*name).to_owned())
                .collect();
            CommandCompletion {
                more: first[prefix.len()..length].to_owned(),
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
        assert_eq!(read("/usage "), ChatCommand::Usage);
        assert_eq!(read("/export a b"), ChatCommand::Export(Some("a b")));
        assert_eq!(read("/agent x"), ChatCommand::Plain(TypedLine::Agent("x")));
        assert_eq!(
            read("hi\nthere"),
            ChatCommand::Plain(TypedLine::Say("hi\nthere"))
        );
        assert_eq!(
            read("/usages"),
            ChatCommand::Plain(TypedLine::Unknown("/usages"))
        );
        let named = |line: &str| {
            line.starts_with('/')
                .then(|| line.split_whitespace().next())
                .flatten()
                .map(str::to_owned)
        };
        assert!(
            HELP.lines()
                .filter_map(named)
                .all(|name| COMMAND_NAMES.contains(&&*name)),
            "what help lists is completed"
        );
    }

    #[test]
    fn what_is_unique_is_completed_and_what_is_not_is_listed() {
        let agents = ["writer", "worker", "wörter"].map(str::to_owned);
        assert_eq!(complete("/us", &agents, &[]).more, "age ");
        let several = complete("/a", &agents, &[]);
        assert_eq!(
            (several.more.as_str(), several.candidates.as_slice()),
            ("gent", &["/agent".to_owned(), "/agents".to_owned()][..])
        );
        assert_eq!(complete("/agent w", &agents, &[]).candidates.len(), 3);
        assert_eq!(complete("/agent wr", &agents, &[]).more, "iter ");
        assert_eq!(complete("/agent wö", &agents, &[]).more, "rter ");
        assert_eq!(
            complete("hello", &agents, &[]),
            CommandCompletion::default()
        );
        assert_eq!(
            complete("/key a", &agents, &[]),
            CommandCompletion::default()
        );
    }
}

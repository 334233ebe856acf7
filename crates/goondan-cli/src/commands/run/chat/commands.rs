//! Slash commands and their completion.

use goondan::event::ConversationOperation;
use goondan::internal::untrusted_text;
use goondan::mcp::ServerPrompt;

/// Help about the commands, one line per command.
const COMMAND_HELP: &str = "\
/help            this text
/agents          list the agents of the swarm
/agent NAME      talk to another agent
/key KEY         switch to another conversation
/clear           start a new conversation
/cancel          cancel the running turn
/queue TEXT      send an input after the running turn
/reload          reload the project
/sessions        list the conversations
/tools           list the tools of the agent
/model           show the models of the agent
/permissions     show the permission rules of the agent
/usage           show the model usage of this chat
/context         show what fills the context window
/reasoning       show the last reasoning in full
/compact         replace the messages of the conversation with a summary
/undo            take back the last input and its answer
/export [FILE]   write the conversation to a file
/quit            leave
";

/// Help about the keys of the full chat.
const KEY_HELP: &str = "\
@PATH attaches a file or an image. Enter sends; while a turn runs, the input joins it before its \
    next step. Alt-Q queues the input until the turn ends. Alt-Enter begins a new line. Tab completes.
Ctrl-C cancels the turn, then clears the line, then leaves. Ctrl-D leaves. Ctrl-Z stops the chat \
    until `fg`.";

/// Help about the keys of the chat in plain lines.
const PLAIN_KEY_HELP: &str = "\
@PATH attaches a file or an image. Enter sends; while a turn runs, the input joins it before its \
    next step.
Ctrl-C cancels the turn, and leaves if no turn runs. Ctrl-D leaves.";

/// Returns the help, with the prompts of MCP servers, one line per prompt.
pub(super) fn help(is_plain: bool, prompts: &[ServerPrompt]) -> String {
    let keys = if is_plain { PLAIN_KEY_HELP } else { KEY_HELP };
    let line = |prompt: &ServerPrompt| {
        let usage = untrusted_text::line(prompt.usage()).to_string();
        format!(
            "\n{usage:<16} {}",
            untrusted_text::line(&prompt.prompt.description)
        )
    };
    format!("{COMMAND_HELP}{keys}") + &prompts.iter().map(line).collect::<String>()
}

fn command_names() -> impl Iterator<Item = &'static str> {
    let names = COMMAND_HELP
        .lines()
        .filter_map(|line| line.split(' ').next());
    names.chain(["/exit"])
}

/// Meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatCommand<'l> {
    Help,
    Agents,
    Agent(&'l str),
    Key(&'l str),
    Clear,
    Cancel,
    Queue(&'l str),
    Reload,
    Sessions,
    Tools,
    Model,
    Permissions,
    Usage,
    Context,
    Reasoning,
    Operate(ConversationOperation),
    Export(Option<&'l str>),
    Quit,
    /// A command such as `/server:prompt`, with its arguments.
    Prompt(&'l str),
    /// A command that does not exist.
    Unknown(&'l str),
    /// An input for the agent.
    Say(&'l str),
}

/// Parses a typed line.
pub(super) fn read(line: &str) -> ChatCommand<'_> {
    let line = line.trim();
    if !line.starts_with('/') {
        return ChatCommand::Say(line);
    }
    let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (command, argument.trim()) {
        ("/help", _) => ChatCommand::Help,
        ("/agents", "") => ChatCommand::Agents,
        ("/agent", name) if !name.is_empty() => ChatCommand::Agent(name),
        ("/key", key) if !key.is_empty() => ChatCommand::Key(key),
        ("/clear", "") => ChatCommand::Clear,
        ("/cancel", "") => ChatCommand::Cancel,
        ("/queue", text) if !text.is_empty() => ChatCommand::Queue(text),
        ("/reload", "") => ChatCommand::Reload,
        ("/sessions", "") => ChatCommand::Sessions,
        ("/tools", "") => ChatCommand::Tools,
        ("/model", "") => ChatCommand::Model,
        ("/permissions", "") => ChatCommand::Permissions,
        ("/usage", "") => ChatCommand::Usage,
        ("/context", "") => ChatCommand::Context,
        ("/reasoning", "") => ChatCommand::Reasoning,
        ("/compact", "") => ChatCommand::Operate(ConversationOperation::Compact),
        ("/undo", "") => ChatCommand::Operate(ConversationOperation::Undo),
        ("/export", file) => ChatCommand::Export((!file.is_empty()).then_some(file)),
        ("/quit" | "/exit", _) => ChatCommand::Quit,
        (command, _) if command.contains(':') => ChatCommand::Prompt(line),
        (command, _) => ChatCommand::Unknown(command),
    }
}

/// Returns the notice about a command that does not exist.
pub(super) fn unknown_command(line: &str) -> String {
    let command = line.split_whitespace().next().unwrap_or_default();
    format!(
        "Unknown command {}; /help lists the commands.",
        untrusted_text::line(command)
    )
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
            let mut names: Vec<&str> = command_names().collect();
            names.extend(prompts.iter().map(String::as_str));
            names.sort_unstable();
            (before, names)
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
                let common_characters = first
                    .char_indices()
                    .zip(other.chars())
                    .take_while(|((_, one), two)| one == two);
                common_characters
                    .last()
                    .map_or(0, |((at, one), _)| at + one.len_utf8())
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
    fn chat_commands_are_distinguished_from_inputs() {
        assert_eq!(read("/usage "), ChatCommand::Usage);
        assert_eq!(read("/exit"), ChatCommand::Quit);
        assert_eq!(read("/export a b"), ChatCommand::Export(Some("a b")));
        assert_eq!(read("/queue a b "), ChatCommand::Queue("a b"));
        assert_eq!(read("/agent x"), ChatCommand::Agent("x"));
        assert_eq!(
            read("/git:review a.rs"),
            ChatCommand::Prompt("/git:review a.rs")
        );
        assert_eq!(read(" hi\nthere "), ChatCommand::Say("hi\nthere"));
        for unknown in ["/queue", "/agent", "/usages", "/etc/passwd"] {
            assert_eq!(read(unknown), ChatCommand::Unknown(unknown));
        }
        let is_known = |name: &str| !matches!(read(&format!("{name} x")), ChatCommand::Unknown(_));
        let without = |name: &str| !matches!(read(name), ChatCommand::Unknown(_));
        assert!(
            command_names().all(|name| is_known(name) || without(name)),
            "help lists only known commands"
        );
    }

    #[test]
    fn unique_commands_are_completed_and_ambiguous_commands_listed() {
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

//! Line-mode chat at a terminal.

pub(super) mod chat_backend;
pub(super) mod history;
mod remote_backend;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use goondan::Input;
use goondan::event::FinishReason;
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::mcp::{PromptInput, ServerPrompt};
use goondan::spec::Code;
use goondan::start::swarm::DEFAULT_INSTANCE_KEY;
use rustyline::error::ReadlineError;
use rustyline::{DefaultEditor, ExternalPrinter};

use self::chat_backend::BackendEvent;
pub(super) use self::chat_backend::ChatBackend;
pub(super) use self::chat_backend::LocalBackend;
use self::history::InputHistory;
pub(super) use self::remote_backend::RemoteBackend;
use super::approval::PendingApproval;
use super::signals::StopSignal;
use super::terminal::Terminal;
use super::unprompted_answers::describe_event;
use super::view::TurnView;
use crate::exit::CliError;
use crate::output::screen::{self, OutputStream, TextOrigin};
use crate::output::{CommandOutput, PromptPrinter, style, turn_error, write_error};

const HELP: &str = "\
/help            this text
/agent NAME      talk to another agent of the swarm
/key KEY         switch to another conversation
/quit            leave (also Ctrl-D)
Ctrl-C cancels the running turn; pressed again, it quits at once.";

/// Meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypedLine<'a> {
    Nothing,
    Help,
    Quit,
    Agent(&'a str),
    Key(&'a str),
    Unknown(&'a str),
    /// A command such as `/server:prompt`, with its arguments.
    Prompt(&'a str),
    Say(&'a str),
}

/// Result of the prompt.
enum PromptResult {
    Text(String),
    Interrupt,
    End,
}

/// Prompt with a history that persists between chats.
struct ChatPrompt {
    editor: DefaultEditor,
    history: InputHistory,
    beside: Arc<SharedPrinter>,
}

/// Printer that writes above the line being typed.
type SharedPrinter = Mutex<PromptPrinter>;

/// Chats until the user leaves. A failed turn is shown, and the chat continues.
pub(super) async fn chat<P: ChatBackend>(
    mut partner: P,
    first: &Input,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let _terminal = Terminal::keep();
    let mut prompt = ChatPrompt::open(&partner.workspace_dir())?;
    let mut chat_target = ChatTarget::with(first);
    greet(&partner.swarm_name(), output)?;
    if let Some(notice) = continuation_notice(&partner, first).await {
        output.note(&notice)?;
    }
    partner.settle().await?;
    while !partner.is_stopping() {
        partner.signals().clear();
        let agent = chat_target
            .target
            .agent
            .clone()
            .unwrap_or_else(|| partner.entry_agent());
        let Some((again, line)) = type_line(
            prompt,
            format!("{}> ", untrusted_text::line(agent)),
            &mut partner,
            output,
        )
        .await?
        else {
            break;
        };
        prompt = again;
        partner.put_questions().await?;
        match chat_target.execute(line, output)? {
            ChatStep::Ask => {}
            ChatStep::Leave => break,
            ChatStep::Interrupt => {
                partner.stop(StopSignal::Interrupt)?;
                break;
            }
            ChatStep::Help => output.note(&help_with_prompts(HELP, &partner.prompts()))?,
            ChatStep::Prompt(line) => match partner.expand_prompt(&line).await {
                Some(Ok(PromptInput { text, files })) => {
                    output.note(&screen::escape_terminal_text(&text))?;
                    let target = chat_target.target.clone();
                    let input = Input {
                        text,
                        files,
                        ..target
                    };
                    run_turn(&mut partner, input, output).await?;
                }
                Some(Err(error)) => write_error(&error, false)?,
                None => output.note(&unknown_command(&line))?,
            },
            ChatStep::Say(input) => run_turn(&mut partner, *input, output).await?,
        }
    }
    partner.leave().await
}

/// Target of the chat, and whether the last line was Ctrl-C.
struct ChatTarget {
    target: Input,
    is_interrupted: bool,
}

/// Next step of the chat.
enum ChatStep {
    /// Read another line.
    Ask,
    Leave,
    /// Leave, because Ctrl-C was pressed twice.
    Interrupt,
    /// Show the commands.
    Help,
    /// Run a turn with a prompt of an MCP server.
    Prompt(String),
    /// Run a turn.
    Say(Box<Input>),
}

impl ChatTarget {
    /// Creates the target from the agent and the conversation of `first`, without its text.
    fn with(first: &Input) -> Self {
        ChatTarget {
            target: Input {
                text: String::new(),
                ..first.clone()
            },
            is_interrupted: false,
        }
    }

    /// Executes a typed line.
    fn execute(
        &mut self,
        line: PromptResult,
        output: &CommandOutput,
    ) -> Result<ChatStep, CliError> {
        let line = match line {
            PromptResult::Text(line) => line,
            PromptResult::End => return Ok(ChatStep::Leave),
            PromptResult::Interrupt if self.is_interrupted => return Ok(ChatStep::Interrupt),
            PromptResult::Interrupt => {
                self.is_interrupted = true;
                output.note("Press Ctrl-C again to quit, or keep typing.")?;
                return Ok(ChatStep::Ask);
            }
        };
        self.is_interrupted = false;
        match parse_typed_line(&line) {
            TypedLine::Nothing => {}
            TypedLine::Help => return Ok(ChatStep::Help),
            TypedLine::Quit => return Ok(ChatStep::Leave),
            TypedLine::Agent(name) => self.target.agent = Some(name.to_owned()),
            TypedLine::Key(key) => self.target.instance_key = Some(key.to_owned()),
            TypedLine::Unknown(command) => output.note(&unknown_command(command))?,
            TypedLine::Prompt(line) => return Ok(ChatStep::Prompt(line.to_owned())),
            TypedLine::Say(text) => {
                return Ok(ChatStep::Say(Box::new(Input {
                    text: text.to_owned(),
                    ..self.target.clone()
                })));
            }
        }
        Ok(ChatStep::Ask)
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

/// Returns the help with the prompts of MCP servers, one line per prompt.
pub(super) fn help_with_prompts(help: &str, prompts: &[ServerPrompt]) -> String {
    let line = |prompt: &ServerPrompt| {
        let usage = untrusted_text::line(prompt.usage()).to_string();
        format!(
            "\n{usage:<16} {}",
            untrusted_text::line(&prompt.prompt.description)
        )
    };
    std::iter::once(help.to_owned())
        .chain(prompts.iter().map(line))
        .collect()
}

/// Prints the name of the swarm, and how to get help.
fn greet(swarm: &str, output: &CommandOutput) -> Result<(), CliError> {
    let faint = style::FAINT;
    output.note(&format!(
        "{faint}Swarm {}. /help lists commands, Ctrl-D leaves.{faint:#}",
        untrusted_text::line(swarm)
    ))
}

/// Returns a notice if the chat continues a conversation that has messages.
pub(super) async fn continuation_notice<P: ChatBackend>(
    partner: &P,
    first: &Input,
) -> Option<String> {
    let agent = first.agent.clone();
    let key = first.instance_key.as_deref();
    let id = InstanceId::new(
        agent.unwrap_or_else(|| partner.entry_agent()),
        key.unwrap_or(DEFAULT_INSTANCE_KEY),
    );
    let count = match partner.message_count(&id).await {
        0 => return None,
        1 => "1 message".to_owned(),
        count => format!("{count} messages"),
    };
    Some(format!(
        "Continuing the conversation {} ({count}). `/key NAME` selects another conversation.",
        untrusted_text::line(id)
    ))
}

/// Waits for a line, and shows notices above it.
/// These are reloads, approval requests and the ends of turns that no input began. Returns `None`
/// if a signal ends the chat.
async fn type_line<P: ChatBackend>(
    prompt: ChatPrompt,
    text: String,
    partner: &mut P,
    output: &CommandOutput,
) -> Result<Option<(ChatPrompt, PromptResult)>, CliError> {
    let printer = Arc::clone(&prompt.beside);
    let mut typed = std::pin::pin!(prompt.ask(text));
    loop {
        let event = tokio::select! {
            typed = &mut typed => return typed.map(Some),
            event = partner.next() => event?,
        };
        match event {
            BackendEvent::Event(event) => describe_event(&event)
                .into_iter()
                .for_each(|notice| print_above_prompt(&printer, &notice)),
            BackendEvent::Question(question) => {
                print_above_prompt(&printer, &approval_notice(&question));
                partner.put_off(question);
            }
            BackendEvent::Reloaded(notice) if !output.quiet => {
                print_above_prompt(&printer, &notice)
            }
            BackendEvent::Reloaded(_) | BackendEvent::Begun(_) | BackendEvent::Ended(_) => {}
            BackendEvent::Signal(signal) => {
                partner.stop(signal)?;
                return Ok(None);
            }
        }
    }
}

/// Returns the notice about an approval request that arrived while the user types.
fn approval_notice(question: &PendingApproval) -> String {
    let request = &question.request;
    let (conversation, tool) = (
        untrusted_text::line(&request.instance),
        untrusted_text::line(&request.tool_name),
    );
    format!("{conversation} requests approval to call {tool}. Press Enter to see the request.")
}

/// Writes above the line being typed.
fn print_above_prompt(shared_printer: &SharedPrinter, notice: &str) {
    let mut printer = shared_printer
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    // A closed terminal ends the chat anyway.
    let _ = printer.print(format!("{}\n", screen::escape_terminal_text(notice)));
}

/// Runs one turn. Returns only errors that end the chat.
async fn run_turn<P: ChatBackend>(
    partner: &mut P,
    input: Input,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let mut view = TurnView::text(output);
    let result = match partner.say(input, &mut view).await {
        Ok(result) => result,
        Err(error) if partner.is_stopping() || error.silent || error.is_stop() => {
            return Err(error);
        }
        Err(error) => return Ok(write_error(&error, false)?),
    };
    view.end(&result)?;
    match turn_error(&result) {
        Some(_) if result.finish_reason == FinishReason::Cancelled => output.note("Cancelled."),
        Some(error) => Ok(write_error(&error, false)?),
        None => Ok(()),
    }
}

/// Parses a typed line: a slash command, or an input for the agent.
pub(super) fn parse_typed_line(line: &str) -> TypedLine<'_> {
    let line = line.trim();
    if line.is_empty() {
        return TypedLine::Nothing;
    }
    if !line.starts_with('/') {
        return TypedLine::Say(line);
    }
    let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (command, argument.trim()) {
        ("/help", _) => TypedLine::Help,
        ("/quit" | "/exit", _) => TypedLine::Quit,
        ("/agent", name) if !name.is_empty() => TypedLine::Agent(name),
        ("/key", key) if !key.is_empty() => TypedLine::Key(key),
        (command, _) if command.contains(':') => TypedLine::Prompt(line),
        _ => TypedLine::Unknown(command),
    }
}

impl ChatPrompt {
    /// Opens the prompt with the history of earlier chats.
    fn open(workspace: &Path) -> Result<Self, CliError> {
        let history = InputHistory::of(workspace);
        let mut editor = DefaultEditor::new().map_err(terminal_error)?;
        for line in history.lines() {
            editor.add_history_entry(line).map_err(terminal_error)?;
        }
        let printer: PromptPrinter = match editor.create_external_printer() {
            Ok(printer) => Box::new(printer),
            Err(_) => Box::new(FallbackPrinter),
        };
        Ok(ChatPrompt {
            editor,
            history,
            beside: Arc::new(Mutex::new(printer)),
        })
    }

    /// Reads a line on a blocking thread, and returns the prompt with it.
    async fn ask(mut self, text: String) -> Result<(Self, PromptResult), CliError> {
        let answer = tokio::task::spawn_blocking(move || {
            let line = self.read(&text);
            (self, line)
        });
        let (prompt, line) = answer.await.map_err(std::io::Error::other)?;
        Ok((prompt, line?))
    }

    /// Reads a line, and adds it to the history if it is not blank.
    fn read(&mut self, text: &str) -> Result<PromptResult, CliError> {
        match self.editor.readline(text) {
            Ok(line) => {
                if !line.trim().is_empty() {
                    self.history.remember(&line);
                    self.editor
                        .add_history_entry(&line)
                        .map_err(terminal_error)?;
                }
                Ok(PromptResult::Text(line))
            }
            Err(ReadlineError::Interrupted) => Ok(PromptResult::Interrupt),
            Err(ReadlineError::Eof) => Ok(PromptResult::End),
            Err(error) => Err(terminal_error(error)),
        }
    }
}

/// Fallback printer, for terminals on which the editor can't write above the line.
struct FallbackPrinter;

impl ExternalPrinter for FallbackPrinter {
    fn print(&mut self, text: String) -> rustyline::Result<()> {
        Ok(screen::write(OutputStream::Err, TextOrigin::Ours, &text)?)
    }
}

/// Returns the error of a terminal that can't be used.
fn terminal_error(error: ReadlineError) -> CliError {
    CliError::failure(
        Code::INTERNAL_ERROR,
        format!("The terminal can't be used: {error}."),
    )
    .suggest("Use `--input TEXT` instead of the chat.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_unless_it_begins_with_a_slash() {
        assert_eq!(parse_typed_line("  "), TypedLine::Nothing);
        assert_eq!(parse_typed_line(" hello "), TypedLine::Say("hello"));
        assert_eq!(parse_typed_line("/help"), TypedLine::Help);
        assert_eq!(parse_typed_line("/exit"), TypedLine::Quit);
        assert_eq!(
            parse_typed_line("/agent writer"),
            TypedLine::Agent("writer")
        );
        assert_eq!(
            parse_typed_line("/git:review a.rs"),
            TypedLine::Prompt("/git:review a.rs")
        );
        assert_eq!(parse_typed_line("/agent"), TypedLine::Unknown("/agent"));
        assert_eq!(
            parse_typed_line("/etc/passwd"),
            TypedLine::Unknown("/etc/passwd")
        );
    }
}

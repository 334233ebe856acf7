//! A person at a terminal.

mod elsewhere;
pub(super) mod history;
pub(super) mod partner;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use goondan::Input;
use goondan::event::FinishReason;
use goondan::inside::shown;
use goondan::spec::Code;
use rustyline::error::ReadlineError;
use rustyline::{DefaultEditor, ExternalPrinter};

pub(super) use self::elsewhere::There;
use self::history::History;
pub(super) use self::partner::Here;
use self::partner::News;
pub(super) use self::partner::Partner;
use super::answers::unasked_words;
use super::approval::Question;
use super::signals::Signal;
use super::terminal::Terminal;
use super::view::View;
use crate::exit::CliError;
use crate::output::screen::{self, Stream, Words};
use crate::output::{Output, Printer, style, turn_error, write_error};

const HELP: &str = "\
/help            this text
/agent NAME      talk to another agent of the swarm
/key KEY         go on with another conversation
/quit            leave (also Ctrl-D)
Ctrl-C cancels the running turn; pressed again it quits at once.";

/// What a typed line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed<'a> {
    Nothing,
    Help,
    Quit,
    Agent(&'a str),
    Key(&'a str),
    Unknown(&'a str),
    Say(&'a str),
}

/// What came from the prompt.
enum Line {
    Text(String),
    Interrupt,
    End,
}

/// A prompt with a history that outlives the process.
struct Prompt {
    editor: DefaultEditor,
    history: History,
    beside: Arc<Beside>,
}

/// Writes while somebody types.
type Beside = Mutex<Printer>;

/// Chats until the person leaves. A turn that fails is shown and the chat goes on.
pub(super) async fn chat<P: Partner>(
    mut partner: P,
    first: &Input,
    output: &Output,
) -> Result<(), CliError> {
    let _terminal = Terminal::keep();
    let mut prompt = Prompt::open(&partner.workspace_dir())?;
    let mut talk = Talk::with(first);
    greet(&partner.swarm_name(), output)?;
    partner.settle().await?;
    while !partner.is_stopping() {
        partner.signals().clear();
        let who = talk
            .target
            .agent
            .clone()
            .unwrap_or_else(|| partner.entry_agent());
        let Some((again, line)) = type_line(
            prompt,
            format!("{}> ", shown::line(who)),
            &mut partner,
            output,
        )
        .await?
        else {
            break;
        };
        prompt = again;
        partner.put_questions().await?;
        match talk.take(line, output)? {
            Next::Ask => {}
            Next::Leave => break,
            Next::Interrupt => {
                partner.stop(Signal::Interrupt)?;
                break;
            }
            Next::Say(input) => say(&mut partner, *input, output).await?,
        }
    }
    partner.leave().await
}

/// To whom is talked, and whether the last line was Ctrl-C.
struct Talk {
    target: Input,
    is_interrupted: bool,
}

/// How the chat goes on.
enum Next {
    /// With another line.
    Ask,
    /// Not at all.
    Leave,
    /// Not at all: Ctrl-C was pressed twice.
    Interrupt,
    /// With a turn.
    Say(Box<Input>),
}

impl Talk {
    fn with(first: &Input) -> Self {
        Talk {
            target: Input {
                text: String::new(),
                ..first.clone()
            },
            is_interrupted: false,
        }
    }

    /// Does what a line asks for.
    fn take(&mut self, line: Line, output: &Output) -> Result<Next, CliError> {
        let line = match line {
            Line::Text(line) => line,
            Line::End => return Ok(Next::Leave),
            Line::Interrupt if self.is_interrupted => return Ok(Next::Interrupt),
            Line::Interrupt => {
                self.is_interrupted = true;
                output.note("Press Ctrl-C again to quit, or go on typing.")?;
                return Ok(Next::Ask);
            }
        };
        self.is_interrupted = false;
        match understand(&line) {
            Typed::Nothing => {}
            Typed::Help => output.note(HELP)?,
            Typed::Quit => return Ok(Next::Leave),
            Typed::Agent(name) => self.target.agent = Some(name.to_owned()),
            Typed::Key(key) => self.target.instance_key = Some(key.to_owned()),
            Typed::Unknown(command) => {
                output.note(&format!(
                    "There is no {}; /help lists what there is.",
                    shown::line(command)
                ))?;
            }
            Typed::Say(text) => {
                return Ok(Next::Say(Box::new(Input {
                    text: text.to_owned(),
                    ..self.target.clone()
                })));
            }
        }
        Ok(Next::Ask)
    }
}

fn greet(swarm: &str, output: &Output) -> Result<(), CliError> {
    let faint = style::FAINT;
    output.note(&format!(
        "{faint}Swarm {}. /help lists commands, Ctrl-D leaves.{faint:#}",
        shown::line(swarm)
    ))
}

/// Waits for a line; meanwhile the project may be reloaded, and turns that no input began may end or ask something. `None`
/// where a signal ends the chat.
async fn type_line<P: Partner>(
    prompt: Prompt,
    text: String,
    partner: &mut P,
    output: &Output,
) -> Result<Option<(Prompt, Line)>, CliError> {
    let beside = Arc::clone(&prompt.beside);
    let mut typed = std::pin::pin!(prompt.ask(text));
    loop {
        let news = tokio::select! {
            typed = &mut typed => return typed.map(Some),
            news = partner.next() => news?,
        };
        match news {
            News::Event(event) => unasked_words(&event)
                .into_iter()
                .for_each(|words| tell(&beside, &words)),
            News::Question(question) => {
                tell(&beside, &question_words(&question));
                partner.put_off(question);
            }
            News::Reloaded(words) if !output.quiet => tell(&beside, &words),
            News::Reloaded(_) | News::Begun(_) | News::Ended(_) => {}
            News::Signal(signal) => {
                partner.stop(signal)?;
                return Ok(None);
            }
        }
    }
}

fn question_words(question: &Question) -> String {
    let request = &question.request;
    let (who, tool) = (
        shown::line(&request.instance),
        shown::line(&request.tool_name),
    );
    format!("{who} asks whether it may call {tool}. Press Enter to see the question.")
}

/// Writes above the line that is being typed.
fn tell(beside: &Beside, words: &str) {
    let mut printer = beside.lock().unwrap_or_else(PoisonError::into_inner);
    // A terminal that is gone ends the chat by itself.
    let _ = printer.print(format!("{}\n", screen::harmless(words)));
}

/// One turn of the chat. Only what ends the chat is an error here.
async fn say<P: Partner>(partner: &mut P, input: Input, output: &Output) -> Result<(), CliError> {
    let mut view = View::text(output);
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

pub(super) fn understand(line: &str) -> Typed<'_> {
    let line = line.trim();
    if line.is_empty() {
        return Typed::Nothing;
    }
    if !line.starts_with('/') {
        return Typed::Say(line);
    }
    let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (command, argument.trim()) {
        ("/help", _) => Typed::Help,
        ("/quit" | "/exit", _) => Typed::Quit,
        ("/agent", name) if !name.is_empty() => Typed::Agent(name),
        ("/key", key) if !key.is_empty() => Typed::Key(key),
        _ => Typed::Unknown(command),
    }
}

impl Prompt {
    /// Opens the terminal, with the history of earlier chats.
    fn open(workspace: &Path) -> Result<Self, CliError> {
        let history = History::of(workspace);
        let mut editor = DefaultEditor::new().map_err(terminal_error)?;
        for line in history.lines() {
            editor.add_history_entry(line).map_err(terminal_error)?;
        }
        let printer: Printer = match editor.create_external_printer() {
            Ok(printer) => Box::new(printer),
            Err(_) => Box::new(Behind),
        };
        Ok(Prompt {
            editor,
            history,
            beside: Arc::new(Mutex::new(printer)),
        })
    }

    /// Waits for a line on a thread that may block; the prompt comes back with it.
    async fn ask(mut self, text: String) -> Result<(Self, Line), CliError> {
        let answer = tokio::task::spawn_blocking(move || {
            let line = self.read(&text);
            (self, line)
        });
        let (prompt, line) = answer.await.map_err(std::io::Error::other)?;
        Ok((prompt, line?))
    }

    fn read(&mut self, text: &str) -> Result<Line, CliError> {
        match self.editor.readline(text) {
            Ok(line) => {
                if !line.trim().is_empty() {
                    self.history.remember(&line);
                    self.editor
                        .add_history_entry(&line)
                        .map_err(terminal_error)?;
                }
                Ok(Line::Text(line))
            }
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupt),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(terminal_error(error)),
        }
    }
}

/// Writes behind what is typed, on a terminal that can do no more.
struct Behind;

impl ExternalPrinter for Behind {
    fn print(&mut self, words: String) -> rustyline::Result<()> {
        Ok(screen::write(Stream::Err, Words::Ours, &words)?)
    }
}

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
        assert_eq!(understand("  "), Typed::Nothing);
        assert_eq!(understand(" hello "), Typed::Say("hello"));
        assert_eq!(understand("/help"), Typed::Help);
        assert_eq!(understand("/exit"), Typed::Quit);
        assert_eq!(understand("/agent writer"), Typed::Agent("writer"));
        assert_eq!(understand("/agent"), Typed::Unknown("/agent"));
        assert_eq!(understand("/etc/passwd"), Typed::Unknown("/etc/passwd"));
    }
}

//! A chat that has the terminal: a prompt that can always be typed at, what goes on above it, and everything else above that, in
//! the terminal's own history.
//!
//! [`Chat`] owns all of it and waits for whatever happens next. What it shows goes through `output::screen`, as everything does.

mod asking;
mod commands;
mod editor;
mod export;
mod keyboard;
mod keys;
mod line;
mod markdown;
mod os;
mod pane;
mod reasoning;
mod stage;

use std::collections::VecDeque;
use std::time::Duration;

use futures::FutureExt;
use goondan::Input;
use goondan::event::{FinishReason, TurnResult};
use goondan::ids::InstanceId;
use goondan::inside::shown;
use goondan::ports::approval::ApprovalAnswer;

use self::asking::Asking;
use self::editor::Editor;
use self::keys::Key;
use self::os::{Os, Told};
use self::pane::Pane;
use self::stage::Stage;
use super::approval::Question;
use super::chat::history::History;
use super::chat::partner::{News, Partner};
use super::signals::Signal;
use crate::exit::CliError;
use crate::output::{Output, Size, screen, style, turn_error, write_error};

/// How often times are drawn while something goes on.
const TICK: Duration = Duration::from_millis(200);

/// So many news are taken before the screen is drawn again.
const AT_ONCE: usize = 512;

/// Whether there is a terminal that such a chat can have.
pub(super) fn is_possible(output: &Output) -> bool {
    let is_terminal =
        Output::stdin_is_terminal() && Output::stdout_is_terminal() && Output::stderr_is_terminal();
    let is_able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    is_terminal && is_able && !output.quiet && !output.json
}

/// Chats until the person leaves.
pub(super) async fn chat<P: Partner>(
    partner: P,
    first: &Input,
    output: &Output,
) -> Result<(), CliError> {
    let os = Os::listen()?;
    let stage = Stage::enter()?;
    let mut chat = Chat::new(partner, stage, os, first, output);
    let faint = style::FAINT;
    chat.tell_kindly(
        &format!(
            "Swarm {}. /help lists commands, Ctrl-D leaves.",
            shown::line(chat.partner.swarm_name())
        ),
        faint,
    );
    let ended = chat.run().await;
    let Chat {
        mut partner,
        stage,
        questions,
        ..
    } = chat;
    questions
        .into_iter()
        .for_each(|question| partner.put_off(question));
    drop(stage);
    // Where the terminal is gone, the swarm still ends as it should.
    let left = partner.leave().await;
    ended.and(left)
}

/// A chat.
struct Chat<P> {
    partner: P,
    stage: Stage,
    os: Os,
    pane: Pane,
    editor: Editor,
    history: History,
    /// Who is talked with.
    target: Input,
    /// Inputs that wait for the end of the turn.
    queue: VecDeque<Input>,
    /// The turn that runs, of which conversation; `None` within where that is not known yet.
    turn: Option<Option<InstanceId>>,
    is_cancelling: bool,
    asking: Option<Asking>,
    /// Questions that wait.
    questions: VecDeque<Question>,
    /// A word beside the prompt, until the next key.
    notice: Option<String>,
    /// The key that was pressed last and leaves where it is pressed again.
    leaves_again: Option<Key>,
    /// The job is stopped: nothing is drawn.
    is_lent: bool,
}

/// What happens next.
enum Happened {
    Key(Key),
    News(News),
    Os(Told),
    /// The question that stands is gone, and why.
    Withdrawn(&'static str),
    /// Some time has passed.
    Tick,
}

/// Whether the chat goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Leave,
}

impl<P: Partner> Chat<P> {
    fn new(partner: P, stage: Stage, os: Os, first: &Input, output: &Output) -> Self {
        let history = History::of(&partner.workspace_dir());
        let target = Input {
            text: String::new(),
            ..first.clone()
        };
        let mine = conversation(&target, &partner);
        Chat {
            partner,
            stage,
            os,
            pane: Pane::new(mine, output),
            editor: Editor::with(history.lines().to_vec()),
            history,
            target,
            queue: VecDeque::new(),
            turn: None,
            is_cancelling: false,
            asking: None,
            questions: VecDeque::new(),
            notice: None,
            leaves_again: None,
            is_lent: false,
        }
    }

    async fn run(&mut self) -> Result<(), CliError> {
        loop {
            self.paint()?;
            let happened = self.happens().await?;
            if self.take(happened).await? == Next::Leave {
                return Ok(());
            }
            for _ in 0..AT_ONCE {
                let Some(news) = self.partner.next().now_or_never() else {
                    break;
                };
                if self.take(Happened::News(news?)).await? == Next::Leave {
                    return Ok(());
                }
            }
            if self.asking.is_none() && self.editor.is_empty() {
                self.put_question()?;
            }
        }
    }

    /// Waits for whatever is next.
    async fn happens(&mut self) -> Result<Happened, CliError> {
        let (is_busy, asking) = (self.turn.is_some() || self.pane.is_busy(), &self.asking);
        let withdrawn = async {
            match asking {
                Some(asking) => asking.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            key = self.stage.keyboard.next() => Ok(Happened::Key(key)),
            told = self.os.next() => Ok(Happened::Os(told)),
            why = withdrawn => Ok(Happened::Withdrawn(why)),
            news = self.partner.next() => news.map(Happened::News),
            () = tokio::time::sleep(TICK), if is_busy => Ok(Happened::Tick),
        }
    }

    async fn take(&mut self, happened: Happened) -> Result<Next, CliError> {
        match happened {
            Happened::Key(key) => return self.key(key).await,
            Happened::News(news) => return self.news(news).await,
            Happened::Os(told) => self.told(told)?,
            Happened::Withdrawn(why) => {
                if let Some(asking) = self.asking.take() {
                    asking.withdraw(why)?;
                }
            }
            Happened::Tick => {}
        }
        Ok(Next::GoOn)
    }

    fn told(&mut self, told: Told) -> Result<(), CliError> {
        match told {
            Told::Resized => {}
            Told::Stop => {
                self.stage.lend()?;
                self.is_lent = os::stop();
                if !self.is_lent {
                    self.stage.again()?;
                }
            }
            Told::Continued => {
                self.is_lent = false;
                self.stage.again()?;
            }
        }
        Ok(())
    }

    async fn news(&mut self, news: News) -> Result<Next, CliError> {
        match news {
            News::Begun(id) => {
                self.pane.begin(&id);
                self.turn = Some(Some(id));
            }
            News::Event(event) => self
                .pane
                .show(&event, |event_id| self.partner.is_mine(event_id)),
            News::Question(question) => self.questions.push_back(question),
            News::Reloaded(words) => self.pane.tell(&words),
            News::Signal(Signal::Interrupt) => {
                let next = self.interrupt().await?;
                if next == Next::GoOn {
                    // It was dealt with: the next one is no reason to end at once.
                    self.partner.signals().clear();
                }
                return Ok(next);
            }
            News::Signal(signal) => {
                self.leave_by(signal)?;
                return Ok(Next::Leave);
            }
            News::Ended(result) => self.ended(result).await?,
        }
        Ok(Next::GoOn)
    }

    /// A turn is over; the next input has its turn.
    async fn ended(&mut self, result: Result<Box<TurnResult>, CliError>) -> Result<(), CliError> {
        // What was said beside the prompt about the turn.
        if self.is_cancelling || self.leaves_again == Some(Key::Leave) {
            self.notice = None;
            self.leaves_again = None;
        }
        self.turn = None;
        self.is_cancelling = false;
        match result {
            Ok(result) => self.show_end(&result)?,
            Err(error) if error.silent || error.is_stop() => return Err(error),
            Err(error) => {
                self.pane.flush()?;
                write_error(&error, false)?;
            }
        }
        match self.queue.pop_front() {
            Some(input) => self.send(input).await,
            None => Ok(()),
        }
    }

    fn show_end(&mut self, result: &TurnResult) -> Result<(), CliError> {
        self.pane.end(result);
        match turn_error(result) {
            Some(_) if result.finish_reason == FinishReason::Cancelled => {
                self.pane.tell("Cancelled.")
            }
            Some(error) => {
                self.pane.flush()?;
                write_error(&error, false)?;
            }
            None => {}
        }
        Ok(())
    }

    /// Hands an input in, or has it wait.
    async fn say(&mut self, input: Input) -> Result<(), CliError> {
        match self.turn {
            Some(_) => {
                self.queue.push_back(input);
                Ok(())
            }
            None => self.send(input).await,
        }
    }

    async fn send(&mut self, input: Input) -> Result<(), CliError> {
        let who = input
            .agent
            .clone()
            .unwrap_or_else(|| self.partner.entry_agent());
        self.pane.said(&who, &input.text);
        match self.partner.send(input).await {
            Ok(()) => {
                self.turn = Some(None);
                Ok(())
            }
            Err(error) if self.partner.is_stopping() || error.silent => Err(error),
            Err(error) => {
                self.pane.flush()?;
                Ok(write_error(&error, false)?)
            }
        }
    }

    /// Shows the first question that still waits for an answer. No key that was pressed before answers it.
    fn put_question(&mut self) -> Result<(), CliError> {
        while self.asking.is_none() {
            let Some(question) = self.questions.pop_front() else {
                return Ok(());
            };
            if question.is_withdrawn() {
                continue;
            }
            self.pane.flush()?;
            self.asking = Some(Asking::put(question, size())?);
            // Its prompt is drawn behind that: whoever waits for the prompt is heard.
            self.stage.keyboard.forget();
        }
        Ok(())
    }

    fn answer(&mut self, answer: ApprovalAnswer) -> Result<(), CliError> {
        self.asking
            .take()
            .map_or(Ok(()), |asking| asking.close(answer))
    }

    /// The chat ends because of a signal, and says so once the terminal is as it was.
    fn leave_by(&mut self, signal: Signal) -> Result<(), CliError> {
        // The terminal may be gone, which may be the reason.
        let _ = self.pane.flush();
        let _ = self
            .asking
            .take()
            .map(|asking| asking.close(ApprovalAnswer::NobodyThere));
        let _ = screen::lift();
        self.partner.stop(signal)
    }

    fn tell_kindly(&mut self, words: &str, style: anstyle::Style) {
        self.pane.tell(&format!("{style}{words}{style:#}"));
    }
}

/// The conversation that an input goes to.
fn conversation<P: Partner>(input: &Input, partner: &P) -> InstanceId {
    let agent = input.agent.clone().unwrap_or_else(|| partner.entry_agent());
    InstanceId::new(agent, input.instance_key.as_deref().unwrap_or("main"))
}

/// The size of the terminal, without its last column: what ends there may be wrapped.
fn size() -> Size {
    let (columns, rows) = terminal_size::terminal_size_of(std::io::stdout())
        .map_or((80, 24), |(width, height)| {
            (usize::from(width.0), usize::from(height.0))
        });
    Size {
        columns: columns.saturating_sub(1).max(2),
        rows: rows.max(2),
    }
}

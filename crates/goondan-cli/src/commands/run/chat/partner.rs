//! Whom a person chats with: a swarm that this process runs, or one that another process runs.

use std::collections::VecDeque;
use std::path::PathBuf;

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::Input;
use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;

use super::super::approval::Question;
use super::super::session::{OnInterrupt, Session, not_accepted};
use super::super::signals::{Signal, Signals};
use super::super::view::View;
use crate::exit::CliError;

/// What a chat is told.
pub(in crate::commands::run) enum News {
    /// An input was accepted, for this conversation.
    Begun(InstanceId),
    /// Something happened in the swarm.
    Event(SwarmEvent),
    /// Somebody has to answer.
    Question(Question),
    /// The project was reloaded, or what was built for it.
    Reloaded(String),
    /// Somebody wants the command to end.
    Signal(Signal),
    /// The turn of the input is over.
    Ended(Result<Box<TurnResult>, CliError>),
}

/// The other side of a chat.
pub(in crate::commands::run) trait Partner {
    fn swarm_name(&self) -> String;
    fn entry_agent(&self) -> String;
    fn agents(&self) -> Vec<String>;
    /// Where the swarm keeps its state.
    fn workspace_dir(&self) -> PathBuf;
    /// The folder of the project.
    fn project(&self) -> PathBuf;
    fn signals(&mut self) -> &mut Signals;

    /// Waits for the next thing to tell. It may be dropped while it waits.
    async fn next(&mut self) -> Result<News, CliError>;
    /// Hands an input in. What comes of it is news.
    async fn send(&mut self, input: Input) -> Result<(), CliError>;
    /// Whether an event is an input of this chat.
    fn is_mine(&self, event_id: &str) -> bool;
    /// Cancels what runs in the conversation `id`; whether anything did.
    async fn cancel(&mut self, id: &InstanceId) -> Result<bool, CliError>;
    /// Reloads the project. What comes of it is news; `false` where that can't be asked for here.
    fn reload(&mut self) -> bool;

    /// Waits for turns of an earlier run.
    async fn settle(&mut self) -> Result<(), CliError>;
    /// Keeps a question until somebody has time for it.
    fn put_off(&mut self, question: Question);
    /// Puts the questions that were put off.
    async fn put_questions(&mut self) -> Result<(), CliError>;
    /// One turn, from the input to the end, shown in `view`.
    async fn say(&mut self, input: Input, view: &mut View) -> Result<TurnResult, CliError>;

    /// Ends the chat because of `signal`.
    fn stop(&mut self, signal: Signal) -> Result<(), CliError>;
    fn is_stopping(&self) -> bool;
    /// Ends the chat. An error where a signal was the reason.
    async fn leave(self) -> Result<(), CliError>;
}

/// The swarm that this process runs.
pub(in crate::commands::run) struct Here {
    session: Session,
    /// What is told first.
    told: VecDeque<News>,
    /// The event of the last turn, and its end while it runs.
    event_id: String,
    turn: Option<BoxFuture<'static, Option<TurnResult>>>,
}

impl Here {
    pub(in crate::commands::run) fn with(session: Session) -> Self {
        Here {
            session,
            told: VecDeque::new(),
            event_id: String::new(),
            turn: None,
        }
    }
}

impl Partner for Here {
    fn swarm_name(&self) -> String {
        self.session.swarm.name()
    }

    fn entry_agent(&self) -> String {
        self.session.swarm.entry_agent()
    }

    fn agents(&self) -> Vec<String> {
        self.session.swarm.agents()
    }

    fn workspace_dir(&self) -> PathBuf {
        self.session.swarm.workspace_dir()
    }

    fn project(&self) -> PathBuf {
        self.session.swarm.bundle().root().to_owned()
    }

    fn signals(&mut self) -> &mut Signals {
        &mut self.session.signals
    }

    async fn next(&mut self) -> Result<News, CliError> {
        if let Some(news) = self.told.pop_front() {
            return Ok(news);
        }
        let Here { session, turn, .. } = self;
        let over = async {
            match turn {
                Some(over) => over.await,
                None => std::future::pending().await,
            }
        };
        let result = tokio::select! {
            biased;
            signal = session.signals.next() => return Ok(News::Signal(signal)),
            // What was published before the end of a turn is told before it.
            Some(event) = session.events.recv() => return Ok(News::Event(event)),
            Some(question) = session.questions.next() => return Ok(News::Question(question)),
            words = session.reloads.next() => return Ok(News::Reloaded(words)),
            result = over => result,
        };
        self.turn = None;
        Ok(News::Ended(
            result
                .map(Box::new)
                .ok_or_else(|| self.session.ended_early()),
        ))
    }

    async fn send(&mut self, input: Input) -> Result<(), CliError> {
        let turn = self.session.swarm.send(input).await.map_err(not_accepted)?;
        self.told.push_back(News::Begun(turn.instance.clone()));
        self.event_id.clone_from(&turn.event_id);
        self.turn = Some(turn.result().boxed());
        Ok(())
    }

    fn is_mine(&self, event_id: &str) -> bool {
        self.event_id == event_id
    }

    async fn cancel(&mut self, id: &InstanceId) -> Result<bool, CliError> {
        Ok(self.session.swarm.cancel(id).await)
    }

    fn reload(&mut self) -> bool {
        let swarm = self.session.swarm.clone();
        tokio::spawn(async move { drop(swarm.reload().await) });
        true
    }

    async fn settle(&mut self) -> Result<(), CliError> {
        self.session.settle().await
    }

    fn put_off(&mut self, question: Question) {
        self.session.questions.put_off(question);
    }

    async fn put_questions(&mut self) -> Result<(), CliError> {
        self.session.put_questions().await
    }

    async fn say(&mut self, input: Input, view: &mut View) -> Result<TurnResult, CliError> {
        Ok(self
            .session
            .follow(input, view, OnInterrupt::CancelTurn)
            .await?
            .result)
    }

    fn stop(&mut self, signal: Signal) -> Result<(), CliError> {
        self.session.stop(signal)
    }

    fn is_stopping(&self) -> bool {
        self.session.is_stopping()
    }

    async fn leave(self) -> Result<(), CliError> {
        self.session.shut_down().await
    }
}

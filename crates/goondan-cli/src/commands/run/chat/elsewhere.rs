//! A chat with a swarm that another process runs. The swarm goes on, and so does a turn that is left.

use std::path::PathBuf;

use goondan::Input;
use goondan::event::TurnResult;
use goondan::ids::InstanceId;
use goondan_serve::client::Told;
use goondan_serve::wire::InputState;

use super::super::approval::Question;
use super::super::elsewhere::{Elsewhere, OnSignal, Talking, cut_off, instance};
use super::super::signals::{Signal, Signals};
use super::super::view::View;
use super::partner::{News, Partner};
use crate::exit::CliError;

/// The swarm of another process.
pub(in crate::commands::run) struct There {
    there: Elsewhere,
    /// The turn that runs, and its state once it was accepted.
    turn: Option<(Talking, Option<InputState>)>,
    stopped_by: Option<Signal>,
}

impl There {
    pub(in crate::commands::run) fn with(there: Elsewhere) -> Self {
        There {
            there,
            turn: None,
            stopped_by: None,
        }
    }

    fn over(&mut self, result: Result<TurnResult, CliError>) -> News {
        self.turn = None;
        News::Ended(result.map(Box::new))
    }
}

impl Partner for There {
    fn swarm_name(&self) -> String {
        self.there.swarm().name.clone()
    }

    fn entry_agent(&self) -> String {
        self.there.swarm().entry_agent.clone()
    }

    fn agents(&self) -> Vec<String> {
        self.there.swarm().agents.clone()
    }

    fn workspace_dir(&self) -> PathBuf {
        self.there.workspace().dir.clone()
    }

    fn project(&self) -> PathBuf {
        let last = self.there.workspace().last_generation().ok().flatten();
        last.map_or_else(|| PathBuf::from("."), |last| last.root)
    }

    fn signals(&mut self) -> &mut Signals {
        self.there.signals()
    }

    async fn next(&mut self) -> Result<News, CliError> {
        loop {
            let Some((talking, state)) = &mut self.turn else {
                return Ok(News::Signal(self.there.signals().next().await));
            };
            let told = tokio::select! {
                biased;
                signal = self.there.signals().next() => return Ok(News::Signal(signal)),
                told = talking.listening.next() => told,
                Some(question) = talking.questions.next() => return Ok(News::Question(question)),
            };
            match told {
                Some(Ok(Told::Accepted(accepted))) => {
                    let id = instance(&accepted);
                    *state = Some(accepted);
                    return Ok(News::Begun(id));
                }
                Some(Ok(Told::Happened(event))) => return Ok(News::Event(event)),
                Some(Ok(Told::Result(state))) => {
                    let result = state.result.ok_or_else(cut_off);
                    return Ok(self.over(result));
                }
                Some(Ok(Told::Asked(_) | Told::Closed(_))) => {}
                Some(Err(error)) => return Ok(self.over(Err(error.into()))),
                None => return Ok(self.over(Err(cut_off()))),
            }
        }
    }

    async fn send(&mut self, input: Input) -> Result<(), CliError> {
        self.turn = Some((self.there.talk(input).await?, None));
        Ok(())
    }

    /// Nothing else is told here.
    fn is_mine(&self, _: &str) -> bool {
        true
    }

    async fn cancel(&mut self, _: &InstanceId) -> Result<bool, CliError> {
        let Some((_, Some(state))) = &self.turn else {
            return Ok(false);
        };
        self.there.cancel(state).await?;
        Ok(true)
    }

    fn reload(&mut self) -> bool {
        false
    }

    async fn settle(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    fn put_off(&mut self, _: Question) {}

    async fn put_questions(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    async fn say(&mut self, input: Input, view: &mut View) -> Result<TurnResult, CliError> {
        Ok(self.there.say(input, view, OnSignal::Cancel).await?.result)
    }

    fn stop(&mut self, signal: Signal) -> Result<(), CliError> {
        self.stopped_by.get_or_insert(signal);
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stopped_by.is_some()
    }

    async fn leave(self) -> Result<(), CliError> {
        self.stopped_by.map_or(Ok(()), |signal| {
            Err(CliError::stopped(signal.exit(), "Interrupted."))
        })
    }
}

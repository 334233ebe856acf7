//! A chat with a swarm that another process runs.

use goondan::inside::shown;
use goondan::{Input, StateRoot};

use super::super::elsewhere::{Elsewhere, OnSignal};
use super::super::terminal::Terminal;
use super::super::view::View;
use super::{Next, Prompt, Talk, greet, said};
use crate::exit::{CliError, Exit};
use crate::output::{Output, write_error};

/// Chats until the person leaves. The swarm goes on, and so does a turn that is left.
pub(in crate::commands::run) async fn chat(
    mut there: Elsewhere,
    first: &Input,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let _terminal = Terminal::keep();
    let mut prompt = Prompt::open(state_root)?;
    let mut talk = Talk::with(first);
    greet(&there.swarm().name, output)?;
    loop {
        there.signals().clear();
        let who = talk.target.agent.clone().unwrap_or_else(|| there.swarm().entry_agent.clone());
        let asked = prompt.ask(format!("{}> ", shown::line(who)));
        let line = tokio::select! {
            answer = asked => {
                let (again, line) = answer?;
                prompt = again;
                line
            }
            signal = there.signals().next() => return Err(CliError::stopped(signal.exit(), "Interrupted.")),
        };
        match talk.take(line, output)? {
            Next::Ask => {}
            Next::Leave => return Ok(()),
            Next::Interrupt => return Err(CliError::stopped(Exit::Interrupt, "Interrupted.")),
            Next::Say(input) => say(&mut there, *input, output).await?,
        }
    }
}

/// One turn of the chat. Only what ends the chat is an error here.
async fn say(there: &mut Elsewhere, input: Input, output: &Output) -> Result<(), CliError> {
    let mut view = View::text(output);
    match there.say(input, &mut view, OnSignal::Cancel).await {
        Ok(ended) => said(&mut view, &ended.result, output),
        Err(error) if error.silent || matches!(error.exit, Exit::Interrupt | Exit::Terminate) => Err(error),
        Err(error) => Ok(write_error(&error, false)?),
    }
}

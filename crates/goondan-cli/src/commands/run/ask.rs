//! One input, one answer.

use goondan::{Input, Swarm};

use super::OutputFormat;
use super::follow::{follow, shut_down};
use super::interrupts::Interrupts;
use super::view::View;
use crate::exit::CliError;
use crate::output::{Output, TurnReport, turn_error};

/// Asks once and prints what comes back in the wanted form.
pub(super) async fn ask(swarm: &Swarm, input: Input, format: OutputFormat, output: &Output) -> Result<(), CliError> {
    let mut interrupts = Interrupts::listen();
    let mut events = swarm.subscribe();
    let mut view = match format {
        OutputFormat::Text => View::text(output),
        OutputFormat::Json => View::silent(),
        OutputFormat::StreamJson => View::lines(output),
    };
    let followed = follow(swarm, input, &mut events, &mut interrupts, &mut view, output).await?;
    view.end(&followed.result)?;
    let report = TurnReport::new(None, &followed.facts, &followed.result);
    match format {
        OutputFormat::Text => {}
        OutputFormat::Json if Output::stdout_is_terminal() => output.json_pretty(&report)?,
        OutputFormat::Json | OutputFormat::StreamJson => output.json_line(&report)?,
    }
    shut_down(swarm, &mut interrupts).await?;
    turn_error(&followed.result).map_or(Ok(()), Err)
}

//! A run with one input: sends the input, shows its turn and reports the result.

use goondan::Input;

use super::OutputFormat;
use super::client::{SwarmClient, TurnFailure, follow, follow_chain};
use super::view::TurnView;
use crate::output::CommandOutput;

/// Sends one input and prints the answer in the requested format. Fails with the error of the turn.
pub(super) async fn ask<C: SwarmClient>(
    client: &mut C,
    input: Input,
    format: OutputFormat,
    output: &CommandOutput,
) -> Result<(), TurnFailure> {
    let mut view = match format {
        OutputFormat::Text => TurnView::text(output),
        OutputFormat::Json => TurnView::silent(),
        OutputFormat::StreamJson => TurnView::lines(output),
    };
    client.send(input).await?;
    let mut followed = follow(client, &mut view, output).await?;
    view.end(&followed.result)?;
    follow_chain(&mut followed, client, &mut view, output).await?;
    let error = followed.take_error();
    match format {
        OutputFormat::Text => {}
        OutputFormat::Json if CommandOutput::stdout_is_terminal() => {
            output.json_pretty(&followed.report())?
        }
        OutputFormat::Json | OutputFormat::StreamJson => output.json_line(&followed.report())?,
    }
    error.map_or(Ok(()), |error| Err(error.into()))
}

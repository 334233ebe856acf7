//! One input, one answer.

use goondan::Input;

use super::OutputFormat;
use super::session::{OnInterrupt, RunSession};
use super::view::TurnView;
use crate::exit::CliError;
use crate::output::{CommandOutput, turn_error};

/// Sends one input and prints the answer in the requested format.
pub(super) async fn ask(
    mut session: RunSession,
    input: Input,
    format: OutputFormat,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let mut view = match format {
        OutputFormat::Text => TurnView::text(output),
        OutputFormat::Json => TurnView::silent(),
        OutputFormat::StreamJson => TurnView::lines(output),
    };
    let followed = session.follow(input, &mut view, OnInterrupt::Finish).await;
    let mut followed = match followed {
        Ok(followed) => followed,
        Err(error) => {
            // The first error counts.
            let _ = session.shut_down().await;
            return Err(error);
        }
    };
    view.end(&followed.result)?;
    session.follow_chain(&mut followed, &mut view).await?;
    let error = turn_error(&followed.result).or_else(|| followed.later_error.take());
    let report = followed.report(&session);
    match format {
        OutputFormat::Text => {}
        OutputFormat::Json if CommandOutput::stdout_is_terminal() => output.json_pretty(&report)?,
        OutputFormat::Json | OutputFormat::StreamJson => output.json_line(&report)?,
    }
    let shutdown_outcome = session.shut_down().await;
    match error {
        Some(error) => Err(error),
        None => shutdown_outcome,
    }
}

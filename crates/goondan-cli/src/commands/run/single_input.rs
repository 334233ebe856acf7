//! One input, one answer.

use goondan::Input;
use goondan::event::FinishReason;

use super::OutputFormat;
use super::session::{OnInterrupt, RunSession};
use super::view::TurnView;
use crate::exit::CliError;
use crate::output::{CommandOutput, turn_error};

/// Message after a signal, if the turn did not finish in time.
const GRACE_PERIOD_OVER: &str =
    "Interrupted; the turn did not end within the grace period and was cancelled.";

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
    let mut followed = session
        .follow(input, &mut view, OnInterrupt::Finish)
        .await?;
    view.end(&followed.result)?;
    session.follow_chain(&mut followed, &mut view).await?;
    let (reason, error) = (followed.result.finish_reason, turn_error(&followed.result));
    let error = error.or_else(|| followed.later_error.take());
    let report = followed.report(&session);
    match format {
        OutputFormat::Text => {}
        OutputFormat::Json if CommandOutput::stdout_is_terminal() => output.json_pretty(&report)?,
        OutputFormat::Json | OutputFormat::StreamJson => output.json_line(&report)?,
    }
    let shutdown_outcome = session.shut_down().await;
    match error {
        Some(error) if reason == FinishReason::Cancelled => Err(match shutdown_outcome {
            Err(interruption) => CliError {
                message: GRACE_PERIOD_OVER.to_owned(),
                ..interruption
            },
            Ok(()) => error,
        }),
        Some(error) => Err(error),
        None => shutdown_outcome,
    }
}

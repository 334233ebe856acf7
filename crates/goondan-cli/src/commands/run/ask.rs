//! One input, one answer.

use goondan::Input;
use goondan::runtime::event::FinishReason;

use super::OutputFormat;
use super::session::{OnInterrupt, Session};
use super::view::View;
use crate::exit::CliError;
use crate::output::{Output, TurnReport, turn_error};

/// Asks once and prints what comes back in the wanted form.
pub(super) async fn ask(
    mut session: Session,
    input: Input,
    format: OutputFormat,
    output: &Output,
) -> Result<(), CliError> {
    let mut view = match format {
        OutputFormat::Text => View::text(output),
        OutputFormat::Json => View::silent(),
        OutputFormat::StreamJson => View::lines(output),
    };
    let followed = session.follow(input, &mut view, OnInterrupt::Finish).await?;
    view.end(&followed.result)?;
    let report = TurnReport::new(None, &followed.facts, &followed.result);
    match format {
        OutputFormat::Text => {}
        OutputFormat::Json if Output::stdout_is_terminal() => output.json_pretty(&report)?,
        OutputFormat::Json | OutputFormat::StreamJson => output.json_line(&report)?,
    }
    let ended = session.shut_down().await;
    match turn_error(&followed.result) {
        // A signal may be the reason; then its exit code counts.
        Some(error) if followed.result.finish_reason == FinishReason::Cancelled => ended.and(Err(error)),
        Some(error) => Err(error),
        None => ended,
    }
}

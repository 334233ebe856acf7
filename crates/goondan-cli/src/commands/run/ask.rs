//! One input, one answer.

use goondan::Input;
use goondan::event::FinishReason;

use super::OutputFormat;
use super::session::{OnInterrupt, Session};
use super::view::View;
use crate::exit::CliError;
use crate::output::{Output, turn_error};

/// What is said where a signal came and the turn did not finish in time.
const OUT_OF_TIME: &str =
    "Interrupted; the turn was not over within the grace period and was cancelled.";

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
        OutputFormat::Json if Output::stdout_is_terminal() => output.json_pretty(&report)?,
        OutputFormat::Json | OutputFormat::StreamJson => output.json_line(&report)?,
    }
    let ended = session.shut_down().await;
    match error {
        Some(error) if reason == FinishReason::Cancelled => Err(match ended {
            Err(stopped) => CliError {
                message: OUT_OF_TIME.to_owned(),
                ..stopped
            },
            Ok(()) => error,
        }),
        Some(error) => Err(error),
        None => ended,
    }
}

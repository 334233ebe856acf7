//! The past as OpenTelemetry spans.

use goondan::event::RuntimeEvent;
use goondan::ports::clock::SystemClock;
use goondan::spec::Code;
use goondan::telemetry::{Endpoint, Poster, Settings, identity, requests};

use crate::exit::CliError;
use crate::output::Output;

/// Sends the spans that the events make to the receiver that the environment names; with `--json`, prints the requests
/// instead, one a line.
pub(super) async fn send(events: &[RuntimeEvent], output: &Output) -> Result<(), CliError> {
    let settings = Settings::read(|name| std::env::var(name).ok());
    let settings = settings
        .ok_or_else(|| CliError::configuration("OTEL_SDK_DISABLED switches telemetry off."))?;
    for problem in &settings.problems {
        output.note(&format!("{problem}."))?;
    }
    let requests = requests(events, &settings, &identity(None, &SystemClock));
    if output.json {
        return requests
            .iter()
            .try_for_each(|request| output.json_line(request));
    }
    let endpoint = settings.traces.clone().ok_or_else(no_receiver)?;
    let spans: usize = requests.iter().map(|request| request.spans().count()).sum();
    if spans == 0 {
        return output.note("No turn has ended that could be sent.");
    }
    let place = post(endpoint, &requests).await?;
    output.note(&format!("{spans} spans were sent to {place}."))
}

/// Posts all of them, and gives back where they went.
async fn post(
    endpoint: Endpoint,
    requests: &[goondan::telemetry::otlp::TracesRequest],
) -> Result<String, CliError> {
    let poster = Poster::new(endpoint);
    let place = poster.place();
    let refused = |reason: &str| {
        CliError::failure(Code::TELEMETRY_RECEIVER, format!("The receiver at {place} takes no spans: {reason}."))
            .suggest("Check `OTEL_EXPORTER_OTLP_ENDPOINT`: it names the HTTP port of the receiver, usually 4318.")
    };
    for request in requests {
        let left_out = poster
            .post(request)
            .await
            .map_err(|error| refused(&error.message))?;
        if let Some(left_out) = left_out {
            return Err(refused(&left_out.error_message));
        }
    }
    Ok(place)
}

fn no_receiver() -> CliError {
    CliError::configuration("No receiver of telemetry is named.").suggest(
        "Set `OTEL_EXPORTER_OTLP_ENDPOINT`, such as to http://localhost:4318; `--json` prints the spans instead.",
    )
}

//! Past turns as OpenTelemetry spans.

use goondan::event::RuntimeEvent;
use goondan::ports::clock::SystemClock;
use goondan::spec::Code;
use goondan::start::telemetry::{OtlpClient, OtlpEndpoint, TelemetrySettings, identity, requests};

use crate::exit::CliError;
use crate::output::CommandOutput;

/// Sends the spans to the OTLP endpoint from the environment.
/// With `--json`, prints one request per line instead.
pub(super) async fn send(events: &[RuntimeEvent], output: &CommandOutput) -> Result<(), CliError> {
    let settings = TelemetrySettings::read(|name| std::env::var(name).ok());
    let settings = settings
        .ok_or_else(|| CliError::configuration("Telemetry is disabled by OTEL_SDK_DISABLED."))?;
    for problem in &settings.problems {
        output.note(&format!("{problem}."))?;
    }
    let requests = requests(events, &settings, &identity(None, &SystemClock));
    if output.json {
        return requests
            .iter()
            .try_for_each(|request| output.json_line(request));
    }
    let endpoint = settings.traces.clone().ok_or_else(no_endpoint_error)?;
    let spans: usize = requests.iter().map(|request| request.spans().count()).sum();
    if spans == 0 {
        return output.note("There are no finished turns to send.");
    }
    let endpoint_url = post(endpoint, &requests).await?;
    output.note(&format!("Sent {spans} spans to {endpoint_url}."))
}

/// Posts all requests and returns the endpoint.
async fn post(
    endpoint: OtlpEndpoint,
    requests: &[goondan::start::telemetry::otlp::TracesRequest],
) -> Result<String, CliError> {
    let poster = OtlpClient::new(endpoint);
    let endpoint_url = poster.display_url();
    let rejection_error = |reason: &str| {
        CliError::failure(
            Code::TELEMETRY_RECEIVER,
            format!("The OTLP endpoint {endpoint_url} rejected the spans: {reason}."),
        )
        .suggest(
            "Check `OTEL_EXPORTER_OTLP_ENDPOINT`: it must name the HTTP port of the collector, \
                usually 4318.",
        )
    };
    for request in requests {
        let rejection = poster
            .post(request)
            .await
            .map_err(|error| rejection_error(&error.message))?;
        if let Some(rejection) = rejection {
            return Err(rejection_error(&rejection.error_message));
        }
    }
    Ok(endpoint_url)
}

/// Returns the error of a missing OTLP endpoint.
fn no_endpoint_error() -> CliError {
    CliError::configuration("No OTLP endpoint is set.").suggest(
        "Set `OTEL_EXPORTER_OTLP_ENDPOINT`, for example to http://localhost:4318; `--json` prints \
        the spans instead.",
    )
}

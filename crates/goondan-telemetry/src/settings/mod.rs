//! Settings from the standard `OTEL_*` variables.

use std::collections::BTreeMap;
use std::time::Duration;

use goondan_core::caller::{CallerTrace, TraceParent};
use goondan_core::ids::TraceContext;
use goondan_core::ports::tracing::{ForwardCallerTrace, TracePolicy};
use goondan_spec::Secret;
use percent_encoding::percent_decode_str;
use url::Url;

/// Default maximum number of queued spans.
const DEFAULT_QUEUE_SPANS: usize = 2_048;

/// Default maximum number of spans in a request.
const DEFAULT_BATCH_SPANS: usize = 512;

/// Default maximum wait of a span for a full batch.
const DEFAULT_SCHEDULE_DELAY: Duration = Duration::from_secs(5);

/// Default timeout of a request.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Destination and options of the export. Read only from the environment of the process: a project
/// must not choose where its data is sent.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// Endpoint for spans. Default: none.
    pub traces: Option<OtlpEndpoint>,
    /// Resource attributes, in addition to gdn's own.
    pub resource: BTreeMap<String, String>,
    /// Selection of traces.
    pub sampler: TraceSampler,
    /// The sampling decision of a caller with its own trace overrides the sampler.
    pub caller_decides: bool,
    /// Includes the content of messages from models, tools and users.
    pub content: bool,
    /// Maximum number of queued spans; further ones are dropped.
    pub queue: usize,
    /// Maximum number of spans in a request.
    pub batch: usize,
    /// Maximum wait of a span for a full batch.
    pub delay: Duration,
    /// Warnings about invalid variables, which are ignored.
    pub problems: Vec<String>,
}

/// An OTLP endpoint.
#[derive(Debug, Clone)]
pub struct OtlpEndpoint {
    /// Complete URL.
    pub url: Url,
    /// Encoding of the messages.
    pub protocol: OtlpProtocol,
    /// Headers of each request. Their values may be keys.
    pub headers: Vec<(String, Secret)>,
    /// Time limit of an export.
    pub timeout: Duration,
}

/// Encoding of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Protocol Buffers (`http/protobuf`).
    Protobuf,
    /// JSON (`http/json`).
    Json,
}

/// Selection of traces to export.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TraceSampler {
    /// All traces.
    All,
    /// No traces.
    None,
    /// This share of the traces, from 0 to 1, selected by trace id.
    Share(f64),
}

impl TelemetrySettings {
    /// Reads the variables with `get`. `None` if telemetry is disabled.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let mut variables = EnvironmentReader {
            get: &get,
            problems: Vec::new(),
        };
        if variables.flag("OTEL_SDK_DISABLED") {
            return None;
        }
        let traces = variables.endpoint("TRACES", "v1/traces");
        let resource = variables.resource();
        let sampler = variables.sampler();
        let queue = variables
            .number("OTEL_BSP_MAX_QUEUE_SIZE", DEFAULT_QUEUE_SPANS)
            .max(1);
        let batch = variables
            .number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", DEFAULT_BATCH_SPANS)
            .max(1);
        let delay = variables.millis("OTEL_BSP_SCHEDULE_DELAY", DEFAULT_SCHEDULE_DELAY);
        Some(TelemetrySettings {
            traces,
            resource,
            sampler,
            caller_decides: variables.caller_decides(),
            content: variables.content(),
            queue,
            batch: batch.min(queue),
            delay,
            problems: variables.problems,
        })
    }

    /// Returns true if the trace of this span is exported.
    pub fn takes(&self, trace: &TraceContext) -> bool {
        match &trace.caller {
            Some(caller) if self.caller_decides => caller.traceparent.is_sampled(),
            _ => self
                .sampler
                .should_sample(trace.external_context().0.trace_id()),
        }
    }

    /// Returns the values that must be masked in all output.
    pub fn secrets(&self) -> impl Iterator<Item = Secret> {
        self.traces
            .iter()
            .flat_map(|endpoint| endpoint.headers.iter().map(|(_, value)| value.clone()))
    }
}

/// Exported spans are the parent of requests in them. Otherwise the caller's trace context is
/// forwarded unchanged.
impl TracePolicy for TelemetrySettings {
    fn caller_trace(&self, span: &TraceContext) -> Option<CallerTrace> {
        let (external_context, state) = span.external_context();
        let caller_trace = |is_sampled| CallerTrace {
            traceparent: TraceParent::of(
                external_context.trace_id(),
                external_context.span_id(),
                is_sampled,
            ),
            tracestate: state.map(str::to_owned),
        };
        match self.takes(span) {
            true => Some(caller_trace(true)),
            false => Some(
                ForwardCallerTrace
                    .caller_trace(span)
                    .unwrap_or_else(|| caller_trace(false)),
            ),
        }
    }

    fn wants_words(&self, span: &TraceContext) -> bool {
        self.content && self.takes(span)
    }
}

impl TraceSampler {
    /// Returns true if the trace with this id is exported.
    fn should_sample(self, trace_id: &str) -> bool {
        match self {
            TraceSampler::All => true,
            TraceSampler::None => false,
            // The last 56 bits of an id are random, by the standard.
            TraceSampler::Share(share) => {
                let random = trace_id
                    .get(18..)
                    .and_then(|digits| u64::from_str_radix(digits, 16).ok())
                    .unwrap_or_default();
                random < (share * (1_u64 << 56) as f64) as u64
            }
        }
    }
}

/// Reader of variables that collects warnings about invalid values.
struct EnvironmentReader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl EnvironmentReader<'_> {
    /// Returns the trimmed value of a variable. The standard treats an empty variable as unset.
    fn text(&self, name: &str) -> Option<String> {
        (self.get)(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    /// Returns true if the variable is `true`.
    fn flag(&self, name: &str) -> bool {
        self.text(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns the integer in a variable, or the default. An invalid value is reported.
    fn number(&mut self, name: &str, default: usize) -> usize {
        let Some(text) = self.text(name) else {
            return default;
        };
        text.parse().unwrap_or_else(|_| {
            self.problems.push(format!(
                "{name} must be an integer; the default {default} is used"
            ));
            default
        })
    }

    /// Returns the duration in a variable, in milliseconds, or the default.
    fn millis(&mut self, name: &str, default: Duration) -> Duration {
        let millis = self.number(
            name,
            usize::try_from(default.as_millis()).unwrap_or(usize::MAX),
        );
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// Returns `OTEL_EXPORTER_OTLP_<SIGNAL>_<name>`, or the variable for all signals.
    fn of_signal(&self, signal: &str, name: &str) -> Option<(String, String)> {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{signal}_{name}"),
            format!("OTEL_EXPORTER_OTLP_{name}"),
        ];
        names
            .into_iter()
            .find_map(|name| self.text(&name).map(|value| (name, value)))
    }

    /// Returns the endpoint for a signal; `None` if none is set or a setting is invalid. `path` is
    /// appended to a URL for all signals.
    fn endpoint(&mut self, signal: &str, path: &str) -> Option<OtlpEndpoint> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        match self.text(&exporter).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return None,
            Some(_) => {
                self.problems.push(format!(
                    "{exporter} must be `otlp` or `none`; nothing is sent"
                ));
                return None;
            }
        }
        let (name, address) = self.of_signal(signal, "ENDPOINT")?;
        let url = Url::parse(&address)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(mut url) = url else {
            self.problems.push(format!(
                "{name} must be a URL such as http://localhost:4318; nothing is sent"
            ));
            return None;
        };
        // The URL for one signal is complete; the URL for all signals is a base.
        if !name.contains(signal) {
            let base = url.path().trim_end_matches('/').to_owned();
            url.set_path(&format!("{base}/{path}"));
        }
        let protocol = self.protocol(signal)?;
        let timeout = self.of_signal(signal, "TIMEOUT").map(|(name, _)| name);
        let timeout = timeout.map_or(DEFAULT_REQUEST_TIMEOUT, |name| {
            self.millis(&name, DEFAULT_REQUEST_TIMEOUT)
        });
        Some(OtlpEndpoint {
            url,
            protocol,
            headers: self.headers(signal),
            timeout,
        })
    }

    /// Returns the protocol for a signal; `None` if the variable is invalid.
    fn protocol(&mut self, signal: &str) -> Option<OtlpProtocol> {
        match self.of_signal(signal, "PROTOCOL") {
            None => Some(OtlpProtocol::Protobuf),
            Some((_, value)) if value == "http/protobuf" => Some(OtlpProtocol::Protobuf),
            Some((_, value)) if value == "http/json" => Some(OtlpProtocol::Json),
            Some((name, _)) => {
                self.problems.push(format!(
                    "{name} must be `http/protobuf` or `http/json`; nothing is sent"
                ));
                None
            }
        }
    }

    /// Returns the headers for a signal.
    fn headers(&mut self, signal: &str) -> Vec<(String, Secret)> {
        let Some((name, text)) = self.of_signal(signal, "HEADERS") else {
            return Vec::new();
        };
        let pairs = self.parse_pairs(&name, &text);
        pairs
            .into_iter()
            .map(|(name, value)| (name, Secret::new(value)))
            .collect()
    }

    /// Parses `name=value,name=value`, with percent-encoded values.
    fn parse_pairs(&mut self, name: &str, text: &str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for pair in text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let parsed = pair.split_once('=').and_then(|(key, value)| {
                let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
                Some((key.trim().to_owned(), value.into_owned())).filter(|(key, _)| !key.is_empty())
            });
            match parsed {
                Some(pair) => pairs.push(pair),
                // The value can contain a key, so it is not shown.
                None => self.problems.push(format!(
                    "{name} must be a list such as `name=value,name=value`"
                )),
            }
        }
        pairs
    }

    /// Returns the resource attributes.
    fn resource(&mut self) -> BTreeMap<String, String> {
        let text = self.text("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let mut resource: BTreeMap<_, _> = self
            .parse_pairs("OTEL_RESOURCE_ATTRIBUTES", &text)
            .into_iter()
            .collect();
        resource.extend(
            self.text("OTEL_SERVICE_NAME")
                .map(|name| ("service.name".to_owned(), name)),
        );
        resource
    }

    /// Returns the sampler. An invalid setting is reported, and all traces are sent.
    fn sampler(&mut self) -> TraceSampler {
        let name = self.text("OTEL_TRACES_SAMPLER").unwrap_or_default();
        match name.strip_prefix("parentbased_").unwrap_or(&name) {
            "" | "always_on" => TraceSampler::All,
            "always_off" => TraceSampler::None,
            "traceidratio" => {
                let share = self
                    .text("OTEL_TRACES_SAMPLER_ARG")
                    .map_or(Ok(1.0), |share| share.parse());
                match share {
                    Ok(share) if (0.0..=1.0).contains(&share) => TraceSampler::Share(share),
                    _ => {
                        let problem = "OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1; all \
                            traces are sent";
                        self.problems.push(problem.to_owned());
                        TraceSampler::All
                    }
                }
            }
            _ => {
                let known = "`always_on`, `always_off` or `traceidratio`, optionally with the \
                    prefix `parentbased_`";
                self.problems.push(format!(
                    "OTEL_TRACES_SAMPLER must be {known}; all traces are sent"
                ));
                TraceSampler::All
            }
        }
    }

    /// Returns true if the sampling decision of a caller applies (`parentbased_`, the default).
    fn caller_decides(&self) -> bool {
        self.text("OTEL_TRACES_SAMPLER")
            .is_none_or(|name| name.starts_with("parentbased_"))
    }

    /// Returns true if content is captured. Instrumentations of several languages use this variable,
    /// with `true` or the destination of the content.
    fn content(&self) -> bool {
        let value = self
            .text("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
            .unwrap_or_default();
        ["true", "span_only", "span_and_event"]
            .iter()
            .any(|yes| value.eq_ignore_ascii_case(yes))
    }
}

#[cfg(test)]
mod tests;

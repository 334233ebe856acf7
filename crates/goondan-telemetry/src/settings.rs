//! What the standard `OTEL_*` variables say.

use std::collections::BTreeMap;
use std::time::Duration;

use goondan_core::caller::{Caller, TraceParent};
use goondan_core::ids::TraceContext;
use goondan_core::ports::tracing::{PassOn, Tracing};
use goondan_spec::Secret;
use percent_encoding::percent_decode_str;
use url::Url;

/// Spans that wait to be sent.
const QUEUE: usize = 2_048;

/// Spans in one request.
const BATCH: usize = 512;

/// How long a span waits for others.
const DELAY: Duration = Duration::from_secs(5);

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where to send what, and how. Read from the environment of the process, never from a file of a project: a project must not say
/// where what happens in it is sent.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where spans go; nowhere by default.
    pub traces: Option<Endpoint>,
    /// What a resource is said to be, besides what the program knows itself.
    pub resource: BTreeMap<String, String>,
    /// Which traces are sent.
    pub sampler: Sampler,
    /// Whether a caller that has a trace of its own decides, in the place of the sampler.
    pub caller_decides: bool,
    /// Whether what models, tools and people say goes along.
    pub content: bool,
    /// So many spans wait to be sent. Further ones are dropped.
    pub queue: usize,
    /// So many spans go in one request.
    pub batch: usize,
    /// So long a span waits for others.
    pub delay: Duration,
    /// What could not be understood and counts as not set.
    pub problems: Vec<String>,
}

/// Where telemetry goes.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The whole address.
    pub url: Url,
    /// How it is encoded.
    pub protocol: Protocol,
    /// Go along with each request: they may hold keys.
    pub headers: Vec<(String, Secret)>,
    /// So long a request may take.
    pub timeout: Duration,
}

/// How telemetry is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`.
    Protobuf,
    /// `http/json`.
    Json,
}

/// Which traces are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampler {
    /// All.
    All,
    /// None.
    None,
    /// That share of them. Who else samples by the id of the trace picks the same ones.
    Share(f64),
}

impl Settings {
    /// What the variables say; `get` looks one up. `None` where telemetry is switched off altogether.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let mut variables = Variables {
            get: &get,
            problems: Vec::new(),
        };
        if variables.flag("OTEL_SDK_DISABLED") {
            return None;
        }
        let traces = variables.endpoint("TRACES", "v1/traces");
        let settings = Settings {
            traces,
            resource: variables.resource(),
            sampler: variables.sampler(),
            caller_decides: variables.caller_decides(),
            content: variables.content(),
            queue: variables.number("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE).max(1),
            batch: variables
                .number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH)
                .max(1),
            delay: variables.millis("OTEL_BSP_SCHEDULE_DELAY", DELAY),
            problems: Vec::new(),
        };
        Some(Settings {
            batch: settings.batch.min(settings.queue),
            problems: variables.problems,
            ..settings
        })
    }

    /// Whether the trace of that span is sent.
    pub fn takes(&self, trace: &TraceContext) -> bool {
        match &trace.caller {
            Some(caller) if self.caller_decides => caller.traceparent.is_sampled(),
            _ => self.sampler.takes(trace.seen_outside().0.trace_id()),
        }
    }

    /// The values that must be shown nowhere.
    pub fn secrets(&self) -> impl Iterator<Item = Secret> {
        self.traces
            .iter()
            .flat_map(|endpoint| endpoint.headers.iter().map(|(_, value)| value.clone()))
    }
}

/// Spans that are sent are told as the ones who ask; what is not sent leaves the caller's own trace as it came.
impl Tracing for Settings {
    fn caller(&self, span: &TraceContext) -> Option<Caller> {
        let (own, state) = span.seen_outside();
        let told = |is_sampled| Caller {
            traceparent: TraceParent::of(own.trace_id(), own.span_id(), is_sampled),
            tracestate: state.map(str::to_owned),
        };
        match self.takes(span) {
            true => Some(told(true)),
            false => Some(PassOn.caller(span).unwrap_or_else(|| told(false))),
        }
    }

    fn wants_words(&self, span: &TraceContext) -> bool {
        self.content && self.takes(span)
    }
}

impl Sampler {
    /// Whether the trace of that id is sent.
    fn takes(self, trace_id: &str) -> bool {
        match self {
            Sampler::All => true,
            Sampler::None => false,
            // The last 56 bits of an id are random, by the standard.
            Sampler::Share(share) => {
                let random = trace_id
                    .get(18..)
                    .and_then(|digits| u64::from_str_radix(digits, 16).ok())
                    .unwrap_or_default();
                random < (share * (1_u64 << 56) as f64) as u64
            }
        }
    }
}

struct Variables<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl Variables<'_> {
    /// By the standard, an empty variable is one that is not set.
    fn text(&self, name: &str) -> Option<String> {
        (self.get)(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    fn flag(&self, name: &str) -> bool {
        self.text(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn number(&mut self, name: &str, default: usize) -> usize {
        let Some(text) = self.text(name) else {
            return default;
        };
        text.parse().unwrap_or_else(|_| {
            self.problems.push(format!(
                "{name} must be a whole number, and is taken to be {default}"
            ));
            default
        })
    }

    fn millis(&mut self, name: &str, default: Duration) -> Duration {
        let millis = self.number(
            name,
            usize::try_from(default.as_millis()).unwrap_or(usize::MAX),
        );
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// `OTEL_EXPORTER_OTLP_<SIGNAL>_<name>`, or the one for all signals.
    fn of_signal(&self, signal: &str, name: &str) -> Option<(String, String)> {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{signal}_{name}"),
            format!("OTEL_EXPORTER_OTLP_{name}"),
        ];
        names
            .into_iter()
            .find_map(|name| self.text(&name).map(|value| (name, value)))
    }

    fn endpoint(&mut self, signal: &str, path: &str) -> Option<Endpoint> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        match self.text(&exporter).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return None,
            Some(_) => {
                self.problems.push(format!(
                    "{exporter} may be `otlp` or `none`; nothing is sent"
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
                "{name} must be an address such as http://localhost:4318; nothing is sent"
            ));
            return None;
        };
        // The address of a signal is taken as it is; that for all of them is a base.
        if !name.contains(signal) {
            let base = url.path().trim_end_matches('/').to_owned();
            url.set_path(&format!("{base}/{path}"));
        }
        let protocol = self.protocol(signal)?;
        let timeout = self.of_signal(signal, "TIMEOUT").map(|(name, _)| name);
        let timeout = timeout.map_or(TIMEOUT, |name| self.millis(&name, TIMEOUT));
        Some(Endpoint {
            url,
            protocol,
            headers: self.headers(signal),
            timeout,
        })
    }

    fn protocol(&mut self, signal: &str) -> Option<Protocol> {
        match self.of_signal(signal, "PROTOCOL") {
            None => Some(Protocol::Protobuf),
            Some((_, value)) if value == "http/protobuf" => Some(Protocol::Protobuf),
            Some((_, value)) if value == "http/json" => Some(Protocol::Json),
            Some((name, _)) => {
                self.problems.push(format!(
                    "{name} may be `http/protobuf` or `http/json`; nothing is sent"
                ));
                None
            }
        }
    }

    fn headers(&mut self, signal: &str) -> Vec<(String, Secret)> {
        let Some((name, text)) = self.of_signal(signal, "HEADERS") else {
            return Vec::new();
        };
        let pairs = self.pairs(&name, &text);
        pairs
            .into_iter()
            .map(|(name, value)| (name, Secret::new(value)))
            .collect()
    }

    /// `name=value,name=value`, with values in percent-encoding.
    fn pairs(&mut self, name: &str, text: &str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for pair in text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let read = pair.split_once('=').and_then(|(key, value)| {
                let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
                Some((key.trim().to_owned(), value.into_owned())).filter(|(key, _)| !key.is_empty())
            });
            match read {
                Some(pair) => pairs.push(pair),
                // It may hold a key: it is not shown.
                None => self.problems.push(format!(
                    "{name} must be a list such as `name=value,name=value`"
                )),
            }
        }
        pairs
    }

    fn resource(&mut self) -> BTreeMap<String, String> {
        let text = self.text("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let mut resource: BTreeMap<_, _> = self
            .pairs("OTEL_RESOURCE_ATTRIBUTES", &text)
            .into_iter()
            .collect();
        resource.extend(
            self.text("OTEL_SERVICE_NAME")
                .map(|name| ("service.name".to_owned(), name)),
        );
        resource
    }

    fn sampler(&mut self) -> Sampler {
        let name = self.text("OTEL_TRACES_SAMPLER").unwrap_or_default();
        match name.strip_prefix("parentbased_").unwrap_or(&name) {
            "" | "always_on" => Sampler::All,
            "always_off" => Sampler::None,
            "traceidratio" => {
                let share = self
                    .text("OTEL_TRACES_SAMPLER_ARG")
                    .map_or(Ok(1.0), |share| share.parse());
                match share {
                    Ok(share) if (0.0..=1.0).contains(&share) => Sampler::Share(share),
                    _ => {
                        let problem = "OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1; all traces are sent";
                        self.problems.push(problem.to_owned());
                        Sampler::All
                    }
                }
            }
            _ => {
                let known = "`always_on`, `always_off` or `traceidratio`, also with `parentbased_` in front";
                self.problems.push(format!(
                    "OTEL_TRACES_SAMPLER may be {known}; all traces are sent"
                ));
                Sampler::All
            }
        }
    }

    fn caller_decides(&self) -> bool {
        self.text("OTEL_TRACES_SAMPLER")
            .is_none_or(|name| name.starts_with("parentbased_"))
    }

    /// Instrumentations of several languages know this variable, as `true` or as where the content goes.
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

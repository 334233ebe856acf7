//! Metrics of a swarm since its server began, for Prometheus and other OpenMetrics readers.
//!
//! Labels are names from the project and fixed values, never output of a model or an unknown
//! sender. Each label value is kept as long as the server runs.

use std::sync::atomic::AtomicU64;

use axum::http::HeaderMap;
use goondan::event::{RuntimeEvent, RuntimeEventKind, ShownModelCall};
use goondan::ports::tool::ToolCallStatus;
use goondan::spec::Code;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::accept_header::AcceptHeader;

/// Form of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    OpenMetrics,
    /// Text format of Prometheus.
    Prometheus,
}

impl MetricsFormat {
    /// Returns the form that a client accepts. Clients that read OpenMetrics name it.
    pub(crate) fn from_headers(headers: &HeaderMap) -> MetricsFormat {
        if AcceptHeader::from_headers(headers).names("application/openmetrics-text") {
            MetricsFormat::OpenMetrics
        } else {
            MetricsFormat::Prometheus
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            MetricsFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            MetricsFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts OpenMetrics to the text format of Prometheus, where a counter has the name of its
/// samples, an info is a gauge, and units and the end have no lines.
fn to_prometheus(text: &str) -> String {
    let mut converted = String::new();
    let mut help = "";
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), _, _) => help = line,
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    _ => ("", kind),
                };
                let about = help.splitn(4, ' ').nth(3).unwrap_or_default();
                converted.push_str(&format!("# HELP {name}{suffix} {about}\n"));
                converted.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            }
            (Some("#"), ..) => {}
            _ => {
                converted.push_str(line);
                converted.push('\n');
            }
        }
    }
    converted
}

/// Histogram buckets in seconds: a step without a model takes a millisecond, a long turn minutes.
const DURATION_BUCKETS_SECONDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1_800.0,
];

/// Label of a call to an unknown tool. The name in the call comes from the model.
const UNKNOWN_TOOL_LABEL: &str = "(unknown)";

type Labels = Vec<(&'static str, String)>;
type Times = Family<Labels, Histogram, fn() -> Histogram>;

pub(crate) struct SwarmMetrics {
    registry: Registry,
    turns: Family<Labels, Counter>,
    turn_times: Times,
    running: Gauge,
    steps: Family<Labels, Counter>,
    model_calls: Family<Labels, Counter>,
    model_times: Times,
    first_tokens: Times,
    retries: Family<Labels, Counter>,
    tokens: Family<Labels, Counter>,
    cost: Family<Labels, Counter<f64, AtomicU64>>,
    tool_calls: Family<Labels, Counter>,
    tool_times: Times,
    approvals: Family<Labels, Counter>,
    reloads: Family<Labels, Counter>,
}

fn duration_histogram() -> Times {
    Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS_SECONDS))
}

impl SwarmMetrics {
    /// Creates all metrics at zero. `version` is the program's version.
    pub(crate) fn new(version: &str) -> Self {
        let mut metrics = SwarmMetrics {
            registry: Registry::with_prefix("gdn"),
            turns: Family::default(),
            turn_times: duration_histogram(),
            running: Gauge::default(),
            steps: Family::default(),
            model_calls: Family::default(),
            model_times: duration_histogram(),
            first_tokens: duration_histogram(),
            retries: Family::default(),
            tokens: Family::default(),
            cost: Family::default(),
            tool_calls: Family::default(),
            tool_times: duration_histogram(),
            approvals: Family::default(),
            reloads: Family::default(),
        };
        metrics.register(version);
        metrics
    }

    /// Registers all metrics.
    fn register(&mut self, version: &str) {
        let registry = &mut self.registry;
        registry.register(
            "build",
            "Version of the program",
            Info::new(vec![("version", version.to_owned())]),
        );
        registry.register("turns", "Finished turns", self.turns.clone());
        registry.register_with_unit(
            "turn_duration",
            "Duration of turns",
            Unit::Seconds,
            self.turn_times.clone(),
        );
        registry.register("turns_running", "Running turns", self.running.clone());
        registry.register("steps", "Finished steps", self.steps.clone());
        registry.register(
            "model_calls",
            "Finished model calls, each including its retries",
            self.model_calls.clone(),
        );
        registry.register_with_unit(
            "model_call_duration",
            "Duration of model calls",
            Unit::Seconds,
            self.model_times.clone(),
        );
        let first = self.first_tokens.clone();
        registry.register_with_unit(
            "model_first_token",
            "Time until the first piece of an answer",
            Unit::Seconds,
            first,
        );
        registry.register(
            "model_retries",
            "Retries of model calls",
            self.retries.clone(),
        );
        registry.register(
            "model_tokens",
            "Tokens, as reported by the providers",
            self.tokens.clone(),
        );
        registry.register(
            "model_cost",
            "Cost of the tokens, at the prices in the Model resources",
            self.cost.clone(),
        );
        registry.register("tool_calls", "Finished tool calls", self.tool_calls.clone());
        registry.register_with_unit(
            "tool_call_duration",
            "Duration of tool calls",
            Unit::Seconds,
            self.tool_times.clone(),
        );
        registry.register(
            "approvals",
            "Approval requests, by answer",
            self.approvals.clone(),
        );
        registry.register("reloads", "Project reloads", self.reloads.clone());
    }

    /// Returns the metrics as text, with `running` as the number of running turns.
    pub(crate) fn text(&self, running: usize, format: MetricsFormat) -> String {
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        match format {
            MetricsFormat::OpenMetrics => text,
            MetricsFormat::Prometheus => to_prometheus(&text),
        }
    }

    /// Counts an event.
    pub(crate) fn count(&self, event: &RuntimeEvent) {
        let agent = || ("agent", event.agent_name.clone());
        match &event.kind {
            RuntimeEventKind::TurnCompleted {
                duration,
                finish_reason,
                ..
            } => {
                let reason = serde_json::to_value(finish_reason).unwrap_or_default();
                self.turn(agent(), reason.as_str().unwrap_or_default(), *duration);
            }
            RuntimeEventKind::TurnFailed { duration, .. } => self.turn(agent(), "error", *duration),
            RuntimeEventKind::StepCompleted { .. } => {
                self.steps
                    .get_or_create(&vec![agent(), outcome_label("ok")])
                    .inc();
            }
            RuntimeEventKind::StepFailed { .. } => {
                self.steps
                    .get_or_create(&vec![agent(), outcome_label("error")])
                    .inc();
            }
            RuntimeEventKind::ModelCompleted { call, .. } => self.model_call(agent(), call, "ok"),
            RuntimeEventKind::ModelFailed {
                call, error_code, ..
            } => self.model_call(agent(), call, error_code),
            RuntimeEventKind::ToolCompleted {
                tool_name,
                status,
                duration,
                shown,
                ..
            } => {
                let code = shown.error.as_ref().map(|error| error.code.as_str());
                let is_known = code != Some(Code::TOOL_NOT_IN_CATALOG.as_str());
                let tool = if is_known {
                    tool_name
                } else {
                    UNKNOWN_TOOL_LABEL
                };
                self.tool_call(agent(), tool, *status == ToolCallStatus::Ok, *duration);
            }
            RuntimeEventKind::ToolFailed {
                tool_name,
                duration,
                ..
            } => {
                self.tool_call(agent(), tool_name, false, *duration);
            }
            RuntimeEventKind::ApprovalRequested { .. } => self.count_approval("requested"),
            RuntimeEventKind::ApprovalResolved { answer, .. } => self.count_approval(answer),
            RuntimeEventKind::ReloadCompleted { .. } => {
                self.reloads.get_or_create(&vec![outcome_label("ok")]).inc();
            }
            RuntimeEventKind::ReloadFailed { .. } => {
                self.reloads
                    .get_or_create(&vec![outcome_label("error")])
                    .inc();
            }
            _ => {}
        }
    }

    /// Records a finished turn.
    fn turn(&self, agent: (&'static str, String), reason: &str, duration: u64) {
        self.turns
            .get_or_create(&vec![agent.clone(), ("finish_reason", reason.to_owned())])
            .inc();
        self.turn_times
            .get_or_create(&vec![agent])
            .observe(millis_to_seconds(duration));
    }

    /// Records a model call and its outcome.
    fn model_call(&self, agent: (&'static str, String), call: &ShownModelCall, outcome: &str) {
        let labels = vec![
            agent,
            ("provider", call.provider.clone()),
            ("model", call.model.clone()),
        ];
        let with =
            |more: (&'static str, String)| labels.iter().cloned().chain([more]).collect::<Labels>();
        self.model_calls
            .get_or_create(&with(outcome_label(outcome)))
            .inc();
        self.model_times
            .get_or_create(&labels)
            .observe(millis_to_seconds(call.duration));
        if let Some(first) = call.time_to_first_token {
            self.first_tokens
                .get_or_create(&labels)
                .observe(millis_to_seconds(first));
        }
        if call.retries > 0 {
            self.retries
                .get_or_create(&labels)
                .inc_by(call.retries.into());
        }
        if let Some(usage) = call.token_usage {
            let cached_tokens = usage.cached_tokens.saturating_add(usage.cache_write_tokens);
            let fresh = usage.prompt_tokens.saturating_sub(cached_tokens);
            let kinds = [
                ("input", fresh),
                ("cached_input", usage.cached_tokens),
                ("cache_write_input", usage.cache_write_tokens),
                ("output", usage.completion_tokens),
            ];
            for (kind, tokens) in kinds.into_iter().filter(|(_, tokens)| *tokens > 0) {
                self.tokens
                    .get_or_create(&with(("kind", kind.to_owned())))
                    .inc_by(tokens);
            }
        }
        if let Some(cost) = &call.cost {
            self.cost
                .get_or_create(&with(("currency", cost.currency.clone())))
                .inc_by(cost.amount);
        }
    }

    /// Records a tool call.
    fn tool_call(&self, agent: (&'static str, String), tool: &str, is_ok: bool, duration: u64) {
        let labels = vec![agent, ("tool", tool.to_owned())];
        self.tool_times
            .get_or_create(&labels)
            .observe(millis_to_seconds(duration));
        let labels = labels
            .into_iter()
            .chain([outcome_label(if is_ok { "ok" } else { "error" })])
            .collect();
        self.tool_calls.get_or_create(&labels).inc();
    }

    fn count_approval(&self, answer: &str) {
        self.approvals
            .get_or_create(&vec![("answer", answer.to_owned())])
            .inc();
    }
}

fn outcome_label(word: &str) -> (&'static str, String) {
    ("outcome", word.to_owned())
}

/// Converts milliseconds to seconds.
fn millis_to_seconds(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}

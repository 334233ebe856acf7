//! What is counted of a swarm since its server began, for Prometheus and whatever else reads OpenMetrics.
//!
//! Labels are names of the project and words of the program, never what a model or a stranger has written: each of their values is
//! kept for as long as the server runs.

use std::sync::atomic::AtomicU64;

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

/// The media type of what [`Metrics::text`] gives.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds: a step without a model takes a millisecond, a turn of many steps minutes.
const SECONDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1_800.0,
];

/// The label of a call of a tool that does not exist: its name is the model's.
const NO_TOOL: &str = "(unknown)";

type Labels = Vec<(&'static str, String)>;
type Times = Family<Labels, Histogram, fn() -> Histogram>;

/// The counts.
pub(crate) struct Metrics {
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

fn times() -> Times {
    Family::new_with_constructor(|| Histogram::new(SECONDS))
}

impl Metrics {
    /// All at zero. `version` is the program's.
    pub(crate) fn new(version: &str) -> Self {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("gdn"),
            turns: Family::default(),
            turn_times: times(),
            running: Gauge::default(),
            steps: Family::default(),
            model_calls: Family::default(),
            model_times: times(),
            first_tokens: times(),
            retries: Family::default(),
            tokens: Family::default(),
            cost: Family::default(),
            tool_calls: Family::default(),
            tool_times: times(),
            approvals: Family::default(),
            reloads: Family::default(),
        };
        metrics.register(version);
        metrics
    }

    fn register(&mut self, version: &str) {
        let all = &mut self.registry;
        all.register(
            "build",
            "The program",
            Info::new(vec![("version", version.to_owned())]),
        );
        all.register("turns", "Turns that are over", self.turns.clone());
        all.register_with_unit(
            "turn_duration",
            "How long turns took",
            Unit::Seconds,
            self.turn_times.clone(),
        );
        all.register("turns_running", "Turns that run", self.running.clone());
        all.register("steps", "Steps that are over", self.steps.clone());
        all.register(
            "model_calls",
            "Questions to models, with all their attempts",
            self.model_calls.clone(),
        );
        all.register_with_unit(
            "model_call_duration",
            "How long they took",
            Unit::Seconds,
            self.model_times.clone(),
        );
        let first = self.first_tokens.clone();
        all.register_with_unit(
            "model_first_token",
            "How long the first piece took to come",
            Unit::Seconds,
            first,
        );
        all.register(
            "model_retries",
            "How often models were asked again",
            self.retries.clone(),
        );
        all.register(
            "model_tokens",
            "Tokens, as the providers report them",
            self.tokens.clone(),
        );
        all.register(
            "model_cost",
            "What they cost, by the prices of the Models",
            self.cost.clone(),
        );
        all.register(
            "tool_calls",
            "Tool calls that are over",
            self.tool_calls.clone(),
        );
        all.register_with_unit(
            "tool_call_duration",
            "How long they took",
            Unit::Seconds,
            self.tool_times.clone(),
        );
        all.register(
            "approvals",
            "Approvals that were asked for, and how they were answered",
            self.approvals.clone(),
        );
        all.register("reloads", "Reloads of the project", self.reloads.clone());
    }

    /// The counts as they are read, with so many turns that run.
    pub(crate) fn text(&self, running: usize) -> String {
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
        let mut text = String::new();
        // A text takes everything.
        let _ = encode(&mut text, &self.registry);
        text
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
                    .get_or_create(&vec![agent(), outcome("ok")])
                    .inc();
            }
            RuntimeEventKind::StepFailed { .. } => {
                self.steps
                    .get_or_create(&vec![agent(), outcome("error")])
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
                let tool = if is_known { tool_name } else { NO_TOOL };
                self.tool_call(agent(), tool, *status == ToolCallStatus::Ok, *duration);
            }
            RuntimeEventKind::ToolFailed {
                tool_name,
                duration,
                ..
            } => {
                self.tool_call(agent(), tool_name, false, *duration);
            }
            RuntimeEventKind::ApprovalRequested { .. } => self.approval("requested"),
            RuntimeEventKind::ApprovalResolved { answer, .. } => self.approval(answer),
            RuntimeEventKind::ReloadCompleted { .. } => {
                self.reloads.get_or_create(&vec![outcome("ok")]).inc();
            }
            RuntimeEventKind::ReloadFailed { .. } => {
                self.reloads.get_or_create(&vec![outcome("error")]).inc();
            }
            _ => {}
        }
    }

    fn turn(&self, agent: (&'static str, String), reason: &str, duration: u64) {
        self.turns
            .get_or_create(&vec![agent.clone(), ("finish_reason", reason.to_owned())])
            .inc();
        self.turn_times
            .get_or_create(&vec![agent])
            .observe(seconds(duration));
    }

    fn model_call(&self, agent: (&'static str, String), call: &ShownModelCall, came_to: &str) {
        let labels = vec![
            agent,
            ("provider", call.provider.clone()),
            ("model", call.model.clone()),
        ];
        let with =
            |more: (&'static str, String)| labels.iter().cloned().chain([more]).collect::<Labels>();
        self.model_calls
            .get_or_create(&with(outcome(came_to)))
            .inc();
        self.model_times
            .get_or_create(&labels)
            .observe(seconds(call.duration));
        if let Some(first) = call.time_to_first_token {
            self.first_tokens
                .get_or_create(&labels)
                .observe(seconds(first));
        }
        if call.retries > 0 {
            self.retries
                .get_or_create(&labels)
                .inc_by(call.retries.into());
        }
        if let Some(usage) = call.token_usage {
            let in_cache = usage.cached_tokens.saturating_add(usage.cache_write_tokens);
            let fresh = usage.prompt_tokens.saturating_sub(in_cache);
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

    fn tool_call(&self, agent: (&'static str, String), tool: &str, is_ok: bool, duration: u64) {
        let labels = vec![agent, ("tool", tool.to_owned())];
        self.tool_times
            .get_or_create(&labels)
            .observe(seconds(duration));
        let labels = labels
            .into_iter()
            .chain([outcome(if is_ok { "ok" } else { "error" })])
            .collect();
        self.tool_calls.get_or_create(&labels).inc();
    }

    fn approval(&self, answer: &str) {
        self.approvals
            .get_or_create(&vec![("answer", answer.to_owned())])
            .inc();
    }
}

fn outcome(word: &str) -> (&'static str, String) {
    ("outcome", word.to_owned())
}

fn seconds(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}

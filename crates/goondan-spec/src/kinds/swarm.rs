//! `kind: Swarm`: reads and checks the spec of a swarm.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use schemars::JsonSchema;

use super::rate_limits::{self, RateLimits, RateLimitsShape};
use super::repetition::{self, RepetitionPolicy, RepetitionShape};
use super::{DecodeScope, Permission};
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic_sink::DiagnosticSink;
use crate::meta::Kind;
use crate::references::{self, RefItemShape, RefShape};
use crate::{ResourceId, text};

/// Agents that run together.
#[derive(Debug, Clone, PartialEq)]
pub struct Swarm {
    /// Agent that gets inputs without a target. One of `agents`.
    pub entry_agent: ResourceId,
    /// Agents, at least one.
    pub agents: Vec<ResourceId>,
    /// Name of the workspace. `None` for a separate workspace per project.
    pub instance_key: Option<String>,
    /// Limits and rules.
    pub policy: SwarmPolicy,
    /// Limits per minute on the model calls of all agents together.
    pub limits: RateLimits,
}

/// Limits and rules of a swarm.
#[derive(Debug, Clone, PartialEq)]
pub struct SwarmPolicy {
    /// Maximum steps per turn. Default: 32.
    pub max_steps_per_turn: u32,
    /// Maximum number of conversations. Default: 10,000.
    pub max_instances: usize,
    /// Maximum number of parallel turns. Default: 256.
    pub max_concurrent_turns: usize,
    /// Maximum nesting of requests between agents. Default: 16.
    pub max_call_depth: u32,
    /// Retention of idle conversations.
    pub lifecycle: ConversationRetention,
    /// Time that a shutdown waits for running turns. Default: 300 s.
    pub shutdown_grace: Duration,
    /// Limits on one run of the swarm.
    pub budget: BudgetLimits,
    /// Limits on one turn.
    pub turn_budget: BudgetLimits,
    /// Limits on repeated tool calls of a turn.
    pub repetition: RepetitionPolicy,
    /// Permissions of tools with untrusted output. An agent that has read such output needs an
    /// approval to execute, write or use the network.
    pub untrusted: BTreeSet<Permission>,
    /// Maximum number of latest model calls that the studio can show. Default: 50. 0 records none.
    pub recorded_model_calls: usize,
}

impl Default for SwarmPolicy {
    fn default() -> Self {
        SwarmPolicy {
            max_steps_per_turn: 32,
            max_instances: 10_000,
            max_concurrent_turns: 256,
            max_call_depth: 16,
            lifecycle: ConversationRetention::default(),
            shutdown_grace: Duration::from_secs(300),
            budget: BudgetLimits::default(),
            turn_budget: BudgetLimits::default(),
            repetition: RepetitionPolicy::default(),
            untrusted: BTreeSet::new(),
            recorded_model_calls: 50,
        }
    }
}

/// Default idle time after which a conversation is retired: 90 days, in seconds.
const DEFAULT_TTL_SECONDS: u32 = 90 * 24 * 60 * 60;

/// Retention of idle conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationRetention {
    /// Idle time after which the conversation is retired. Default: 90 days.
    pub ttl: Duration,
    /// Time between retirement and deletion of the directory.
    pub gc_grace: Option<Duration>,
}

impl Default for ConversationRetention {
    fn default() -> Self {
        ConversationRetention {
            ttl: Duration::from_secs(DEFAULT_TTL_SECONDS.into()),
            gc_grace: None,
        }
    }
}

/// Limits on one run of a swarm or on one turn. An absent limit is not enforced.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BudgetLimits {
    /// Tokens over all turns.
    pub max_tokens: Option<u64>,
    /// Steps over all turns.
    pub max_steps: Option<u64>,
    /// Wall-clock time.
    pub max_duration: Option<Duration>,
    /// Cost of model calls, in the currency of the prices.
    pub max_cost: Option<f64>,
}

/// Decodes the spec of a Swarm; `None` if a field is invalid.
pub(crate) fn decode(
    spec: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Swarm> {
    let mut fields = spec.fields(findings)?;
    let entry_field = fields.required("entryAgent", findings);
    let entry_agent = entry_field
        .as_ref()
        .and_then(|field| scope.resolve(field, Kind::Agent, findings));
    let agents = fields
        .required("agents", findings)
        .and_then(|field| read_agents(&field, scope, findings));
    let instance_key = fields
        .optional("instanceKey")
        .map(|field| field.text(findings));
    let policy_field = fields.optional("policy");
    let policy = match &policy_field {
        Some(field) => read_policy(field, findings),
        None => Some(SwarmPolicy::default()),
    };
    let limits_field = fields.optional("rateLimits");
    let limits = limits_field
        .as_ref()
        .map(|field| rate_limits::read(field, findings));
    fields.finish(findings);
    if let Some((agents, _)) = &agents {
        let budget = |name| policy_field.as_ref()?.child(name)?.child("maxCost");
        let rate = limits_field
            .as_ref()
            .and_then(|field| field.child(rate_limits::COST_LIMIT_FIELD));
        let costs = [budget("runBudget"), budget("turnBudget"), rate]
            .into_iter()
            .flatten();
        for cost in costs {
            check_prices(&cost, agents, scope, findings);
        }
    }
    let (entry_agent, (agents, complete)) = (entry_agent?, agents?);
    if complete && !agents.contains(&entry_agent) {
        let names: Vec<String> = agents.iter().map(ToString::to_string).collect();
        let message = format!("The entry agent `{entry_agent}` is not one of the swarm's agents.");
        let suggestion = format!(
            "add `- ref: {entry_agent}` to `spec.agents`, or choose {}",
            text::format_alternatives(&names)
        );
        findings.add(entry_field?.invalid_value(message).suggest(suggestion));
        return None;
    }
    let instance_key = instance_key
        .map_or(Some(None), |key| key.map(Some))?
        .map(str::to_owned);
    let limits = limits.unwrap_or(Some(RateLimits::default()))?;
    Some(Swarm {
        entry_agent,
        agents,
        instance_key,
        policy: policy?,
        limits,
    })
}

/// Returns the agents, and `true` if every item was resolved.
fn read_agents(
    field: &FieldReader<'_>,
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<(Vec<ResourceId>, bool)> {
    let mut agents: Vec<ResourceId> = Vec::new();
    let mut names = HashSet::new();
    let items = field.filled_list("agent", findings)?;
    let expected = items.len();
    for item in items {
        let Some((fields, reference)) = references::read_item(&item, findings) else {
            continue;
        };
        fields.finish(findings);
        let Some(id) = scope.resolve(&reference, Kind::Agent, findings) else {
            continue;
        };
        if !names.insert(id.name.clone()) {
            findings.add(reference.invalid_value(format!(
                "An agent called `{}` is already in the swarm.",
                id.name
            )));
        }
        agents.push(id);
    }
    let complete = agents.len() == expected;
    Some((agents, complete))
}

/// Reads `policy`; `None` if a field is invalid.
fn read_policy(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<SwarmPolicy> {
    let mut fields = field.fields(findings)?;
    let defaults = SwarmPolicy::default();
    let policy = SwarmPolicy {
        max_steps_per_turn: read_positive(&mut fields, "maxStepsPerTurn", findings)
            .unwrap_or(defaults.max_steps_per_turn),
        max_instances: read_positive(&mut fields, "maxInstances", findings)
            .unwrap_or(defaults.max_instances),
        max_concurrent_turns: read_positive(&mut fields, "maxConcurrentTurns", findings)
            .unwrap_or(defaults.max_concurrent_turns),
        max_call_depth: read_positive(&mut fields, "maxCallDepth", findings)
            .unwrap_or(defaults.max_call_depth),
        lifecycle: read_lifecycle(&mut fields, findings),
        shutdown_grace: read_grace(&mut fields, findings).unwrap_or(defaults.shutdown_grace),
        budget: read_budget(&mut fields, "runBudget", findings),
        turn_budget: read_budget(&mut fields, "turnBudget", findings),
        repetition: repetition::read(&mut fields, findings),
        untrusted: read_untrusted(&mut fields, findings),
        recorded_model_calls: read_telemetry(&mut fields, findings)
            .unwrap_or(defaults.recorded_model_calls),
    };
    fields.finish(findings);
    Some(policy)
}

/// Reads how long idle conversations are kept.
fn read_lifecycle(
    policy: &mut MapReader<'_>,
    findings: &mut DiagnosticSink,
) -> ConversationRetention {
    let fields = policy
        .optional("lifecycle")
        .and_then(|field| field.fields(findings));
    let Some(mut fields) = fields else {
        return ConversationRetention::default();
    };
    let lifecycle = ConversationRetention {
        ttl: read_seconds(&mut fields, "ttlSeconds", 1, findings)
            .unwrap_or(ConversationRetention::default().ttl),
        gc_grace: read_seconds(&mut fields, "gcGraceSeconds", 0, findings),
    };
    fields.finish(findings);
    lifecycle
}

/// Reads the time that running turns have at the end of the swarm.
fn read_grace(policy: &mut MapReader<'_>, findings: &mut DiagnosticSink) -> Option<Duration> {
    let mut fields = policy.optional("shutdown")?.fields(findings)?;
    let grace = read_seconds(&mut fields, "gracePeriodSeconds", 0, findings);
    fields.finish(findings);
    grace
}

/// Reads the number of recorded model calls.
fn read_telemetry(policy: &mut MapReader<'_>, findings: &mut DiagnosticSink) -> Option<usize> {
    let mut fields = policy.optional("telemetry")?.fields(findings)?;
    let calls = fields
        .optional("modelCalls")
        .and_then(|field| field.unsigned_as(0, findings));
    fields.finish(findings);
    calls
}

/// Reads the permissions in `untrustedSources`; reports and skips invalid ones.
fn read_untrusted(
    policy: &mut MapReader<'_>,
    findings: &mut DiagnosticSink,
) -> BTreeSet<Permission> {
    let items = policy
        .optional("untrustedSources")
        .and_then(|field| field.list(findings))
        .unwrap_or_default();
    items
        .iter()
        .filter_map(|item| Permission::read(item, findings))
        .collect()
}

/// Reads the limits of a budget.
fn read_budget(
    policy: &mut MapReader<'_>,
    name: &'static str,
    findings: &mut DiagnosticSink,
) -> BudgetLimits {
    let fields = policy
        .optional(name)
        .and_then(|field| field.fields(findings));
    let Some(mut fields) = fields else {
        return BudgetLimits::default();
    };
    let budget = BudgetLimits {
        max_tokens: read_positive(&mut fields, "maxTokens", findings),
        max_steps: read_positive(&mut fields, "maxSteps", findings),
        max_duration: read_seconds(&mut fields, "maxDuration", 1, findings),
        max_cost: fields.optional("maxCost").and_then(|field| {
            field.number(
                "more than 0",
                |most| most > 0.0 && most.is_finite(),
                findings,
            )
        }),
    };
    fields.finish(findings);
    budget
}

/// Reports models without prices or with another currency, because a cost limit cannot be enforced
/// for them.
fn check_prices(
    cost: &FieldReader<'_>,
    agents: &[ResourceId],
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) {
    let decoded = scope.decoded_resources();
    let models = agents
        .iter()
        .filter_map(|agent| decoded.agents.get(agent))
        .flat_map(|agent| agent.spec.models());
    let mut first: Option<&str> = None;
    for model in models.filter_map(|model| decoded.models.get(model)) {
        let problem = match (&model.spec.pricing, first) {
            (None, _) => (
                format!("`{}` has no `pricing`, so its cost is not known.", model.id),
                "add `pricing` to the model",
            ),
            (Some(pricing), Some(first)) if pricing.currency != first => (
                format!(
                    "`{}` has prices in {}, but other models have prices in {first}.",
                    model.id, pricing.currency
                ),
                "use one currency for all prices",
            ),
            (Some(pricing), _) => {
                first = Some(&pricing.currency);
                continue;
            }
        };
        findings.add(cost.invalid_value(problem.0).suggest(problem.1));
        return;
    }
}

/// Reads a positive integer; `None` if the field is missing or invalid.
fn read_positive<T: TryFrom<u64>>(
    fields: &mut MapReader<'_>,
    name: &'static str,
    findings: &mut DiagnosticSink,
) -> Option<T> {
    fields.optional(name)?.unsigned_as(1, findings)
}

/// Reads a number of seconds that is at least `least`; `None` if the field is missing or invalid.
fn read_seconds(
    fields: &mut MapReader<'_>,
    name: &'static str,
    least: u64,
    findings: &mut DiagnosticSink,
) -> Option<Duration> {
    // A `u32` cannot overflow a clock that it is added to.
    let seconds: u32 = fields.optional(name)?.unsigned_as(least, findings)?;
    Some(Duration::from_secs(seconds.into()))
}

/// Agents that run together.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Swarm")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct SwarmSpec {
    /// The agent that gets every input without another target. It must be one of `agents`.
    #[schemars(extend("x-goondan-names" = "Agent"))]
    entry_agent: RefShape,
    /// The agents of the swarm.
    #[schemars(length(min = 1), extend("x-goondan-names" = "Agent"))]
    agents: Vec<RefItemShape>,
    /// The name of the workspace that keeps the conversations. Projects with the same name share
    /// one workspace. Without it, the project has its own workspace.
    #[schemars(length(min = 1))]
    instance_key: Option<String>,
    /// Limits and rules for the whole swarm.
    policy: Option<PolicyShape>,
    /// The limits per minute on model calls of all agents together, in addition to the limits of
    /// each Model. A step waits when a limit is reached.
    limits: Option<RateLimitsShape>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Policy")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct PolicyShape {
    /// The maximum number of steps of one turn. A turn that reaches it ends with `max_steps`.
    #[schemars(range(min = 1), extend("default" = SwarmPolicy::default().max_steps_per_turn))]
    max_steps_per_turn: Option<u32>,
    /// The maximum number of conversations (instances). A further one is refused with
    /// `AGENT_INSTANCE_LIMIT`.
    #[schemars(range(min = 1), extend("default" = SwarmPolicy::default().max_instances))]
    max_instances: Option<u64>,
    /// The maximum number of turns that run at the same time. Further turns wait. A turn that waits
    /// for another agent does not count.
    #[schemars(range(min = 1), extend("default" = SwarmPolicy::default().max_concurrent_turns))]
    max_concurrent_turns: Option<u64>,
    /// The maximum nesting of requests between agents. A deeper request is refused with
    /// `AGENT_CALL_DEPTH_EXCEEDED`.
    #[schemars(range(min = 1), extend("default" = SwarmPolicy::default().max_call_depth))]
    max_call_depth: Option<u32>,
    /// The retention of idle conversations.
    lifecycle: Option<LifecycleShape>,
    /// The shutdown of the swarm.
    shutdown: Option<ShutdownShape>,
    /// The limits on one run of the swarm, over all turns. Beyond them, turns end with
    /// `E_BUDGET_EXCEEDED`.
    budget: Option<BudgetShape>,
    /// The limits on one turn. Beyond them, the turn ends with `E_BUDGET_EXCEEDED`.
    turn_budget: Option<BudgetShape>,
    /// The limits on tool calls that a turn repeats with the same arguments and the same result.
    repetition: Option<RepetitionShape>,
    /// Permissions of tools with untrusted output. After a conversation has read such output, its
    /// calls that execute, write or use the network need an approval.
    untrusted: Option<Vec<Permission>>,
    /// The records that people can inspect.
    telemetry: Option<PolicyTelemetryShape>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PolicyTelemetry")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct PolicyTelemetryShape {
    /// The maximum number of latest model calls that the studio can show, with prompts and answers
    /// but without secrets. They are only in memory. 0 records none.
    #[schemars(extend("default" = SwarmPolicy::default().recorded_model_calls))]
    model_calls: Option<u64>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Lifecycle")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct LifecycleShape {
    /// The idle time after which a conversation is retired, in seconds. The next input restores a
    /// retired conversation. The default is 90 days.
    #[schemars(range(min = 1), extend("default" = DEFAULT_TTL_SECONDS))]
    ttl_seconds: Option<u32>,
    /// The time between retirement and deletion of a conversation with its directory, in seconds.
    /// Without it, conversations are not deleted.
    gc_grace_seconds: Option<u32>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Shutdown")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ShutdownShape {
    /// The time that a stop waits for running turns, in seconds. Unfinished turns resume at the next
    /// start.
    #[schemars(extend("default" = SwarmPolicy::default().shutdown_grace.as_secs()))]
    grace_period_seconds: Option<u32>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Budget")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct BudgetShape {
    /// The maximum number of tokens.
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
    /// The maximum number of steps.
    #[schemars(range(min = 1))]
    max_steps: Option<u64>,
    /// The maximum duration, in seconds.
    #[schemars(range(min = 1))]
    max_duration_seconds: Option<u32>,
    /// The maximum cost of model calls, in the currency of the models' `pricing`. All models of the
    /// swarm need `pricing`.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_cost: Option<f64>,
}

//! `kind: Swarm`.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use schemars::JsonSchema;

use super::rate::{self, RateLimits, RateLimitsShape};
use super::{Permission, Scope};
use crate::decode::{Field, Fields};
use crate::findings::Findings;
use crate::meta::Kind;
use crate::references::{self, ItemShape, RefShape};
use crate::{ResourceId, text};

/// Agents that run together.
#[derive(Debug, Clone, PartialEq)]
pub struct Swarm {
    /// Who gets an input that names nobody; one of `agents`.
    pub entry_agent: ResourceId,
    /// At least one.
    pub agents: Vec<ResourceId>,
    /// The name of the workspace, where it is stated; else every project has one of its own.
    pub instance_key: Option<String>,
    /// Limits.
    pub policy: Policy,
    /// How much all its agents together may ask models in a minute.
    pub limits: RateLimits,
}

/// What a swarm may use up.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Default 32.
    pub max_steps_per_turn: u32,
    /// Default 10,000.
    pub max_instances: usize,
    /// Default 256.
    pub max_concurrent_turns: usize,
    /// Default 16.
    pub max_call_depth: u32,
    /// When idle instances go.
    pub lifecycle: Lifecycle,
    /// How long a shutdown waits for running turns (default 300 s).
    pub shutdown_grace: Duration,
    /// Stops a turn or the swarm with a clear reason.
    pub budget: Budget,
    /// Stops one turn, in the same way.
    pub turn_budget: Budget,
    /// What a tool with one of these permissions returns is untrusted: an agent that has read it asks before it executes,
    /// writes or uses the network.
    pub untrusted: BTreeSet<Permission>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            max_steps_per_turn: 32,
            max_instances: 10_000,
            max_concurrent_turns: 256,
            max_call_depth: 16,
            lifecycle: Lifecycle::default(),
            shutdown_grace: Duration::from_secs(300),
            budget: Budget::default(),
            turn_budget: Budget::default(),
            untrusted: BTreeSet::new(),
        }
    }
}

/// When idle instances go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// Idle for that long: the instance is retired.
    pub ttl: Option<Duration>,
    /// Retired for that long: its folder is deleted.
    pub gc_grace: Option<Duration>,
}

/// Limits on one run of a swarm; absent means none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget {
    /// Tokens over all turns.
    pub max_tokens: Option<u64>,
    /// Steps over all turns.
    pub max_steps: Option<u64>,
    /// Wall time.
    pub max_duration: Option<Duration>,
    /// What the models that were asked cost, in the currency of their prices.
    pub max_cost: Option<f64>,
}

pub(crate) fn decode(
    spec: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
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
        None => Some(Policy::default()),
    };
    let limits_field = fields.optional("limits");
    let limits = limits_field
        .as_ref()
        .map(|field| rate::read(field, findings));
    fields.finish(findings);
    if let Some((agents, _)) = &agents {
        let budget = |name| policy_field.as_ref()?.child(name)?.child("maxCost");
        let rate = limits_field
            .as_ref()
            .and_then(|field| field.child(rate::COST));
        let costs = [budget("budget"), budget("turnBudget"), rate]
            .into_iter()
            .flatten();
        costs.for_each(|cost| check_prices(&cost, agents, scope, findings));
    }
    let (entry_agent, (agents, complete)) = (entry_agent?, agents?);
    if complete && !agents.contains(&entry_agent) {
        let names: Vec<String> = agents.iter().map(ToString::to_string).collect();
        let message = format!("The entry agent `{entry_agent}` is not one of the swarm's agents.");
        let suggestion = format!(
            "add `- ref: {entry_agent}` to `spec.agents`, or choose {}",
            text::alternatives(&names)
        );
        findings.add(entry_field?.invalid(message).suggest(suggestion));
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

/// The agents, and whether each item could be resolved.
fn read_agents(
    field: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<(Vec<ResourceId>, bool)> {
    let mut agents: Vec<ResourceId> = Vec::new();
    let mut names = HashSet::new();
    let items = field.filled_list("agent", findings)?;
    let expected = items.len();
    for item in items {
        let Some((fields, reference)) = references::item(&item, findings) else {
            continue;
        };
        fields.finish(findings);
        let Some(id) = scope.resolve(&reference, Kind::Agent, findings) else {
            continue;
        };
        if !names.insert(id.name.clone()) {
            findings.add(reference.invalid(format!(
                "An agent called `{}` is in the swarm already.",
                id.name
            )));
        }
        agents.push(id);
    }
    let complete = agents.len() == expected;
    Some((agents, complete))
}

fn read_policy(field: &Field<'_>, findings: &mut Findings) -> Option<Policy> {
    let mut fields = field.fields(findings)?;
    let defaults = Policy::default();
    let policy = Policy {
        max_steps_per_turn: whole(&mut fields, "maxStepsPerTurn", findings)
            .unwrap_or(defaults.max_steps_per_turn),
        max_instances: whole(&mut fields, "maxInstances", findings)
            .unwrap_or(defaults.max_instances),
        max_concurrent_turns: whole(&mut fields, "maxConcurrentTurns", findings)
            .unwrap_or(defaults.max_concurrent_turns),
        max_call_depth: whole(&mut fields, "maxCallDepth", findings)
            .unwrap_or(defaults.max_call_depth),
        lifecycle: read_lifecycle(&mut fields, findings),
        shutdown_grace: read_grace(&mut fields, findings).unwrap_or(defaults.shutdown_grace),
        budget: read_budget(&mut fields, "budget", findings),
        turn_budget: read_budget(&mut fields, "turnBudget", findings),
        untrusted: read_untrusted(&mut fields, findings),
    };
    fields.finish(findings);
    Some(policy)
}

fn read_lifecycle(policy: &mut Fields<'_>, findings: &mut Findings) -> Lifecycle {
    let fields = policy
        .optional("lifecycle")
        .and_then(|field| field.fields(findings));
    let Some(mut fields) = fields else {
        return Lifecycle::default();
    };
    let lifecycle = Lifecycle {
        ttl: seconds(&mut fields, "ttlSeconds", 1, findings),
        gc_grace: seconds(&mut fields, "gcGraceSeconds", 0, findings),
    };
    fields.finish(findings);
    lifecycle
}

fn read_grace(policy: &mut Fields<'_>, findings: &mut Findings) -> Option<Duration> {
    let mut fields = policy.optional("shutdown")?.fields(findings)?;
    let grace = seconds(&mut fields, "gracePeriodSeconds", 0, findings);
    fields.finish(findings);
    grace
}

fn read_untrusted(policy: &mut Fields<'_>, findings: &mut Findings) -> BTreeSet<Permission> {
    let items = policy
        .optional("untrusted")
        .and_then(|field| field.list(findings))
        .unwrap_or_default();
    items
        .iter()
        .filter_map(|item| Permission::read(item, findings))
        .collect()
}

fn read_budget(policy: &mut Fields<'_>, name: &'static str, findings: &mut Findings) -> Budget {
    let fields = policy
        .optional(name)
        .and_then(|field| field.fields(findings));
    let Some(mut fields) = fields else {
        return Budget::default();
    };
    let budget = Budget {
        max_tokens: whole(&mut fields, "maxTokens", findings),
        max_steps: whole(&mut fields, "maxSteps", findings),
        max_duration: seconds(&mut fields, "maxDurationSeconds", 1, findings),
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

/// A budget of money can be kept only where every model says what it costs, and all of them in one currency.
fn check_prices(
    cost: &Field<'_>,
    agents: &[ResourceId],
    scope: &Scope<'_>,
    findings: &mut Findings,
) {
    let decoded = scope.decoded();
    let models = agents
        .iter()
        .filter_map(|agent| decoded.agents.get(agent))
        .flat_map(|agent| agent.spec.models());
    let mut first: Option<&str> = None;
    for model in models.filter_map(|model| decoded.models.get(model)) {
        let problem = match (&model.spec.pricing, first) {
            (None, _) => (
                format!(
                    "`{}` has no `pricing`, so what it costs is not known.",
                    model.id
                ),
                "state its `pricing`",
            ),
            (Some(pricing), Some(first)) if pricing.currency != first => (
                format!(
                    "`{}` has prices in {}, and other models have them in {first}.",
                    model.id, pricing.currency
                ),
                "state all prices in one currency",
            ),
            (Some(pricing), _) => {
                first = Some(&pricing.currency);
                continue;
            }
        };
        findings.add(cost.invalid(problem.0).suggest(problem.1));
        return;
    }
}

fn whole<T: TryFrom<u64>>(
    fields: &mut Fields<'_>,
    name: &'static str,
    findings: &mut Findings,
) -> Option<T> {
    fields.optional(name)?.whole_as(1, findings)
}

fn seconds(
    fields: &mut Fields<'_>,
    name: &'static str,
    least: u64,
    findings: &mut Findings,
) -> Option<Duration> {
    // Through u32, so that adding it to a clock cannot overflow.
    let seconds: u32 = fields.optional(name)?.whole_as(least, findings)?;
    Some(Duration::from_secs(seconds.into()))
}

/// Agents that run together.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Swarm")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct SwarmSpec {
    /// The agent that gets every input that names no other agent. It must be one of `agents`.
    #[schemars(extend("x-goondan-names" = "Agent"))]
    entry_agent: RefShape,
    /// The agents of the swarm.
    #[schemars(length(min = 1), extend("x-goondan-names" = "Agent"))]
    agents: Vec<ItemShape>,
    /// The name of the workspace that keeps the conversations. Projects with the same name share one workspace. Without
    /// it, the project has a workspace of its own.
    #[schemars(length(min = 1))]
    instance_key: Option<String>,
    /// Limits and rules for the whole swarm.
    policy: Option<PolicyShape>,
    /// How much all agents together may ask models in a minute, beside the limits of each Model. Beyond it, a step waits.
    limits: Option<RateLimitsShape>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Policy")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct PolicyShape {
    /// How many steps one turn may take. A turn that reaches the limit ends with `max_steps`.
    #[schemars(range(min = 1), extend("default" = Policy::default().max_steps_per_turn))]
    max_steps_per_turn: Option<u32>,
    /// How many instances (conversations) may exist. Beyond it, a new one is refused with `AGENT_INSTANCE_LIMIT`.
    #[schemars(range(min = 1), extend("default" = Policy::default().max_instances))]
    max_instances: Option<u64>,
    /// How many turns may run at the same time. Further turns wait. A turn that waits for another agent does not count.
    #[schemars(range(min = 1), extend("default" = Policy::default().max_concurrent_turns))]
    max_concurrent_turns: Option<u64>,
    /// How deeply requests between agents may nest. Beyond it, a request is refused with `AGENT_CALL_DEPTH_EXCEEDED`.
    #[schemars(range(min = 1), extend("default" = Policy::default().max_call_depth))]
    max_call_depth: Option<u32>,
    /// When idle instances are retired and deleted.
    lifecycle: Option<LifecycleShape>,
    /// How the swarm shuts down.
    shutdown: Option<ShutdownShape>,
    /// What one run of the swarm may use, over all turns. Beyond it, turns end with `E_BUDGET_EXCEEDED`.
    budget: Option<BudgetShape>,
    /// What one turn may use. Beyond it, the turn ends with `E_BUDGET_EXCEEDED`.
    turn_budget: Option<BudgetShape>,
    /// Permissions whose tools return untrusted output. Once a conversation has read such output, each of its calls that
    /// executes, writes or uses the network needs an approval.
    untrusted: Option<Vec<Permission>>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Lifecycle")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct LifecycleShape {
    /// After how many idle seconds an instance is retired. Without it, none is.
    #[schemars(range(min = 1))]
    ttl_seconds: Option<u32>,
    /// After how many further seconds a retired instance is deleted with its folder. Without it, none is.
    gc_grace_seconds: Option<u32>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Shutdown")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ShutdownShape {
    /// How many seconds the swarm waits for running turns before it cancels them.
    #[schemars(extend("default" = Policy::default().shutdown_grace.as_secs()))]
    grace_period_seconds: Option<u32>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Budget")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct BudgetShape {
    /// How many tokens may be used.
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
    /// How many steps may be taken.
    #[schemars(range(min = 1))]
    max_steps: Option<u64>,
    /// How many seconds may pass.
    #[schemars(range(min = 1))]
    max_duration_seconds: Option<u32>,
    /// How much the model calls may cost, in the currency of the models' `pricing`. All models of the swarm need one.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_cost: Option<f64>,
}

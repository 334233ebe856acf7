//! Check for calls that an agent may make but its callers may not. Such calls need an approval or
//! are denied.

use std::collections::BTreeMap;

use goondan_core::JsonObject;
use goondan_engine::policy::{
    DecisionReason, PathArguments, PolicyDecision, PolicyQuestion, decide,
};
use goondan_spec::kinds::{
    Agent, ExportSpec, Permission, PermissionAction, PermissionRule, RuleSandbox,
};
use goondan_spec::{Bundle, Code, Diagnostic, Resource, pattern};
use serde_json::{Value, json};

use crate::trust::effective_permissions::AgentCallers;

/// Maximum number of calls that a warning names.
const MAX_NAMED_CALLS: usize = 3;

/// Returns a warning for each agent and caller if the caller implicitly grants less.
pub(super) fn check(bundle: &Bundle) -> Vec<Diagnostic> {
    let callers = AgentCallers::of(bundle);
    let pairs = bundle.agents().values().flat_map(|agent| {
        callers
            .callers_of(&agent.id)
            .filter_map(|caller| caller_gap(bundle, agent, caller))
    });
    pairs.collect()
}

/// Call that an agent may make without approval.
struct SampleCall<'b> {
    /// Full tool name, `resource__export`.
    name: String,
    export: &'b ExportSpec,
    arguments: JsonObject,
    /// Rule that allows the call; `None` if the agent's default does.
    rule: Option<&'b PermissionRule>,
}

/// Returns a warning about calls that `agent` may make, but `caller` implicitly may not; `None` if
/// there are none.
fn caller_gap(
    bundle: &Bundle,
    agent: &Resource<Agent>,
    caller: &Resource<Agent>,
) -> Option<Diagnostic> {
    let mut gaps: BTreeMap<String, PermissionAction> = BTreeMap::new();
    let mut names = Vec::new();
    for call in calls(bundle, &agent.spec) {
        let by_caller = call.decide(&caller.spec);
        if by_caller.action == PermissionAction::Allow
            || is_stated(&by_caller)
            || call.decide(&agent.spec).action != PermissionAction::Allow
        {
            continue;
        }
        gaps.entry(call.granting_rule()).or_insert(by_caller.action);
        names.push(call.description());
    }
    names.dedup();
    let (first, unnamed) = names.split_at(names.len().min(MAX_NAMED_CALLS));
    let action = *gaps.values().next()?;
    let consequence = if action == PermissionAction::Deny {
        "refused"
    } else {
        "subject to approval"
    };
    let verb = if names.len() == 1 { "is" } else { "are" };
    let unnamed_text = if unnamed.is_empty() {
        String::new()
    } else {
        format!(" and {} more", unnamed.len())
    };
    let message = format!(
        "{} can call {} but has fewer permissions: in requests from {}, {}{unnamed_text} {verb} {consequence}.",
        caller.id,
        agent.id,
        caller.id,
        joined_names(first, unnamed.is_empty()),
    );
    let rules: Vec<&str> = gaps.keys().map(String::as_str).collect();
    let suggestion = format!(
        "add {} to `spec.permissions.rules` of {}; if that agent has no such tools itself, \
            `permissions: {{default: allow}}` is also safe",
        rules
            .iter()
            .map(|rule| format!("`- {rule}`"))
            .collect::<Vec<_>>()
            .join(", "),
        caller.id
    );
    let mut diagnostic = Diagnostic::new(Code::CALLER_RESTRICTS, message).of(&caller.id);
    if let Some((file, at)) = &caller.origin {
        diagnostic = diagnostic.in_file(file.clone()).at(*at);
    }
    Some(diagnostic.field("spec.permissions").suggest(suggestion))
}

/// Joins names into a list; the last name gets "and" if the list `ends`.
fn joined_names(names: &[String], ends: bool) -> String {
    match names {
        [first @ .., last] if ends && !first.is_empty() => {
            format!("{} and {last}", first.join(", "))
        }
        names => names.join(", "),
    }
}

/// Returns true if a written rule causes the decision. Consequences of a default may be unintended.
fn is_stated(decision: &PolicyDecision) -> bool {
    matches!(
        decision.because,
        DecisionReason::Rule {
            number: Some(_),
            ..
        } | DecisionReason::Doubt { .. }
    )
}

/// Returns sample calls of an agent's tools: one without arguments per export, and one for each
/// rule that allows calls by their arguments.
fn calls<'b>(bundle: &'b Bundle, agent: &'b Agent) -> Vec<SampleCall<'b>> {
    let rules = agent
        .permissions
        .iter()
        .flat_map(|permissions| &permissions.rules);
    let allowing: Vec<&PermissionRule> = rules
        .filter(|rule| rule.action == PermissionAction::Allow)
        .collect();
    let mut calls = Vec::new();
    for used in &agent.tools {
        let exports = bundle.tools()[&used.tool].spec.exports.iter();
        let is_chosen = |export: &&ExportSpec| used.selects(&export.name);
        for export in exports.filter(is_chosen) {
            let name = format!("{}__{}", used.tool.name, export.name);
            for rule in allowing
                .iter()
                .copied()
                .filter(|rule| !rule.args.is_empty() && can_match(rule, &name, export))
            {
                let arguments = rule
                    .args
                    .iter()
                    .map(|(name, pattern)| (name.clone(), sample(pattern)))
                    .collect();
                calls.push(SampleCall {
                    name: name.clone(),
                    export,
                    arguments,
                    rule: Some(rule),
                });
            }
            let rule = allowing
                .iter()
                .copied()
                .rfind(|rule| rule.args.is_empty() && can_match(rule, &name, export));
            calls.push(SampleCall {
                name,
                export,
                arguments: JsonObject::new(),
                rule,
            });
        }
    }
    calls
}

/// Returns true if the rule decides about all permissions of the export. Arguments are ignored.
fn can_match(rule: &PermissionRule, name: &str, export: &ExportSpec) -> bool {
    rule.tool
        .as_ref()
        .is_none_or(|tool| pattern::matches(tool, name))
        && rule
            .permission
            .is_none_or(|permission| export.permissions.iter().eq([&permission]))
}

/// Returns a minimal string that matches the pattern.
fn sample(pattern: &str) -> Value {
    Value::from(
        pattern
            .replace(" *", " x")
            .replace('*', "")
            .replace('?', "x"),
    )
}

impl SampleCall<'_> {
    /// Evaluates the call with the policy of one agent.
    fn decide(&self, agent: &Agent) -> PolicyDecision {
        let marked = self.export.marked_arguments();
        let paths = PathArguments::of(&marked, &self.arguments);
        let (tool_name, needs) = (self.name.as_str(), &self.export.permissions);
        let question = PolicyQuestion {
            tool_name,
            needs,
            arguments: &self.arguments,
            marked: &marked,
            paths: &paths,
        };
        decide(agent.permissions.as_ref(), question)
    }

    /// Returns a short description of the call.
    fn description(&self) -> String {
        let arguments = self.rule.iter().flat_map(|rule| &rule.args);
        let arguments: Vec<String> = arguments
            .map(|(name, pattern)| format!("{name} `{pattern}`"))
            .collect();
        match arguments.as_slice() {
            [] => self.name.clone(),
            some => format!("{} ({})", self.name, some.join(", ")),
        }
    }

    /// Returns the rule that grants the call, as YAML.
    fn granting_rule(&self) -> String {
        let Some(rule) = self.rule else {
            return format!("{{tool: {}, action: allow}}", self.name);
        };
        let tool = rule
            .tool
            .as_ref()
            .map(|tool| format!("tool: {}", quoted(tool)));
        let permission = rule
            .permission
            .map(|permission| format!("requires: {}", permission_name(permission)));
        let args: Vec<String> = rule
            .args
            .iter()
            .map(|(name, pattern)| format!("{name}: {}", quoted(pattern)))
            .collect();
        let args = (!args.is_empty()).then(|| format!("args: {{{}}}", args.join(", ")));
        let sandbox = match &rule.sandbox {
            RuleSandbox::Usual => None,
            RuleSandbox::Off => Some("sandbox: false".to_owned()),
            RuleSandbox::With(sandbox) => Some(format!("sandbox: {}", json!(sandbox))),
        };
        let fields: Vec<String> = [tool, permission, args, sandbox]
            .into_iter()
            .flatten()
            .collect();
        format!("{{{}, action: allow}}", fields.join(", "))
    }
}

/// Quotes a string for a YAML flow mapping.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| text.to_owned())
}

/// Returns the name of the permission in YAML.
fn permission_name(permission: Permission) -> &'static str {
    match permission {
        Permission::Read => "read",
        Permission::Write => "write",
        Permission::Execute => "execute",
        Permission::Network => "network",
    }
}

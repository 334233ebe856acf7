//! What an agent may do and those that call it may not: they would be asked for it, or be refused.

use std::collections::BTreeMap;

use goondan_core::JsonObject;
use goondan_engine::policy::{Because, Decision, PathArguments, PolicyQuestion, decide};
use goondan_spec::kinds::{Action, Agent, ExportSpec, Permission, PermissionRule, RuleSandbox};
use goondan_spec::{Bundle, Code, Diagnostic, Resource, pattern};
use serde_json::{Value, json};

use crate::chain::Callers;

/// The most calls that a warning names.
const MOST: usize = 3;

/// A warning for each agent and each that can call it and grants it less without saying so.
pub(super) fn check(bundle: &Bundle) -> Vec<Diagnostic> {
    let callers = Callers::of(bundle);
    let pairs = bundle.agents().values().flat_map(|agent| {
        callers
            .of_agent(&agent.id)
            .filter_map(|caller| between(bundle, agent, caller))
    });
    pairs.collect()
}

/// A call that an agent may make by itself.
struct Call<'b> {
    /// `resource__export`.
    name: String,
    export: &'b ExportSpec,
    arguments: JsonObject,
    /// What allows it to the agent; nothing where that is its default.
    rule: Option<&'b PermissionRule>,
}

fn between(
    bundle: &Bundle,
    agent: &Resource<Agent>,
    caller: &Resource<Agent>,
) -> Option<Diagnostic> {
    let mut gaps: BTreeMap<String, Action> = BTreeMap::new();
    let mut names = Vec::new();
    for call in calls(bundle, &agent.spec) {
        let by_caller = call.decide(&caller.spec);
        if by_caller.action == Action::Allow
            || is_stated(&by_caller)
            || call.decide(&agent.spec).action != Action::Allow
        {
            continue;
        }
        gaps.entry(call.granting()).or_insert(by_caller.action);
        names.push(call.shown());
    }
    names.dedup();
    let (first, more) = names.split_at(names.len().min(MOST));
    let action = *gaps.values().next()?;
    let does = if action == Action::Deny {
        "refused"
    } else {
        "asked for"
    };
    let verb = if names.len() == 1 { "is" } else { "are" };
    let others = if more.is_empty() {
        String::new()
    } else {
        format!(" and {} more", more.len())
    };
    let message = format!(
        "{} can call {}, and does not grant all that it may do: for {}, {}{others} {verb} {does}.",
        caller.id,
        agent.id,
        caller.id,
        listed(first, more.is_empty()),
    );
    let rules: Vec<&str> = gaps.keys().map(String::as_str).collect();
    let suggestion = format!(
        "add {} to `spec.permissions.rules` of {}; an agent that has no such tools itself may as well have \
         `permissions: {{default: allow}}`",
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

/// Some names as a list that ends, or goes on.
fn listed(names: &[String], ends: bool) -> String {
    match names {
        [first @ .., last] if ends && !first.is_empty() => {
            format!("{} and {last}", first.join(", "))
        }
        names => names.join(", "),
    }
}

/// Whether somebody has written down that it is so. What follows from a default may not have been thought of.
fn is_stated(decision: &Decision) -> bool {
    matches!(
        decision.because,
        Because::Rule {
            number: Some(_),
            ..
        } | Because::Doubt { .. }
    )
}

/// Calls of an agent's tools: each without arguments, and for each rule that allows some by their arguments one that it is
/// about.
fn calls<'b>(bundle: &'b Bundle, agent: &'b Agent) -> Vec<Call<'b>> {
    let rules = agent
        .permissions
        .iter()
        .flat_map(|permissions| &permissions.rules);
    let allowing: Vec<&PermissionRule> =
        rules.filter(|rule| rule.action == Action::Allow).collect();
    let mut calls = Vec::new();
    for used in &agent.tools {
        let exports = bundle.tools()[&used.tool].spec.exports.iter();
        let is_chosen = |export: &&ExportSpec| {
            used.exports
                .as_ref()
                .is_none_or(|names| names.contains(&export.name))
        };
        for export in exports.filter(is_chosen) {
            let name = format!("{}__{}", used.tool.name, export.name);
            for rule in allowing
                .iter()
                .copied()
                .filter(|rule| !rule.args.is_empty() && is_about(rule, &name, export))
            {
                let arguments = rule
                    .args
                    .iter()
                    .map(|(name, pattern)| (name.clone(), sample(pattern)))
                    .collect();
                calls.push(Call {
                    name: name.clone(),
                    export,
                    arguments,
                    rule: Some(rule),
                });
            }
            let rule = allowing
                .iter()
                .copied()
                .rfind(|rule| rule.args.is_empty() && is_about(rule, &name, export));
            calls.push(Call {
                name,
                export,
                arguments: JsonObject::new(),
                rule,
            });
        }
    }
    calls
}

fn is_about(rule: &PermissionRule, name: &str, export: &ExportSpec) -> bool {
    rule.tool
        .as_ref()
        .is_none_or(|tool| pattern::matches(tool, name))
        && rule
            .permission
            .is_none_or(|permission| export.permissions.contains(&permission))
}

/// A text that a pattern matches, and that is no more than it says.
fn sample(pattern: &str) -> Value {
    Value::from(
        pattern
            .replace(" *", " x")
            .replace('*', "")
            .replace('?', "x"),
    )
}

impl Call<'_> {
    /// What the policy of one agent says of it.
    fn decide(&self, agent: &Agent) -> Decision {
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

    /// The call in a few words.
    fn shown(&self) -> String {
        let arguments = self.rule.iter().flat_map(|rule| &rule.args);
        let arguments: Vec<String> = arguments
            .map(|(name, pattern)| format!("{name} `{pattern}`"))
            .collect();
        match arguments.as_slice() {
            [] => self.name.clone(),
            some => format!("{} ({})", self.name, some.join(", ")),
        }
    }

    /// The rule that grants it.
    fn granting(&self) -> String {
        let Some(rule) = self.rule else {
            return format!("{{tool: {}, action: allow}}", self.name);
        };
        let tool = rule
            .tool
            .as_ref()
            .map(|tool| format!("tool: {}", quoted(tool)));
        let permission = rule
            .permission
            .map(|permission| format!("permission: {}", word(permission)));
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

/// A text as YAML takes it between braces.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| text.to_owned())
}

fn word(permission: Permission) -> &'static str {
    match permission {
        Permission::Read => "read",
        Permission::Write => "write",
        Permission::Execute => "execute",
        Permission::Network => "network",
    }
}

//! Lines of the commands that list the conversations, tools, models and permissions.

use chrono::Local;
use goondan::ids::InstanceId;
use goondan::internal::untrusted_text;
use goondan::ports::model::ToolDefinition;
use goondan::ports::store::InstanceMeta;
use goondan::spec::kinds::{Agent, PermissionAction, PermissionRule};
use goondan::spec::{Bundle, Resource, ResourceId};

/// Maximum number of conversations in a list.
const MAX_SESSIONS: usize = 20;

/// Lists the conversations, latest first, and marks the current one.
pub(super) fn sessions(mut found: Vec<InstanceMeta>, current: &InstanceId) -> Vec<String> {
    if found.is_empty() {
        return vec!["There are no conversations yet.".to_owned()];
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.updated_at));
    let hidden = found.len().saturating_sub(MAX_SESSIONS);
    let line = |one: &InstanceMeta| {
        let id = InstanceId::new(&one.agent, &one.instance_key);
        let mark = if id == *current { "▸" } else { " " };
        let time = one
            .updated_at
            .with_timezone(&Local)
            .format("%Y-%m-%d %H:%M");
        format!("{mark} {time}  {}", untrusted_text::line(id))
    };
    let mut lines: Vec<String> = found.iter().take(MAX_SESSIONS).map(line).collect();
    if hidden > 0 {
        lines.push(format!("{hidden} more; `gdn conversation list` shows all."));
    }
    lines.push("Continue one with `/agent NAME` and `/key KEY`.".to_owned());
    lines
}

/// Lists the tools, each with the first line of its description.
pub(super) fn tools(tools: &[ToolDefinition]) -> Vec<String> {
    let line = |tool: &ToolDefinition| {
        let about = tool.description.lines().next().unwrap_or_default();
        format!(
            "{:<24} {}",
            untrusted_text::line(&tool.name).to_string(),
            untrusted_text::line(about)
        )
    };
    if tools.is_empty() {
        vec!["This agent has no tools.".to_owned()]
    } else {
        tools.iter().map(line).collect()
    }
}

/// Lists the models of an agent: first the main one, then the fallbacks in their order.
pub(super) fn models(bundle: &Bundle, agent: &str) -> Vec<String> {
    let Some(agent) = find(bundle, agent) else {
        return Vec::new();
    };
    let line = |(number, id): (usize, &ResourceId)| {
        let role = if number == 0 { "" } else { "fallback " };
        let details = bundle.models().get(id).map_or_else(String::new, |model| {
            format!(": {} {}", model.spec.provider, model.spec.model)
        });
        untrusted_text::line(format!("{role}{id}{details}")).to_string()
    };
    let models = std::iter::once(&agent.spec.model).chain(&agent.spec.fallbacks);
    models.enumerate().map(line).collect()
}

/// Lists the permission rules of an agent in order, after the default action.
pub(super) fn permissions(bundle: &Bundle, agent: &str) -> Vec<String> {
    let Some(agent) = find(bundle, agent) else {
        return Vec::new();
    };
    let Some(permissions) = &agent.spec.permissions else {
        return vec![
            "The agent has no `permissions`. Calls that execute programs or use the network \
                     need your approval; other calls run."
                .to_owned(),
        ];
    };
    let default = format!("{:<6} all calls", word(permissions.default));
    let mut lines = vec![
        "The last rule that matches a call decides:".to_owned(),
        default,
    ];
    lines.extend(permissions.rules.iter().map(rule));
    lines
}

fn find<'b>(bundle: &'b Bundle, name: &str) -> Option<&'b Resource<Agent>> {
    let agent = bundle.agents().values().find(|agent| agent.id.name == name);
    agent.map(AsRef::as_ref)
}

/// Describes a rule.
fn rule(rule: &PermissionRule) -> String {
    let mut conditions: Vec<String> = Vec::new();
    conditions.extend(rule.tool.iter().map(|tool| format!("tool {tool}")));
    conditions.extend(
        rule.permission
            .iter()
            .map(|permission| format!("permission {}", format!("{permission:?}").to_lowercase())),
    );
    conditions.extend(
        rule.args
            .iter()
            .map(|(name, pattern)| format!("{name}: {pattern}")),
    );
    if conditions.is_empty() {
        conditions.push("all calls".to_owned());
    }
    format!(
        "{:<6} {}",
        word(rule.action),
        untrusted_text::line(conditions.join(", "))
    )
}

fn word(action: PermissionAction) -> &'static str {
    match action {
        PermissionAction::Allow => "allow",
        PermissionAction::Ask => "ask",
        PermissionAction::Deny => "deny",
    }
}

//! What an agent's tools may do (rules S1, S1b).

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_spec::kinds::{Action, Permission, PermissionRule, Permissions};
use serde_json::Value;
use wildmatch::WildMatch;

use crate::JsonObject;
use crate::ids::InstanceId;

/// A call that a policy decides about.
#[derive(Debug, Clone, Copy)]
pub struct PolicyQuestion<'a> {
    /// `resource__export`.
    pub tool_name: &'a str,
    /// What the export declares that it needs.
    pub needs: &'a BTreeSet<Permission>,
    /// The arguments.
    pub arguments: &'a JsonObject,
}

/// What `permissions` say: the last matching rule, else the default. An agent that states nothing reads and writes
/// freely and asks before it runs programs or uses the network.
pub fn decide(permissions: Option<&Permissions>, question: PolicyQuestion<'_>) -> Action {
    match permissions {
        None => unstated(question.needs),
        Some(permissions) => {
            let deciding = permissions.rules.iter().rev().find(|rule| matches(rule, question));
            deciding.map_or(permissions.default, |rule| rule.action)
        }
    }
}

/// The stricter of two actions: a callee never gets more than its callers have.
pub fn stricter(a: Action, b: Action) -> Action {
    match (a, b) {
        (Action::Deny, _) | (_, Action::Deny) => Action::Deny,
        (Action::Ask, _) | (_, Action::Ask) => Action::Ask,
        (Action::Allow, Action::Allow) => Action::Allow,
    }
}

fn unstated(needs: &BTreeSet<Permission>) -> Action {
    let asks = needs.contains(&Permission::Execute) || needs.contains(&Permission::Network);
    if asks { Action::Ask } else { Action::Allow }
}

fn matches(rule: &PermissionRule, question: PolicyQuestion<'_>) -> bool {
    rule.tool.as_ref().is_none_or(|pattern| WildMatch::new(pattern).matches(question.tool_name))
        && rule.permission.is_none_or(|permission| question.needs.contains(&permission))
        && rule.args.iter().all(|(name, pattern)| {
            question.arguments.get(name).is_some_and(|value| WildMatch::new(pattern).matches(&as_text(value)))
        })
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A call that waits for somebody's word.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// Unique; ties the events of an approval together.
    pub id: String,
    /// Whose call it is.
    pub instance: InstanceId,
    /// The call.
    pub tool_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// Its arguments.
    pub arguments: JsonObject,
}

/// Somebody's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// It runs.
    Allow,
    /// It is refused.
    Deny,
    /// There is nobody to ask.
    NobodyThere,
}

/// Answers for people.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides about one call. It must not wait where nobody can answer.
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer;
}

/// A run without anybody to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headless;

#[async_trait]
impl Approver for Headless {
    async fn ask(&self, _request: ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::NobodyThere
    }
}

/// Says yes to everything (`--yes`).
#[derive(Debug, Clone, Copy, Default)]
pub struct ApproveAll;

#[async_trait]
impl Approver for ApproveAll {
    async fn ask(&self, _request: ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::Allow
    }
}

/// The approver of a swarm.
pub type SharedApprover = Arc<dyn Approver>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn ask(permissions: Option<&Permissions>, tool_name: &str, needs: &[Permission], arguments: Value) -> Action {
        let needs = needs.iter().copied().collect();
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        decide(permissions, PolicyQuestion { tool_name, needs: &needs, arguments: &arguments })
    }

    fn rule(
        tool: Option<&str>,
        permission: Option<Permission>,
        args: &[(&str, &str)],
        action: Action,
    ) -> PermissionRule {
        let args: BTreeMap<_, _> = args.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        PermissionRule { tool: tool.map(str::to_owned), permission, args, action }
    }

    #[test]
    fn an_agent_that_states_nothing_asks_before_it_executes() {
        assert_eq!(ask(None, "fs__write", &[Permission::Write], json!({})), Action::Allow);
        assert_eq!(ask(None, "bash__exec", &[Permission::Execute], json!({})), Action::Ask);
        assert_eq!(ask(None, "http-fetch__get", &[Permission::Network], json!({})), Action::Ask);
    }

    #[test]
    fn the_last_matching_rule_wins() {
        let permissions = Permissions {
            default: Action::Allow,
            rules: vec![
                rule(None, Some(Permission::Execute), &[], Action::Ask),
                rule(Some("bash__*"), None, &[("command", "echo *")], Action::Allow),
            ],
        };
        let needs = [Permission::Execute];
        assert_eq!(ask(Some(&permissions), "bash__exec", &needs, json!({"command": "echo hi"})), Action::Allow);
        assert_eq!(ask(Some(&permissions), "bash__exec", &needs, json!({"command": "ls"})), Action::Ask);
        assert_eq!(ask(Some(&permissions), "wait__seconds", &[], json!({})), Action::Allow);
    }

    #[test]
    fn a_rule_about_an_argument_needs_the_argument() {
        let rules = vec![rule(None, None, &[("path", "*")], Action::Allow)];
        let permissions = Permissions { default: Action::Deny, rules };
        assert_eq!(ask(Some(&permissions), "fs__read", &[], json!({})), Action::Deny);
    }
}

//! Required calls and answers of agents that receive the events of a connection.

use goondan_core::JsonObject;
use goondan_engine::policy::{PathArguments, PolicyDecision, PolicyQuestion, decide};
use goondan_spec::kinds::{
    Agent, Connection, ConnectorManifest, ExportSpec, ExtensionEntry, PermissionAction, ReplyMode,
};
use goondan_spec::{Bundle, Code, Diagnostic, Resource, ResourceId, pattern};

use super::{builtin, warning};
use crate::adapters::connectors::receivers;
use crate::start::project::base_connector;

/// Extension that writes answers to files.
const LOGGING: &str = "logging";

/// Returns a warning for each receiver of a connection's events that cannot do what it must.
pub(super) fn check(bundle: &Bundle, swarm: &ResourceId) -> Vec<Diagnostic> {
    let connections = bundle.connections_of(swarm);
    let pairs = connections.flat_map(|connection| {
        let receivers = receivers(bundle, connection).into_iter();
        receivers
            .filter_map(|id| bundle.agents().get(id))
            .map(move |agent| (connection, agent))
    });
    pairs
        .flat_map(|(connection, agent)| {
            let required = unapproved_requirement(bundle, connection, agent);
            required
                .into_iter()
                .chain(lost_answer(bundle, connection, agent))
        })
        .collect()
}

/// Returns a warning if every required tool of the agent needs an approval, or is denied, and the
/// connection has no approvers.
fn unapproved_requirement(
    bundle: &Bundle,
    connection: &Resource<Connection>,
    agent: &Resource<Agent>,
) -> Option<Diagnostic> {
    let allow = connection.spec.allow.as_ref();
    if allow.is_some_and(|allow| !allow.approvers.is_empty()) {
        return None;
    }
    let required = &agent.spec.required_tools;
    let needs_approval = |name: &String| {
        RequiredTool::find(bundle, &agent.spec, name)
            .is_some_and(|tool| tool.is_never_allowed(bundle, connection, &agent.spec))
    };
    if required.is_empty() || !required.iter().all(needs_approval) {
        return None;
    }
    let names: Vec<String> = required.iter().map(|name| format!("`{name}`")).collect();
    let subject = match names.as_slice() {
        [name] => format!("{name}, and the call needs an approval"),
        names => format!(
            "one of {}, and each call needs an approval",
            names.join(", ")
        ),
    };
    let message = format!(
        "{} must call {subject}, but {} names no approvers.",
        agent.id, connection.id
    );
    let rule = format!("- {{tool: {}, action: allow}}", required[0]);
    let takes_approvers = manifest(bundle, connection).is_some_and(|manifest| manifest.asks);
    let approvers = match takes_approvers {
        true => format!(", or `allow: {{approvers: [ID]}}` to {}", connection.id),
        false => String::new(),
    };
    let suggestion = format!(
        "add `{rule}` to `spec.permissions.rules` of {}{approvers}",
        agent.id
    );
    let problem = warning(Code::NO_APPROVER, agent, "spec.requiredTools", message);
    Some(problem.suggest(suggestion))
}

/// Required tool of an agent.
struct RequiredTool<'b> {
    /// Full tool name, `resource__export`.
    name: &'b str,
    /// Name of the built-in tool and export, if it is one.
    builtin: Option<String>,
    export: &'b ExportSpec,
}

impl<'b> RequiredTool<'b> {
    /// Finds a required tool; `None` if its export is unknown before the tool is opened.
    fn find(bundle: &'b Bundle, agent: &'b Agent, name: &'b str) -> Option<RequiredTool<'b>> {
        let (resource, export) = name.split_once("__")?;
        let used = agent.tools.iter().find(|used| used.tool.name == resource)?;
        let exports = &bundle.tools().get(&used.tool)?.spec.exports;
        Some(RequiredTool {
            name,
            builtin: builtin(bundle, used).map(|tool| format!("{tool}__{export}")),
            export: exports.iter().find(|one| one.name == export)?,
        })
    }

    /// Returns true if no call can run without an approval. This is false if a rule allows the tool,
    /// even with certain arguments, or if the call answers the connection and no written rule
    /// decides about it.
    fn is_never_allowed(
        &self,
        bundle: &Bundle,
        connection: &Resource<Connection>,
        agent: &Agent,
    ) -> bool {
        let permissions = agent.permissions.as_ref();
        let mut rules = permissions
            .iter()
            .flat_map(|permissions| &permissions.rules);
        let may_allow = rules.any(|rule| {
            let tool = rule.tool.as_ref();
            rule.action == PermissionAction::Allow
                && tool.is_none_or(|tool| pattern::matches(tool, self.name))
        });
        let decision = self.decide(agent);
        decision.action != PermissionAction::Allow
            && !may_allow
            && !(self.answers(bundle, connection) && decision.asks_without_rule())
    }

    /// Evaluates a call without arguments.
    fn decide(&self, agent: &Agent) -> PolicyDecision {
        let (arguments, marked) = (JsonObject::new(), self.export.marked_arguments());
        let paths = PathArguments::of(&marked, &arguments);
        let question = PolicyQuestion {
            tool_name: self.name,
            needs: &self.export.permissions,
            arguments: &arguments,
            marked: &marked,
            paths: &paths,
        };
        decide(agent.permissions.as_ref(), question)
    }

    /// Returns true if the tool can answer in the channel of the connection's events.
    fn answers(&self, bundle: &Bundle, connection: &Resource<Connection>) -> bool {
        let Some(tool) = platform_tool(bundle, connection) else {
            return false;
        };
        let export = if tool == "github" { "comment" } else { "send" };
        self.builtin.as_deref() == Some(format!("{tool}__{export}").as_str())
    }
}

/// Returns the manifest of a connection's built-in connector.
fn manifest(
    bundle: &Bundle,
    connection: &Resource<Connection>,
) -> Option<&'static ConnectorManifest> {
    let connector = bundle.connectors().get(&connection.spec.connector)?;
    base_connector(connector.spec.builtin()?)
}

/// Returns the tool that answers on the platform of a connection.
fn platform_tool(bundle: &Bundle, connection: &Resource<Connection>) -> Option<&'static str> {
    manifest(bundle, connection)?.tool
}

/// Returns a warning if `reply: none` turns off the answers to people, and the agent can do nothing
/// but answer. Webhooks and schedules never answer: programs may read the conversation.
fn lost_answer(
    bundle: &Bundle,
    connection: &Resource<Connection>,
    agent: &Resource<Agent>,
) -> Option<Diagnostic> {
    platform_tool(bundle, connection)?;
    let is_silent = connection.spec.reply == Some(ReplyMode::None);
    // A structured answer is made for a program, which can read it from the API.
    if !is_silent || agent.spec.output.is_some() || acts(bundle, &agent.spec) {
        return None;
    }
    let message = format!(
        "{} sends no answers, and {} has no tools, so its answers go nowhere.",
        connection.id, agent.id
    );
    let problem = warning(Code::LOST_ANSWER, connection, "spec.reply", message);
    let suggestion = format!("remove `reply: none`, or add a tool to {}", agent.id);
    Some(problem.suggest(suggestion))
}

/// Returns true if the agent can have an effect other than its answer.
fn acts(bundle: &Bundle, agent: &Agent) -> bool {
    let acting = |id: &ResourceId| match bundle.extensions().get(id).map(|one| &one.spec.entry) {
        Some(ExtensionEntry::Builtin(name)) => name == LOGGING,
        _ => true,
    };
    !agent.tools.is_empty() || agent.extensions.iter().any(|used| acting(&used.extension))
}

//! Topology of the swarm, and its reloads.

mod connections;
pub(super) mod schedules;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use goondan::Swarm;
use goondan::ports::model::ToolDefinition;
use goondan::spec::kinds::{
    Agent, Permission, PermissionAction, PermissionRule, Permissions, ToolEntry,
};
use goondan::spec::{Bundle, Resource};

use super::ErrorResponses;
use crate::service::Service;
use crate::wire::{
    AgentBody, ExportBody, ModelBody, PermissionRuleBody, PromptBody, ReloadsBody, ToolBody,
    TopologyBody,
};

/// Exports of the built-in tool `agents` that start turns of other agents.
const AGENT_CALLS: [&str; 3] = ["agents__request", "agents__send", "agents__spawn"];

/// Return the agents, models, tools and connections of the swarm.
#[utoipa::path(get, path = "/api/topology", responses((status = 200, body = TopologyBody), ErrorResponses))]
pub(super) async fn topology(State(service): State<Service>) -> Json<TopologyBody> {
    let swarm = service.swarm();
    let (generation, bundle) = (swarm.generation(), swarm.bundle());
    let catalogs: Vec<(String, Vec<ToolDefinition>)> = swarm
        .agents()
        .into_iter()
        .map(|name| (name.clone(), swarm.catalog(&name).unwrap_or_default()))
        .collect();
    let mut agents = Vec::new();
    for (name, catalog) in &catalogs {
        let resource = bundle
            .agents()
            .values()
            .find(|agent| agent.id.name == *name);
        agents.extend(resource.map(|resource| agent(swarm, resource, catalog)));
    }
    let is_used = |model: &&ModelBody| {
        agents
            .iter()
            .any(|agent| agent.models.contains(&model.name))
    };
    let models: Vec<ModelBody> = models(&bundle).iter().filter(is_used).cloned().collect();
    let tools = tools(
        &bundle,
        catalogs.into_iter().flat_map(|(_, catalog)| catalog),
    );
    Json(TopologyBody {
        generation,
        agents,
        models,
        tools,
        connections: connections::of_swarm(swarm, &bundle),
        warnings: swarm.warnings(),
    })
}

/// Returns the response body for an agent.
fn agent(swarm: &Swarm, resource: &Resource<Agent>, catalog: &[ToolDefinition]) -> AgentBody {
    let spec = &resource.spec;
    let can_call = |tool: &ToolDefinition| AGENT_CALLS.contains(&tool.name.as_str());
    AgentBody {
        name: resource.id.name.clone(),
        description: swarm.description(&resource.id.name),
        models: spec.models().map(|model| model.name.clone()).collect(),
        exports: catalog.iter().map(|tool| tool.name.clone()).collect(),
        calls: if catalog.iter().any(can_call) {
            other_agents(swarm, &resource.id.name)
        } else {
            Vec::new()
        },
        extensions: spec
            .extensions
            .iter()
            .map(|extension| extension.extension.name.clone())
            .collect(),
        prompt: swarm.stated_prompt(&resource.id.name).map(PromptBody::from),
        permissions: spec
            .permissions
            .as_ref()
            .filter(|permissions| !permissions.rules.iter().any(is_implied))
            .map(|permissions| action_name(permissions.default).to_owned()),
        permission_rules: permission_rules(spec.permissions.as_ref()),
    }
}

/// Returns all agents except one.
fn other_agents(swarm: &Swarm, name: &str) -> Vec<String> {
    let mut agents = swarm.agents();
    agents.retain(|other| other != name);
    agents
}

/// Returns true for a rule that applies because the agent states no default.
fn is_implied(rule: &PermissionRule) -> bool {
    rule.written.0.is_none()
}

/// Describes the permission rules that apply to an agent.
fn permission_rules(permissions: Option<&Permissions>) -> Vec<PermissionRuleBody> {
    let Some(permissions) = permissions else {
        // The same rules apply to an agent without permissions.
        let implied_rule = |permission: &str| PermissionRuleBody {
            permission: Some(permission.to_owned()),
            action: action_name(PermissionAction::Ask).to_owned(),
            implied: true,
            ..PermissionRuleBody::default()
        };
        return ["execute", "network"].map(implied_rule).into();
    };
    let rule = |rule: &PermissionRule| PermissionRuleBody {
        tool: rule.tool.clone(),
        permission: rule
            .permission
            .map(|needed| permission_name(needed).to_owned()),
        args: rule.args.clone(),
        action: action_name(rule.action).to_owned(),
        implied: is_implied(rule),
    };
    permissions.rules.iter().map(rule).collect()
}

fn permission_name(permission: Permission) -> &'static str {
    match permission {
        Permission::Read => "read",
        Permission::Write => "write",
        Permission::Execute => "execute",
        Permission::Network => "network",
    }
}

fn action_name(action: PermissionAction) -> &'static str {
    match action {
        PermissionAction::Allow => "allow",
        PermissionAction::Ask => "ask",
        PermissionAction::Deny => "deny",
    }
}

/// Describes the models.
fn models(bundle: &Bundle) -> Vec<ModelBody> {
    let model_body = |name: &str, provider: &str, model: &str| ModelBody {
        name: name.to_owned(),
        provider: provider.to_owned(),
        model: model.to_owned(),
    };
    bundle
        .models()
        .values()
        .map(|known| model_body(&known.id.name, &known.spec.provider, &known.spec.model))
        .collect()
}

/// Returns the tools with the exports that agents can call, each export once.
fn tools(bundle: &Bundle, offered: impl Iterator<Item = ToolDefinition>) -> Vec<ToolBody> {
    let mut exports: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for definition in offered {
        exports
            .entry(definition.resource().to_owned())
            .or_default()
            .insert(definition.name, definition.description);
    }
    let tool_entry = |name: &str| {
        bundle
            .tools()
            .values()
            .find(|tool| tool.id.name == name)
            .map_or("builtin", |tool| kind(&tool.spec.entry))
    };
    let body = |(name, exports): (String, BTreeMap<String, String>)| ToolBody {
        entry: tool_entry(&name).to_owned(),
        name,
        exports: exports
            .into_iter()
            .map(|(name, description)| ExportBody { name, description })
            .collect(),
    };
    exports.into_iter().map(body).collect()
}

/// Name of the kind of a tool.
fn kind(entry: &ToolEntry) -> &'static str {
    match entry {
        ToolEntry::Builtin(_) => "builtin",
        ToolEntry::Library(_) => "library",
        ToolEntry::Executable(_) => "executable",
        ToolEntry::Module(_) => "module",
        ToolEntry::Embedded => "embedded",
        ToolEntry::Mcp(_) => "mcp",
        ToolEntry::A2a(_) => "a2a",
    }
}

/// Return the changes made by reloads since the process began.
#[utoipa::path(get, path = "/api/reloads", responses((status = 200, body = ReloadsBody), ErrorResponses))]
pub(super) async fn reloads(State(service): State<Service>) -> Json<ReloadsBody> {
    Json(ReloadsBody {
        reloads: service.inner.reloads.records(),
    })
}

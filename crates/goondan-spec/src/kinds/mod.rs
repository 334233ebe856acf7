//! The eight kinds: one file each, with the resource as the rest of the program sees it (typed, complete, with resolved
//! references), how it is decoded and checked, and the shape of its `spec` for the JSON Schema.
//!
//! A decoder asks for its fields one by one, reports every mistake and gives `None` where no resource can be made.

mod a2a;
mod agent;
mod allow;
mod build;
mod capabilities;
mod connection;
mod connector;
mod export;
mod exports;
mod extension;
mod ingress;
mod instructions;
mod mcp;
mod model;
mod model_config;
mod model_options;
mod model_params;
mod module;
mod output;
mod package;
mod permissions;
mod pricing;
mod rate;
mod reasoning_effort;
mod sandbox;
mod skill;
mod swarm;
mod tool;

pub use a2a::A2aAgent;
pub use agent::{Agent, ExtensionUse, Prompt, ToolUse, Workdir};
pub use allow::Allow;
pub use build::{Build, BuildCommand, ToolBuild};
pub use capabilities::Capabilities;
pub use connection::{Connection, Reply};
pub use connector::{
    Connector, ConnectorEntry, ConnectorEvent, ConnectorManifest, Need, PropertyType, Setting,
};
pub use export::{
    ExportOverride, ExportSpec, MarkedArguments, PATCH, PATCHED, PATH, PROGRAM, Permission,
    SHELL_COMMAND, SHELL_ENVIRONMENT, SHELL_FOLDER, TREE, is_own_format,
};
pub use exports::Exports;
pub use extension::{Extension, ExtensionEntry};
pub use ingress::{IngressRule, InstanceKeyRoute};
pub use instructions::{InstructionFile, Instructions, MAX_INSTRUCTIONS};
pub use mcp::{Elicitation, McpOauth, McpProtocol, McpServer, McpTransport, McpValue};
pub use model::Model;
pub use model_options::{ModelApi, ModelOptions, RequestPart};
pub use model_params::ModelParams;
pub use module::{Language, Module, Runtime};
pub use output::{AnswerFormat, AnswerMode};
pub use package::{Dependency, Package};
pub use permissions::{Action, PermissionRule, Permissions, Written};
pub use pricing::{PricedTokens, Pricing};
pub use rate::RateLimits;
pub use reasoning_effort::ReasoningEffort;
pub use sandbox::{ProcessLimits, RuleSandbox, Sandbox};
pub use skill::{
    MAX_SKILL_COMPATIBILITY, MAX_SKILL_DESCRIPTION, MAX_SKILL_NAME, MAX_SKILLS, SKILL_EXPORT,
    SKILL_FILES, Skill, body as skill_body, check_skill_name, described as described_skill,
};
pub use swarm::{Budget, Lifecycle, Policy, Swarm};
pub use tool::{Entry, Isolation, Tool, ToolManifest};

pub(crate) use agent::{AgentSpec, decode as decode_agent};
pub(crate) use connection::{ConnectionSpec, decode as decode_connection};
pub(crate) use connector::{ConnectorSpec, decode as decode_connector};
pub(crate) use export::qualified_name;
pub(crate) use extension::{ExtensionSpec, decode as decode_extension};
pub(crate) use model::{ModelSpec, decode as decode_model};
pub(crate) use package::{PackageSpec, decode as decode_package};
pub(crate) use swarm::{SwarmSpec, decode as decode_swarm};
pub(crate) use tool::{ToolSpec, decode as decode_tool};

use crate::JsonObject;
use crate::bundle::{BasePackage, Decoded};
use crate::decode::Field;
use crate::findings::Findings;
use crate::index::Index;
use crate::meta::{Kind, ResourceId};
use crate::paths::Looks;
use crate::references;

/// What a decoder may look at besides its own document.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'s> {
    /// The folder that paths start from.
    pub(crate) folder: &'s Looks<'s>,
    /// The built-in package.
    pub(crate) base: &'s BasePackage,
    /// The resource that is being decoded.
    pub(crate) id: &'s ResourceId,
    index: &'s Index,
    decoded: &'s Decoded,
}

impl<'s> Scope<'s> {
    /// `index` are the names of all resources, `decoded` the kinds that were decoded before this one.
    pub(crate) fn new(
        id: &'s ResourceId,
        folder: &'s Looks<'s>,
        base: &'s BasePackage,
        index: &'s Index,
        decoded: &'s Decoded,
    ) -> Self {
        Scope {
            folder,
            base,
            id,
            index,
            decoded,
        }
    }

    /// The kinds that were decoded before this one.
    pub(crate) fn decoded(&self) -> &'s Decoded {
        self.folder.go_beyond();
        self.decoded
    }

    /// What runs the connector `id`, where that is built in.
    pub(crate) fn manifest(&self, id: &ResourceId) -> Option<&'s ConnectorManifest> {
        let connector = self.decoded().connectors.get(id)?;
        self.base.connector(&connector.spec)
    }

    /// Resolves a reference to a resource of that kind.
    pub(crate) fn resolve(
        &self,
        field: &Field<'_>,
        kind: Kind,
        findings: &mut Findings,
    ) -> Option<ResourceId> {
        self.folder.go_beyond();
        references::resolve(
            field,
            kind,
            self.index,
            self.id.package.as_deref(),
            findings,
        )
    }
}

/// An optional free-form map; an empty one where it is absent.
fn free_map(field: Option<Field<'_>>, findings: &mut Findings) -> Option<JsonObject> {
    field.map_or_else(|| Some(JsonObject::new()), |field| field.object(findings))
}

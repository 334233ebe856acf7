//! The eight resource kinds, one file each. A file contains the typed resource with resolved
//! references, its decoder, and the shape of its `spec` for the JSON Schema.
//!
//! A decoder reads its fields one by one, reports every error, and returns `None` if no resource
//! can be built.

mod a2a;
mod agent;
mod agent_workdir;
mod build;
mod call_timeout;
mod capabilities;
mod connection;
mod connection_access;
mod connector;
mod connector_manifest;
mod decode_scope;
mod export;
mod export_spec;
mod extension;
mod ingress;
mod instructions;
mod lazy_exports;
mod mcp;
mod model;
mod model_config;
mod model_options;
mod model_params;
mod output;
mod package;
mod permissions;
mod pricing;
mod rate_limits;
mod reasoning_effort;
mod repetition;
mod resource_scope;
mod sandbox;
mod script_language;
mod script_module;
mod skill;
mod source_location;
mod swarm;
mod tool;
mod tool_build;
mod tool_manifest;

pub use a2a::A2aAgent;
pub use agent::{Agent, ExtensionUse, SystemPrompt, ToolUse};
pub use agent_workdir::AgentWorkdir;
pub use capabilities::ModelCapabilities;
pub use connection::{Connection, ReplyMode};
pub use connection_access::ConnectionAccess;
pub use connector::{Connector, ConnectorEntry};
pub use connector_manifest::{
    ConnectorManifest, ConnectorSetting, EventDeclaration, PropertyType, SettingRequirement,
};
pub use export::ExportOverride;
pub use export_spec::{
    ExportSpec, MarkedArguments, PATCH_FORMAT, PATCHED_PATH_ARGUMENT, PATH_FORMAT,
    PATH_TREE_FORMAT, PROGRAM_FORMAT, Permission, SHELL_COMMAND_FORMAT, SHELL_DIRECTORY_FORMAT,
    SHELL_ENVIRONMENT_FORMAT, is_gdn_format,
};
pub use extension::{Extension, ExtensionEntry};
pub use ingress::{IngressRule, InstanceKeyRoute};
pub use instructions::{AgentInstructions, InstructionFile, MAX_INSTRUCTION_BYTES};
pub use lazy_exports::LazyExports;
pub use mcp::{ElicitationMode, McpOauth, McpProtocol, McpServer, McpTransport, McpValue};
pub use model::Model;
pub use model_options::{ModelApi, ModelOptions, RequestPart};
pub use model_params::ModelParams;
pub use output::{AnswerFormat, AnswerMode};
pub use package::{Package, PackageDependency};
pub use permissions::{PermissionAction, PermissionRule, Permissions};
pub use pricing::{ModelPricing, PricedTokens};
pub use rate_limits::RateLimits;
pub use reasoning_effort::ReasoningEffort;
pub use repetition::RepetitionPolicy;
pub use sandbox::{ProcessLimits, RuleSandbox, SandboxSettings};
pub use script_language::{ScriptLanguage, ScriptRuntime};
pub use script_module::ScriptModule;
pub use skill::{
    MAX_SKILL_COMPATIBILITY_CHARS, MAX_SKILL_DESCRIPTION_CHARS, MAX_SKILL_NAME_CHARS, MAX_SKILLS,
    SKILL_EXPORT, SKILL_FILES, Skill, body as skill_body, check_skill_name,
    name_and_description as described_skill,
};
pub use source_location::SourceLocation;
pub use swarm::{BudgetLimits, ConversationRetention, Swarm, SwarmPolicy};
pub use tool::{EMBEDDED_ENTRY, Tool, ToolEntry, ToolIsolation};
pub use tool_build::{BuildCommand, BuildSettings, ToolBuild};
pub use tool_manifest::ToolManifest;

pub(crate) use agent::{AgentSpec, decode as decode_agent};
pub(crate) use connection::{ConnectionSpec, decode as decode_connection};
pub(crate) use connector::{ConnectorSpec, decode as decode_connector};
pub(crate) use decode_scope::DecodeScope;
pub(crate) use export_spec::qualified_name;
pub(crate) use extension::{ExtensionSpec, decode as decode_extension};
pub(crate) use model::{ModelSpec, decode as decode_model};
pub(crate) use package::{PackageSpec, decode as decode_package};
pub(crate) use resource_scope::ResourceScope;
pub(crate) use swarm::{SwarmSpec, decode as decode_swarm};
pub(crate) use tool::{ToolSpec, decode as decode_tool};

use crate::JsonObject;
use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;
use crate::value_source;

/// Reads an optional free-form `config` and records its value sources; literal ones only with
/// `literals`. Default: empty.
fn free_config(
    field: Option<FieldReader<'_>>,
    literals: bool,
    findings: &mut DiagnosticSink,
) -> Option<JsonObject> {
    let Some(field) = field else {
        return Some(JsonObject::new());
    };
    value_source::record_in_config(&field, literals, findings);
    field.object(findings)
}

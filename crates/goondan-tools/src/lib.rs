//! The built-in tools of `@goondan/base`: one module per resource, and one row in `builtin_table.rs`.
//!
//! A tool is a struct of parameters with its behavior (`tool_operation::ToolOperation`), which combines schema,
//! decoding and execution. To add a tool, write a module and a row.
//!
//! This crate does not depend on agents, turns, models or bundles: a handler only receives its
//! `ToolContext`. There is no global state. Everything that outlives a call (background processes,
//! task lists) belongs to a [`BuiltinTools`].

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test reads its own files")
)]
#![allow(missing_docs, reason = "internal crate")]

mod agents;
mod automation;
mod background_processes;
mod bash;
mod builtin_state;
mod builtin_table;
mod builtin_tool;
mod command_inventories;
mod command_runner;
mod config_error;
mod configured_directory;
mod custom_tools;
pub mod diff;
pub mod docs;
mod encoding;
mod errors;
mod executable;
mod file_changes;
mod file_system;
mod fs;
mod host_capabilities;
mod http;
mod http_fetch;
mod instance_owner;
mod introspection;
mod json_query;
mod memory;
mod messaging;
mod mutex_lock;
mod net_guard;
mod output_capture;
mod paths;
mod platforms;
mod process;
mod process_signal;
mod remote_host;
mod running_programs;
mod runtime;
mod sandbox;
mod scalar_text;
mod schema;
mod self_restart;
mod server_programs;
mod sessions;
mod settings_with_keys;
mod shell;
mod squad;
pub mod state_directory;
mod task;
mod text_transform;
mod todo;
mod tool_chains;
mod tool_operation;
mod value_sources;
mod wait_tool;
mod web;

pub use platforms::github::AGENT_TEXT_MARKER as GITHUB_MARK;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::{EntryOpenError, ToolSet, ToolSource};
use goondan_spec::codes::page_url;
use goondan_spec::kinds::{LazyExports, Tool, ToolEntry, ToolManifest};
use goondan_spec::{Environment, Resource};

use crate::builtin_state::BuiltinToolState;
use crate::builtin_table::BUILTINS;
use crate::builtin_tool::{BuiltinTool, ToolOpenContext};
use crate::config_error::ConfigError;
pub use crate::executable::{EntryFault, ExecutableTools, entry_fault};
use crate::instance_owner::InstanceOwner;
use crate::mutex_lock::lock;
use crate::sandbox::SandboxHelper;
pub use crate::sandbox::sandboxed_start::is_supported as has_sandbox;
pub use crate::sandbox::{HelperCommand, enter};
#[cfg(target_os = "linux")]
pub use crate::sandbox::{local_clients::is_sandboxed_client, orphans::adopt as adopt_orphans};
pub use crate::server_programs::{RuntimeFiles, ServerCommand, ServerProgram, ServerPrograms};
pub use crate::sessions::READ_ONLY_TOOLS as SUBAGENT_TOOLS;

/// Opens tools with a `builtin:NAME` entry. Cheap to create; connections are opened on demand.
///
/// Background processes of its tools end when it is dropped.
#[derive(Default)]
pub struct BuiltinTools {
    state: BuiltinToolState,
}

impl BuiltinTools {
    pub fn new() -> Self {
        BuiltinTools::default()
    }

    /// Sets the helper, which applies sandboxes and limits, and ends leftover processes if this
    /// program is killed.
    #[must_use]
    pub fn with_helper(mut self, helper: Option<HelperCommand>) -> Self {
        self.state.helper = helper.map(SandboxHelper::new);
        self
    }

    /// Sets the environment of value sources in configs.
    #[must_use]
    pub fn environment(self, environment: Environment) -> Self {
        self.set_environment(environment);
        self
    }

    /// Replaces the environment of value sources in configs. Open tools keep the resolved values.
    pub fn set_environment(&self, environment: Environment) {
        *lock(&self.state.environment) = environment;
    }

    /// Sets the directory for reproducible data.
    #[must_use]
    pub fn cache_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.state.cache_dir = Some(path.into());
        self
    }

    /// Sets the source that opens dynamic libraries for custom tools.
    #[must_use]
    pub fn libraries(mut self, libraries: Arc<dyn ToolSource>) -> Self {
        self.state.libraries = Some(libraries);
        self
    }

    /// Ends the processes of a retired instance.
    pub fn instance_ended(&self, id: &InstanceId) {
        self.state
            .processes
            .end_processes_of(&InstanceOwner::of_instance(id));
    }

    /// Ends all processes, and waits until they have ended.
    pub async fn shutdown(&self) {
        self.state.processes.shutdown().await;
    }
}

#[async_trait]
impl ToolSource for BuiltinTools {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        _bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        let builtin = find(tool)?;
        let environment = lock(&self.state.environment).clone();
        let opening = ToolOpenContext {
            config: &tool.spec.config,
            environment: &environment,
            state: &self.state,
        };
        let exports = builtin
            .exports(&opening)
            .map_err(|cause| wrong_config(tool, builtin, &cause))?;
        Ok(ToolSet {
            exports: exports
                .into_iter()
                .map(|export| (export.spec, export.handler))
                .collect(),
            unavailable: None,
        })
    }
}

/// Returns the table row that the tool's entry names.
fn find(tool: &Resource<Tool>) -> Result<&'static BuiltinTool, EntryOpenError> {
    let ToolEntry::Builtin(name) = &tool.spec.entry else {
        return Err(EntryOpenError::new(
            &tool.id,
            "its entry is not of the form builtin:NAME",
        ));
    };
    BUILTINS
        .iter()
        .find(|builtin| builtin.name == name)
        .ok_or_else(|| {
            let names: Vec<&str> = BUILTINS.iter().map(|builtin| builtin.name).collect();
            EntryOpenError::new(&tool.id, format!("there is no built-in tool `{name}`"))
                .suggest(format!("use one of {}", names.join(", ")))
        })
}

/// Validates the config of a built-in tool, as far as it does not depend on unset variables. Runs
/// and connects to nothing.
pub fn config_fault(tool: &Resource<Tool>, environment: &Environment) -> Option<EntryOpenError> {
    if tool.spec.config.is_empty() {
        // Every built-in tool accepts an empty config.
        return None;
    }
    let builtin = find(tool).ok()?;
    let opening = ToolOpenContext {
        config: &tool.spec.config,
        environment,
        state: &BuiltinToolState::default(),
    };
    match builtin.exports(&opening) {
        Ok(_) | Err(ConfigError::Unset { .. }) => None,
        Err(cause) => Some(wrong_config(tool, builtin, &cause)),
    }
}

/// Returns the error of a Tool whose config the built-in tool rejects.
fn wrong_config(
    tool: &Resource<Tool>,
    builtin: &BuiltinTool,
    cause: &ConfigError,
) -> EntryOpenError {
    let name = builtin.name;
    EntryOpenError::new(
        &tool.id,
        format!("the config of builtin:{name} is invalid: {cause}"),
    )
    .suggest(format!(
        "config fields of `{name}`: {}",
        page_url("tools.md")
    ))
}

/// Returns the declarations of the tools in `@goondan/base`, sorted by name.
pub fn base_tools() -> Vec<ToolManifest> {
    BUILTINS.iter().map(builtin_manifest).collect()
}

/// Returns the declaration of one built-in tool. Its exports do not depend on its config. Schemas
/// are created on demand, because that takes longer than the rest of a tool's start.
fn builtin_manifest(builtin: &'static BuiltinTool) -> ToolManifest {
    let exports = || {
        let (state, environment) = (BuiltinToolState::default(), Environment::default());
        let opening = ToolOpenContext {
            config: &JsonObject::new(),
            environment: &environment,
            state: &state,
        };
        let exports = builtin
            .exports(&opening)
            .expect("every built-in tool opens without a config");
        exports.into_iter().map(|export| export.spec).collect()
    };
    ToolManifest {
        name: builtin.name.to_owned(),
        exports: LazyExports::lazy(exports),
        error_message_limit: builtin.error_message_limit,
        output_limit: builtin.output_limit,
        timeout_ms: builtin
            .timeout
            .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        variables: platforms::variables_of(builtin.name)
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
    }
}

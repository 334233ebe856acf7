//! The built-in tools of `@goondan/base`: one file (or folder) a resource, and one row in `table.rs`.
//!
//! A tool here is a struct of parameters that knows how to run (`define::Operation`); schema, decoding and behaviour
//! are one thing. To add one, write a file and a row.
//!
//! This crate deliberately does not know: agents, turns, models or bundles. A handler sees its `ToolContext` alone.
//! Nothing is global: what outlives a call (background processes, task lists) belongs to a [`BuiltinTools`].

mod agents;
mod automation;
mod bash;
mod beneath;
mod capture;
mod chat;
mod confine;
mod custom_tools;
mod define;
pub mod diff;
pub mod docs;
mod encoding;
mod errors;
mod executable;
mod file_system;
mod fs;
mod http;
mod http_fetch;
mod introspection;
mod inventories;
mod json_query;
mod line;
mod memory;
mod messaging;
mod net_guard;
mod paths;
mod powers;
mod process;
mod processes;
mod remote;
mod runtime;
mod schema;
mod self_restart;
mod servers;
mod sessions;
mod shell;
mod squad;
mod state;
mod table;
mod task;
mod text_transform;
mod todo;
mod tool_chains;
mod values;
mod wait;
mod web;
mod write;

pub use chat::github::MARK as GITHUB_MARK;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::{OpenError, ToolSet, ToolSource};
use goondan_spec::codes::page_url;
use goondan_spec::kinds::{Entry, Exports, Tool, ToolManifest};
use goondan_spec::{Environment, Resource};

use crate::confine::Helper;
pub use crate::confine::start::is_there as has_sandbox;
pub use crate::confine::{HelperCommand, enter};
pub use crate::executable::ExecutableTools;
pub use crate::executable::{EntryFault, entry_fault};
pub use crate::servers::{RuntimeFiles, ServerCommand, ServerProgram, ServerPrograms};
use crate::state::{Owner, State, lock};
use crate::table::{BUILTINS, Builtin, ConfigError, Opening};

/// Opens tools with a `builtin:NAME` entry. Cheap to make; connections and the like are made when a call needs them.
///
/// What its tools have running lives as long as this does: background processes end when it is dropped.
#[derive(Default)]
pub struct BuiltinTools {
    state: State,
}

impl BuiltinTools {
    /// A source with nothing running yet.
    pub fn new() -> Self {
        BuiltinTools::default()
    }

    /// Contains programs with the help of that command, where a sandbox or limits are wanted, and has it end those that
    /// are left behind where this program is killed.
    #[must_use]
    pub fn with_helper(mut self, helper: Option<HelperCommand>) -> Self {
        self.state.helper = helper.map(Helper::new);
        self
    }

    /// What value sources in a config see.
    #[must_use]
    pub fn environment(self, environment: Environment) -> Self {
        self.set_environment(environment);
        self
    }

    /// What value sources in a config see from now on; tools that are open keep what they have seen.
    pub fn set_environment(&self, environment: Environment) {
        *lock(&self.state.environment) = environment;
    }

    /// Where things may be kept that can be had again.
    #[must_use]
    pub fn cache_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.state.cache_dir = Some(path.into());
        self
    }

    /// What opens dynamic libraries, for custom tools that are some.
    #[must_use]
    pub fn libraries(mut self, libraries: Arc<dyn ToolSource>) -> Self {
        self.state.libraries = Some(libraries);
        self
    }

    /// Ends what belongs to an instance that is put away.
    pub fn instance_ended(&self, id: &InstanceId) {
        self.state.processes.end_of(&Owner::of_instance(id));
    }

    /// Ends everything that runs, and waits until it has.
    pub async fn shutdown(&self) {
        self.state.processes.shutdown().await;
    }
}

#[async_trait]
impl ToolSource for BuiltinTools {
    async fn open(&self, tool: &Resource<Tool>, _bundle_root: &Path) -> Result<ToolSet, OpenError> {
        let builtin = find(tool)?;
        let environment = lock(&self.state.environment).clone();
        let opening = Opening {
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
        })
    }
}

/// The row that the tool's entry names.
fn find(tool: &Resource<Tool>) -> Result<&'static Builtin, OpenError> {
    let Entry::Builtin(name) = &tool.spec.entry else {
        return Err(OpenError::new(
            &tool.id,
            "its entry is not of the form builtin:NAME",
        ));
    };
    BUILTINS
        .iter()
        .find(|builtin| builtin.name == name)
        .ok_or_else(|| {
            let names: Vec<&str> = BUILTINS.iter().map(|builtin| builtin.name).collect();
            OpenError::new(&tool.id, format!("there is no built-in tool `{name}`"))
                .suggest(format!("use one of {}", names.join(", ")))
        })
}

/// What is wrong with the config of a built-in tool, as far as it does not depend on variables that are not set. Nothing is
/// run or connected to.
pub fn config_fault(tool: &Resource<Tool>, environment: &Environment) -> Option<OpenError> {
    if tool.spec.config.is_empty() {
        // Every built-in tool opens without one.
        return None;
    }
    let builtin = find(tool).ok()?;
    let opening = Opening {
        config: &tool.spec.config,
        environment,
        state: &State::default(),
    };
    match builtin.exports(&opening) {
        Ok(_) | Err(ConfigError::Unset { .. }) => None,
        Err(cause) => Some(wrong_config(tool, builtin, &cause)),
    }
}

fn wrong_config(tool: &Resource<Tool>, builtin: &Builtin, cause: &ConfigError) -> OpenError {
    let name = builtin.name;
    OpenError::new(
        &tool.id,
        format!("the config of builtin:{name} is wrong: {cause}"),
    )
    .suggest(format!(
        "what `{name}` takes in its config: {}",
        page_url("tools.md")
    ))
}

/// What the built-in tools declare, by name: the tools of `@goondan/base`.
pub fn base_tools() -> Vec<ToolManifest> {
    BUILTINS.iter().map(manifest).collect()
}

/// What one built-in tool declares. Its exports do not depend on its config; to make their schemas takes longer than all
/// else that a start does for a tool, so that waits until somebody asks.
fn manifest(builtin: &'static Builtin) -> ToolManifest {
    let exports = || {
        let (state, environment) = (State::default(), Environment::default());
        let opening = Opening {
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
        exports: Exports::later(exports),
        error_message_limit: builtin.error_message_limit,
        output_limit: builtin.output_limit,
        timeout_ms: builtin
            .timeout
            .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        variables: chat::variables_of(builtin.name)
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
    }
}

//! An opened Tool resource and its exports.

use std::sync::Arc;

use goondan_spec::kinds::{ExportOverride, ExportSpec, Tool, ToolEntry, ToolUse};
use goondan_spec::{Bundle, Diagnostic, Resource};

use super::problems::missing_export_diagnostic;
use crate::tooling::registry::{RegisteredTool, ToolLimits};
use goondan_core::ids::derived_id;
use goondan_core::ports::tool::{ToolHandler, ToolSet};

/// An opened Tool resource: its exports by name, each ready to run or with an error. Agents share
/// it.
#[derive(Clone, Default)]
pub(super) struct ToolPlan {
    exports: Arc<[(String, PlannedExport)]>,
    /// Reason why the exports are missing for now.
    pub(super) unavailable: Option<Arc<str>>,
}

type PlannedExport = Result<Arc<RegisteredTool>, Diagnostic>;

impl ToolPlan {
    /// Creates the plan from the exports in `spec.exports`, or from all exports of the entry if
    /// `spec.exports` is empty.
    pub(super) fn new(
        bundle: &Bundle,
        tool: &Resource<Tool>,
        set: &ToolSet,
        variables: &[(&str, String)],
    ) -> Self {
        if let Some(reason) = &set.unavailable {
            // The exports are unknown for now, so a name in `spec.exports` is not an error.
            return ToolPlan {
                exports: Arc::default(),
                unavailable: Some(Arc::from(reason.as_str())),
            };
        }
        let declared: Vec<(&str, Option<&ExportOverride>)> = match tool.spec.overrides.as_slice() {
            [] => set
                .exports
                .iter()
                .map(|(spec, _)| (spec.name.as_str(), None))
                .collect(),
            overrides => overrides
                .iter()
                .map(|overrides| (overrides.name.as_str(), Some(overrides)))
                .collect(),
        };
        let settings = settings_hash(tool);
        let plan = |(name, overrides): (&str, Option<&ExportOverride>)| {
            let export = set.exports.iter().find(|(spec, _)| spec.name == name);
            let registered = export
                .map(|(spec, handler)| register(tool, spec, overrides, handler, variables))
                .map(|tool| Arc::new(tool.with_settings(settings.clone())));
            (
                name.to_owned(),
                registered.ok_or_else(|| missing_export_diagnostic(bundle, tool, set, name)),
            )
        };
        ToolPlan {
            exports: declared.into_iter().map(plan).collect(),
            unavailable: None,
        }
    }

    /// Returns the exports that an agent uses, and the errors of exports that it uses but the tool
    /// lacks.
    pub(super) fn select_exports(
        &self,
        tool_use: &ToolUse,
    ) -> (Vec<Arc<RegisteredTool>>, Vec<Diagnostic>) {
        let is_used = |name: &String| {
            tool_use
                .exports
                .as_ref()
                .is_none_or(|names| names.iter().any(|used| used == name))
        };
        let mut tools = Vec::new();
        let mut missing = Vec::new();
        for (_, export) in self.exports.iter().filter(|(name, _)| is_used(name)) {
            match export {
                Ok(tool) => tools.push(Arc::clone(tool)),
                Err(error) => missing.push(error.clone()),
            }
        }
        (tools, missing)
    }
}

/// Registers an export of an entry with the overrides of the resource.
fn register(
    tool: &Resource<Tool>,
    spec: &ExportSpec,
    overrides: Option<&ExportOverride>,
    handler: &Arc<dyn ToolHandler>,
    variables: &[(&str, String)],
) -> RegisteredTool {
    let (timeout, timeout_field) = tool.spec.timeout_of(&spec.name);
    let limits = ToolLimits {
        error_message: tool.spec.error_message_limit,
        output: tool.spec.output_limit,
        timeout,
    };
    let apply_overrides = |overrides: &ExportOverride| match &tool.spec.entry {
        ToolEntry::Builtin(_) | ToolEntry::A2a(_) => overrides.apply_to_builtin(spec),
        ToolEntry::Library(_)
        | ToolEntry::Executable(_)
        | ToolEntry::Module(_)
        | ToolEntry::Embedded
        | ToolEntry::Mcp(_) => overrides.apply(spec),
    };
    let mut spec = overrides.map_or_else(|| spec.clone(), apply_overrides);
    if overrides.is_some_and(|overrides| overrides.description_is_template) {
        for (name, value) in variables {
            spec.description = spec.description.replace(name, value);
        }
    }
    let registered = RegisteredTool::new(&tool.id.name, spec, Arc::clone(handler), limits)
        .timed_by(timeout_field);
    match &tool.spec.entry {
        ToolEntry::Builtin(set) => registered.of_builtin(set),
        ToolEntry::Library(_)
        | ToolEntry::Executable(_)
        | ToolEntry::Module(_)
        | ToolEntry::Embedded
        | ToolEntry::Mcp(_)
        | ToolEntry::A2a(_) => registered,
    }
}

/// Returns a hash of the entry and `config`, so that a grant ends if they change. `None` for a
/// built-in tool without `config`.
fn settings_hash(tool: &Resource<Tool>) -> Option<String> {
    let spec = &tool.spec;
    let is_default = match &spec.entry {
        ToolEntry::Builtin(set) => *set == tool.id.name && spec.config.is_empty(),
        _ => false,
    };
    let settings = || format!("{:?}{:?}{:?}", spec.entry, spec.isolation, spec.config);
    (!is_default).then(|| derived_id(&[&settings()]))
}

//! Tool names, the registry of what can run, and the catalog of what a step offers (rules T1, T3).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use goondan_spec::kinds::{ExportSpec, MarkedArguments, Permission};
use serde_json::Value;

use crate::ports::model::ToolDefinition;
use crate::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};
use crate::schema::ArgumentSchema;

/// Separates resource and export in a tool's name.
pub const SEPARATOR: &str = "__";

/// `resource__export`: exactly one separator, and something on both sides of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName {
    text: String,
    resource_len: usize,
}

/// A text that is no tool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no tool name: it needs the form resource__export")]
pub struct NotAToolName(String);

impl ToolName {
    /// The name of an export of a Tool resource.
    pub fn new(resource: &str, export: &str) -> Self {
        ToolName { text: format!("{resource}{SEPARATOR}{export}"), resource_len: resource.len() }
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The Tool resource's name.
    pub fn resource(&self) -> &str {
        &self.text[..self.resource_len]
    }

    /// The export's name.
    pub fn export(&self) -> &str {
        &self.text[self.resource_len + SEPARATOR.len()..]
    }
}

impl FromStr for ToolName {
    type Err = NotAToolName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(SEPARATOR) {
            Some((resource, export))
                if !resource.is_empty()
                    && !export.is_empty()
                    && !export.contains(SEPARATOR)
                    && !export.starts_with('_') =>
            {
                Ok(ToolName::new(resource, export))
            }
            _ => Err(NotAToolName(text.to_owned())),
        }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An export that can run.
pub struct RegisteredTool {
    /// What the model calls it.
    pub name: ToolName,
    /// Description, permissions and promises.
    pub spec: ExportSpec,
    /// What the model sees.
    pub definition: ToolDefinition,
    /// Its arguments whose meaning a policy knows.
    pub marked_arguments: MarkedArguments,
    /// Its arguments.
    pub schema: ArgumentSchema,
    /// What runs.
    pub handler: Arc<dyn ToolHandler>,
    /// Its limits.
    pub limits: ToolLimits,
    /// The built-in export behind it, such as `fs__read`, whatever the resource is called.
    pub builtin: Option<String>,
}

/// Limits of a Tool resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// Characters of an error message.
    pub error_message: usize,
    /// Characters of an output.
    pub output: usize,
    /// How long a call may take.
    pub timeout: Duration,
}

impl RegisteredTool {
    /// An export of the Tool resource `resource`.
    pub fn new(resource: &str, spec: ExportSpec, handler: Arc<dyn ToolHandler>, limits: ToolLimits) -> Self {
        let name = ToolName::new(resource, &spec.name);
        let definition = ToolDefinition {
            name: name.to_string(),
            description: spec.description.clone(),
            parameters: spec.shown_parameters(),
        };
        let marked_arguments = spec.marked_arguments();
        RegisteredTool {
            name,
            marked_arguments,
            schema: ArgumentSchema::new(spec.parameters.clone()),
            definition,
            spec,
            handler,
            limits,
            builtin: None,
        }
    }

    /// Names the built-in handler set behind it.
    #[must_use]
    pub fn of_builtin(mut self, set: &str) -> Self {
        self.builtin = Some(ToolName::new(set, &self.spec.name).to_string());
        self
    }
}

/// Everything that is executable for an agent in one generation; a step's [`Catalog`] is chosen from it.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Arc<RegisteredTool>>,
    order: Vec<String>,
}

impl Registry {
    /// Adds a tool. A later one of the same name takes the place of the earlier one.
    pub fn register(&mut self, tool: Arc<RegisteredTool>) {
        let name = tool.name.to_string();
        if self.tools.insert(name.clone(), tool).is_none() {
            self.order.push(name);
        }
    }

    /// Takes a tool out; false where there is none.
    pub fn unregister(&mut self, name: &str) -> bool {
        self.order.retain(|known| known != name);
        self.tools.remove(name).is_some()
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.tools.get(name)
    }

    /// Checks `arguments`, fills in defaults, and runs the tool of that name. Nobody is asked for permission: that is the
    /// work of a turn ([`crate::dispatch`]).
    pub async fn execute(&self, name: &str, arguments: &Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let tool = self.get(name).ok_or_else(|| {
            let known = self.order.join(", ");
            let error = ToolError::new(format!("there is no tool `{name}`")).code("E_TOOL_NOT_FOUND");
            error.suggest(format!("the tools are: {known}"))
        })?;
        let arguments = tool.schema.check(arguments).map_err(|invalid| {
            ToolError::new(invalid.message).code("E_TOOL_INVALID_ARGS").suggest(invalid.suggestion)
        })?;
        tool.handler.call(ctx, arguments).await
    }

    /// The tools that need no other permissions than these, in the order in which they were registered.
    pub fn enabled<'a>(
        &'a self,
        permissions: &'a BTreeSet<Permission>,
    ) -> impl Iterator<Item = &'a Arc<RegisteredTool>> {
        self.tools().filter(|tool| tool.spec.permissions.is_subset(permissions))
    }

    /// All tools, in the order in which they were registered.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.order.iter().map(|name| &self.tools[name])
    }

    /// A catalog of everything.
    pub fn catalog(&self) -> Catalog {
        Catalog::new(self.tools().cloned().collect())
    }

    /// As [`Registry::catalog`]; `known` itself where it holds the same.
    pub(crate) fn catalog_like(&self, known: Option<&Catalog>) -> Catalog {
        let is_same = |known: &&Catalog| {
            known.tools.len() == self.order.len()
                && known.tools.iter().zip(self.tools()).all(|(known, own)| Arc::ptr_eq(known, own))
        };
        known.filter(is_same).cloned().unwrap_or_else(|| self.catalog())
    }
}

/// What one step of one agent offers. A call outside of it is refused.
#[derive(Clone)]
pub struct Catalog {
    tools: Arc<[Arc<RegisteredTool>]>,
    definitions: Arc<[ToolDefinition]>,
}

impl Catalog {
    /// A catalog of `tools`, in that order.
    pub fn new(tools: Vec<Arc<RegisteredTool>>) -> Self {
        let definitions = tools.iter().map(|tool| tool.definition.clone()).collect();
        Catalog { tools: tools.into(), definitions }
    }

    /// Only the tools that `keep` wants.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&RegisteredTool) -> bool) -> Self {
        Catalog::new(self.tools.iter().filter(|tool| keep(tool)).cloned().collect())
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// What the model sees.
    pub fn definitions(&self) -> &Arc<[ToolDefinition]> {
        &self.definitions
    }

    /// All names, for messages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Echo;

    #[async_trait::async_trait]
    impl ToolHandler for Echo {
        async fn call(&self, ctx: &ToolContext, input: crate::JsonObject) -> Result<ToolOutput, ToolError> {
            assert_eq!(ctx.agent_name, "a");
            Ok(ToolOutput::from(Value::Object(input)))
        }
    }

    fn tool(name: &str, permissions: &[Permission]) -> Arc<RegisteredTool> {
        let spec = ExportSpec {
            name: name.to_owned(),
            description: "Echoes.".to_owned(),
            parameters: json!({"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}),
            permissions: permissions.iter().copied().collect(),
            read_only: false,
            idempotent: false,
        };
        let limits = ToolLimits { error_message: 100, output: 100, timeout: Duration::from_secs(1) };
        Arc::new(RegisteredTool::new("t", spec, Arc::new(Echo), limits))
    }

    #[test]
    fn enabled_tools_need_no_more_than_is_granted() {
        let mut registry = Registry::default();
        registry.register(tool("plain", &[]));
        registry.register(tool("read", &[Permission::Read]));
        registry.register(tool("both", &[Permission::Read, Permission::Network]));
        let names = |granted: &[Permission]| {
            let granted = granted.iter().copied().collect();
            registry.enabled(&granted).map(|tool| tool.name.export().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["plain"]);
        assert_eq!(names(&[Permission::Read]), ["plain", "read"]);
        assert_eq!(names(&[Permission::Read, Permission::Network, Permission::Write]), ["plain", "read", "both"]);
        let mut registry = registry;
        assert!(registry.unregister("t__read") && !registry.unregister("t__read"));
        assert_eq!(registry.tools().count(), 2);
    }

    #[test]
    fn a_name_splits_at_its_one_separator() {
        let name: ToolName = "text-transform__case".parse().unwrap();
        assert_eq!((name.resource(), name.export()), ("text-transform", "case"));
        for broken in ["", "a", "__", "a__", "__b", "a__b__c", "a___b", "a____b"] {
            assert!(broken.parse::<ToolName>().is_err(), "{broken}");
        }
    }
}

//! Tool names, the registry of what can run, and the catalog of what a step offers (rules T1, T3).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use goondan_spec::Code;
use goondan_spec::kinds::{ExportSpec, MarkedArguments, Permission};
use serde_json::Value;

use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};
use goondan_core::schema::ArgumentSchema;

mod lazy;

pub use lazy::LazyTool;

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
        ToolName {
            text: format!("{resource}{SEPARATOR}{export}"),
            resource_len: resource.len(),
        }
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
    /// The field that says how long a call may take.
    pub timeout_field: &'static str,
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
    pub fn new(
        resource: &str,
        spec: ExportSpec,
        handler: Arc<dyn ToolHandler>,
        limits: ToolLimits,
    ) -> Self {
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
            timeout_field: "spec.timeoutMs",
            builtin: None,
        }
    }

    /// Names the field that says how long a call may take.
    #[must_use]
    pub fn timed_by(mut self, field: &'static str) -> Self {
        self.timeout_field = field;
        self
    }

    /// Names the built-in handler set behind it.
    #[must_use]
    pub fn of_builtin(mut self, set: &str) -> Self {
        self.builtin = Some(ToolName::new(set, &self.spec.name).to_string());
        self
    }
}

/// Everything that is executable for an agent in one generation; a step's [`Catalog`] is chosen from it. A program can make one
/// of its own:
///
/// ```
/// use std::collections::BTreeSet;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use async_trait::async_trait;
/// use goondan_core::JsonObject;
/// use goondan_core::ports::tool::{ToolContext, ToolError, ToolHandler, ToolOutput};
/// use goondan_engine::tooling::registry::{LazyTool, RegisteredTool, Registry, ToolLimits, ToolName};
/// use goondan_spec::kinds::{ExportSpec, Permission};
/// use serde_json::json;
///
/// struct Greet;
///
/// #[async_trait]
/// impl ToolHandler for Greet {
///     async fn call(&self, _ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
///         Ok(ToolOutput::from(json!(format!("Hello {}", input["name"].as_str().unwrap_or_default()))))
///     }
/// }
///
/// fn greeter(export: &str, needs: &[Permission]) -> Arc<RegisteredTool> {
///     let spec = ExportSpec {
///         description: "Greets somebody.".to_owned(),
///         parameters: json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
///         permissions: needs.iter().copied().collect(),
///         ..ExportSpec::named(export)
///     };
///     let limits = ToolLimits { error_message: 1_000, output: 100_000, timeout: Duration::from_secs(60) };
///     Arc::new(RegisteredTool::new("greeter", spec, Arc::new(Greet), limits))
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let mut registry = Registry::default();
/// registry.register(greeter("hello", &[]));
/// registry.register(greeter("shout", &[Permission::Network]));
/// registry.register_lazy(Arc::new(LazyTool::new(ToolName::new("greeter", "later"), || async { Ok(greeter("later", &[])) })));
///
/// // A lazy tool is listed once its definition is made.
/// assert_eq!(registry.tools().count(), 2);
/// registry.initialize().await.map_err(|failed| failed.len()).unwrap();
/// let enabled: Vec<_> = registry.enabled(&BTreeSet::new()).map(|tool| tool.name.to_string()).collect();
/// assert_eq!(enabled, ["greeter__hello", "greeter__later"]);
/// assert!(registry.unregister("greeter__shout") && registry.get("greeter__shout").is_none());
/// # });
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Registered>,
    order: Vec<String>,
}

#[derive(Clone)]
enum Registered {
    Defined(Arc<RegisteredTool>),
    Lazy(Arc<LazyTool>),
}

impl Registered {
    /// The tool, as far as its definition is there.
    fn defined(&self) -> Option<&Arc<RegisteredTool>> {
        match self {
            Registered::Defined(tool) => Some(tool),
            Registered::Lazy(tool) => tool.defined(),
        }
    }

    /// The tool, defined now if need be.
    async fn define(&self) -> Result<&Arc<RegisteredTool>, ToolError> {
        match self {
            Registered::Defined(tool) => Ok(tool),
            Registered::Lazy(tool) => tool.define().await,
        }
    }
}

impl Registry {
    /// Adds a tool. A later one of the same name takes the place of the earlier one.
    pub fn register(&mut self, tool: Arc<RegisteredTool>) {
        self.insert(tool.name.to_string(), Registered::Defined(tool));
    }

    /// Adds a tool whose definition is made when it is first needed: by [`Registry::initialize`] or its first call. Until
    /// then it can be executed and taken out, but nothing that lists tools tells of it.
    pub fn register_lazy(&mut self, tool: Arc<LazyTool>) {
        self.insert(tool.name().to_string(), Registered::Lazy(tool));
    }

    fn insert(&mut self, name: String, tool: Registered) {
        if self.tools.insert(name.clone(), tool).is_none() {
            self.order.push(name);
        }
    }

    /// Makes all definitions that are not there yet, at the same time.
    ///
    /// # Errors
    /// Those that could not be made, by name. They are tried again the next time; the others are there.
    pub async fn initialize(&self) -> Result<(), Vec<(ToolName, ToolError)>> {
        let lazy = self
            .order
            .iter()
            .filter_map(|name| match &self.tools[name] {
                Registered::Lazy(tool) => {
                    Some(async move { (tool.name().clone(), tool.define().await.err()) })
                }
                Registered::Defined(_) => None,
            });
        let done = futures::future::join_all(lazy).await;
        let failed: Vec<_> = done
            .into_iter()
            .filter_map(|(name, error)| Some((name, error?)))
            .collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    /// Takes a tool out; false where there is none.
    pub fn unregister(&mut self, name: &str) -> bool {
        self.order.retain(|known| known != name);
        self.tools.remove(name).is_some()
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.tools.get(name)?.defined()
    }

    /// Checks `arguments`, fills in defaults, and runs the tool of that name. Nobody is asked for permission: that is the
    /// work of a turn ([`crate::tooling::dispatch`]).
    pub async fn execute(
        &self,
        name: &str,
        arguments: &Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let tool = self.tools.get(name).ok_or_else(|| {
            let known = self.order.join(", ");
            let error =
                ToolError::new(format!("there is no tool `{name}`")).code(Code::TOOL_NOT_FOUND);
            error.suggest(format!("the tools are: {known}"))
        })?;
        let tool = tool.define().await?;
        let arguments = tool.schema.check(arguments).map_err(|invalid| {
            ToolError::new(invalid.message)
                .code(Code::TOOL_INVALID_ARGS)
                .suggest(invalid.suggestion)
        })?;
        tool.handler.call(ctx, arguments).await
    }

    /// The tools that need no other permissions than these (what is optional does not count), in the order in which they were registered.
    pub fn enabled<'a>(
        &'a self,
        permissions: &'a BTreeSet<Permission>,
    ) -> impl Iterator<Item = &'a Arc<RegisteredTool>> {
        self.tools()
            .filter(|tool| tool.spec.permissions.is_subset(permissions))
    }

    /// All tools, in the order in which they were registered.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.order
            .iter()
            .filter_map(|name| self.tools[name].defined())
    }

    /// A catalog of everything.
    pub fn catalog(&self) -> Catalog {
        Catalog::new(self.tools().cloned().collect())
    }

    /// As [`Registry::catalog`]; `known` itself where it holds the same.
    pub(crate) fn catalog_like(&self, known: Option<&Catalog>) -> Catalog {
        let is_same = |known: &&Catalog| {
            known.tools.len() == self.order.len()
                && known
                    .tools
                    .iter()
                    .zip(self.tools())
                    .all(|(known, own)| Arc::ptr_eq(known, own))
        };
        known
            .filter(is_same)
            .cloned()
            .unwrap_or_else(|| self.catalog())
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
        Catalog {
            tools: tools.into(),
            definitions,
        }
    }

    /// Only the tools that `keep` wants.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&RegisteredTool) -> bool) -> Self {
        Catalog::new(
            self.tools
                .iter()
                .filter(|tool| keep(tool))
                .cloned()
                .collect(),
        )
    }

    /// With `more` tools. One of a name that is there takes the place of that one.
    #[must_use]
    pub(crate) fn with(&self, more: &[Arc<RegisteredTool>]) -> Self {
        let mut tools = self.tools.to_vec();
        for tool in more {
            match tools.iter_mut().find(|known| known.name == tool.name) {
                Some(known) => *known = Arc::clone(tool),
                None => tools.push(Arc::clone(tool)),
            }
        }
        Catalog::new(tools)
    }

    /// The tools of those names in that order, and the names that none has. The catalog itself where it is just that.
    pub(crate) fn chosen<'n>(&self, names: &[&'n str]) -> (Self, Vec<&'n str>) {
        if self.names().eq(names.iter().copied()) {
            return (self.clone(), Vec::new());
        }
        let (mut tools, mut unknown) = (Vec::new(), Vec::new());
        for name in names {
            match self.get(name) {
                Some(tool) if tools.iter().all(|known| !Arc::ptr_eq(known, tool)) => {
                    tools.push(Arc::clone(tool))
                }
                Some(_) => {}
                None => unknown.push(*name),
            }
        }
        (Catalog::new(tools), unknown)
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    struct Echo;

    #[async_trait::async_trait]
    impl ToolHandler for Echo {
        async fn call(
            &self,
            ctx: &ToolContext,
            input: goondan_core::JsonObject,
        ) -> Result<ToolOutput, ToolError> {
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
            ..ExportSpec::default()
        };
        let limits = ToolLimits {
            error_message: 100,
            output: 100,
            timeout: Duration::from_secs(1),
        };
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
            registry
                .enabled(&granted)
                .map(|tool| tool.name.export().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["plain"]);
        assert_eq!(names(&[Permission::Read]), ["plain", "read"]);
        assert_eq!(
            names(&[Permission::Read, Permission::Network, Permission::Write]),
            ["plain", "read", "both"]
        );
        let mut registry = registry;
        assert!(registry.unregister("t__read") && !registry.unregister("t__read"));
        assert_eq!(registry.tools().count(), 2);
    }

    fn lazy(name: &str, made: &Arc<AtomicUsize>, broken_first: bool) -> Arc<LazyTool> {
        let made = Arc::clone(made);
        Arc::new(LazyTool::new(ToolName::new("t", name), move || {
            let (number, tool) = (
                made.fetch_add(1, Ordering::Relaxed),
                tool("later", &[Permission::Read]),
            );
            async move {
                tokio::task::yield_now().await;
                if broken_first && number == 0 {
                    Err(ToolError::new("not yet"))
                } else {
                    Ok(tool)
                }
            }
        }))
    }

    #[tokio::test]
    async fn a_lazy_tool_is_defined_once_when_it_is_needed() {
        let made = Arc::new(AtomicUsize::new(0));
        let mut registry = Registry::default();
        registry.register_lazy(lazy("later", &made, false));
        registry.register(tool("now", &[]));
        assert_eq!(
            (registry.tools().count(), registry.get("t__later").is_none()),
            (1, true)
        );
        let (a, b) = tokio::join!(registry.initialize(), registry.initialize());
        assert!(a.is_ok() && b.is_ok() && registry.initialize().await.is_ok());
        assert_eq!(made.load(Ordering::Relaxed), 1);
        let names: Vec<&str> = registry.tools().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["t__later", "t__now"]);
        assert!(registry.unregister("t__later") && registry.get("t__later").is_none());
    }

    #[tokio::test]
    async fn a_definition_that_fails_is_tried_again() {
        let made = Arc::new(AtomicUsize::new(0));
        let mut registry = Registry::default();
        registry.register_lazy(lazy("later", &made, true));
        registry.register_lazy(lazy("other", &Arc::default(), false));
        let failed = registry.initialize().await.unwrap_err();
        // The second makes a tool of another name than it was registered by.
        let failed: Vec<_> = failed
            .iter()
            .map(|(name, error)| (name.as_str(), error.message.as_str()))
            .collect();
        assert_eq!(
            failed,
            [
                ("t__later", "not yet"),
                (
                    "t__other",
                    "the definition of `t__other` calls itself `t__later`"
                )
            ]
        );
        assert!(
            registry
                .initialize()
                .await
                .is_err_and(|failed| failed.len() == 1)
        );
        assert!(registry.get("t__later").is_some() && registry.get("t__other").is_none());
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

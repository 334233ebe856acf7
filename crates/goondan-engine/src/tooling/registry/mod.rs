//! Tool names, the registry of executable tools, and the catalog of a step (rules T1, T3).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use goondan_spec::Code;
use goondan_spec::kinds::{ExportSpec, MarkedArguments, Permission};
use serde_json::Value;

use goondan_core::JsonObject;
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolHandler, ToolOutput};
use goondan_core::schema::ArgumentSchema;

mod lazy;

pub use lazy::LazyTool;

/// Separator between resource and export in a tool name.
pub const TOOL_NAME_SEPARATOR: &str = "__";

/// Tool name `resource__export`: exactly one separator with text on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName {
    text: String,
    resource_len: usize,
}

/// Error for a string that is not a tool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tool name: use the form resource__export")]
pub struct InvalidToolName(String);

impl ToolName {
    /// Creates the name of an export of a Tool resource.
    pub fn new(resource: &str, export: &str) -> Self {
        ToolName {
            text: format!("{resource}{TOOL_NAME_SEPARATOR}{export}"),
            resource_len: resource.len(),
        }
    }

    /// Returns the whole name.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name of the Tool resource.
    pub fn resource(&self) -> &str {
        &self.text[..self.resource_len]
    }

    /// Returns the name of the export.
    pub fn export(&self) -> &str {
        &self.text[self.resource_len + TOOL_NAME_SEPARATOR.len()..]
    }
}

impl FromStr for ToolName {
    type Err = InvalidToolName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(TOOL_NAME_SEPARATOR) {
            Some((resource, export))
                if !resource.is_empty()
                    && !export.is_empty()
                    && !export.contains(TOOL_NAME_SEPARATOR)
                    && !export.starts_with('_') =>
            {
                Ok(ToolName::new(resource, export))
            }
            _ => Err(InvalidToolName(text.to_owned())),
        }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An export that can run.
#[derive(Clone)]
pub struct RegisteredTool {
    /// Name that the model uses.
    pub name: ToolName,
    /// Description, permissions and hints such as `readOnly`.
    pub spec: ExportSpec,
    /// Definition that the model receives.
    pub definition: ToolDefinition,
    /// Arguments that the policy inspects, such as paths.
    pub marked_arguments: MarkedArguments,
    /// Schema of the arguments.
    pub schema: ArgumentSchema,
    /// Handler of the calls.
    pub handler: Arc<dyn ToolHandler>,
    /// Size and time limits.
    pub limits: ToolLimits,
    /// YAML field of the time-out.
    pub timeout_field: &'static str,
    /// Built-in export that the tool runs, such as `fs__read`, independent of the resource's name.
    pub builtin: Option<String>,
    /// Hash of the resource's entry and `config`. `None` for a built-in tool without `config`.
    pub settings: Option<String>,
}

/// Limits of a Tool resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// Maximum characters of an error message.
    pub error_message: usize,
    /// Maximum characters of an output.
    pub output: usize,
    /// Maximum time of a call without a heartbeat.
    pub timeout: Duration,
}

impl RegisteredTool {
    /// Returns true if an interrupted call may run again.
    pub(crate) fn may_repeat(&self) -> bool {
        self.spec.idempotent || self.spec.read_only
    }

    /// Returns the names of the arguments that equal their default. Only built-in tools have
    /// defaults here: a server or a handler can treat a missing argument differently from its stated
    /// default.
    pub(crate) fn default_arguments(&self, arguments: &JsonObject) -> BTreeSet<String> {
        if self.builtin.is_none() {
            return BTreeSet::new();
        }
        let properties = self.schema.as_value().get("properties");
        let default =
            |name: &str| properties.and_then(|properties| properties.get(name)?.get("default"));
        let defaults = arguments
            .iter()
            .filter(|(name, value)| default(name) == Some(*value));
        defaults.map(|(name, _)| name.clone()).collect()
    }

    /// Creates the tool for an export of the Tool resource `resource`.
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
            parameters: spec.model_parameters(),
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
            settings: None,
        }
    }

    /// Sets the YAML field of the time-out.
    #[must_use]
    pub fn timed_by(mut self, field: &'static str) -> Self {
        self.timeout_field = field;
        self
    }

    /// Sets the hash of the entry and `config`.
    #[must_use]
    pub fn with_settings(mut self, hash: Option<String>) -> Self {
        self.settings = hash;
        self
    }

    /// Sets the built-in tool set that the tool belongs to.
    #[must_use]
    pub fn of_builtin(mut self, set: &str) -> Self {
        self.builtin = Some(ToolName::new(set, &self.spec.name).to_string());
        self
    }
}

/// All tools that an agent can run in one generation. The [`ToolCatalog`] of a step is a selection of
/// them. Programs can build their own registry:
///
/// ```
/// use std::collections::BTreeSet;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use async_trait::async_trait;
/// use goondan_core::JsonObject;
/// use goondan_core::ports::tool::{ToolContext, HandlerError, ToolHandler, ToolOutput};
/// use goondan_engine::tooling::registry::{
///     LazyTool, RegisteredTool, ToolRegistry, ToolLimits, ToolName,
/// };
/// use goondan_spec::kinds::{ExportSpec, Permission};
/// use serde_json::json;
///
/// struct Greet;
///
/// #[async_trait]
/// impl ToolHandler for Greet {
///     async fn call(&self, _ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
///         let name = input["name"].as_str().unwrap_or_default();
///         Ok(ToolOutput::from(json!(format!("Hello {name}"))))
///     }
/// }
///
/// fn greeter(export: &str, needs: &[Permission]) -> Arc<RegisteredTool> {
///     let spec = ExportSpec {
///         description: "Greets a user.".to_owned(),
///         parameters: json!({
///             "type": "object",
///             "properties": {"name": {"type": "string"}},
///             "required": ["name"],
///         }),
///         permissions: needs.iter().copied().collect(),
///         ..ExportSpec::named(export)
///     };
///     let limits = ToolLimits {
///         error_message: 1_000,
///         output: 100_000,
///         timeout: Duration::from_secs(60),
///     };
///     Arc::new(RegisteredTool::new("greeter", spec, Arc::new(Greet), limits))
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let mut registry = ToolRegistry::default();
/// registry.register(greeter("hello", &[]));
/// registry.register(greeter("shout", &[Permission::Network]));
/// let later = LazyTool::new(ToolName::new("greeter", "later"), || async {
///     Ok(greeter("later", &[]))
/// });
/// registry.register_lazy(Arc::new(later));
///
/// // A lazy tool is listed after its definition was created.
/// assert_eq!(registry.tools().count(), 2);
/// registry.initialize().await.map_err(|failed| failed.len()).unwrap();
/// let enabled: Vec<_> = registry
///     .enabled(&BTreeSet::new())
///     .map(|tool| tool.name.to_string())
///     .collect();
/// assert_eq!(enabled, ["greeter__hello", "greeter__later"]);
/// assert!(registry.unregister("greeter__shout"));
/// assert!(registry.get("greeter__shout").is_none());
/// # });
/// ```
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<String, RegistryEntry>,
    order: Vec<String>,
}

#[derive(Clone)]
enum RegistryEntry {
    Defined(Arc<RegisteredTool>),
    Lazy(Arc<LazyTool>),
}

impl RegistryEntry {
    /// Returns the tool; `None` if a lazy tool is not defined yet.
    fn defined(&self) -> Option<&Arc<RegisteredTool>> {
        match self {
            RegistryEntry::Defined(tool) => Some(tool),
            RegistryEntry::Lazy(tool) => tool.defined(),
        }
    }

    /// Returns the tool; defines a lazy tool first.
    async fn define(&self) -> Result<&Arc<RegisteredTool>, HandlerError> {
        match self {
            RegistryEntry::Defined(tool) => Ok(tool),
            RegistryEntry::Lazy(tool) => tool.define().await,
        }
    }
}

impl ToolRegistry {
    /// Adds a tool. Replaces an earlier tool of the same name.
    pub fn register(&mut self, tool: Arc<RegisteredTool>) {
        self.insert(tool.name.to_string(), RegistryEntry::Defined(tool));
    }

    /// Adds a tool whose definition is created by [`ToolRegistry::initialize`] or by its first call.
    /// Until then it can be executed and unregistered, but listings omit it.
    pub fn register_lazy(&mut self, tool: Arc<LazyTool>) {
        self.insert(tool.name().to_string(), RegistryEntry::Lazy(tool));
    }

    /// Adds a tool at the end, or replaces the tool with this name in its place.
    fn insert(&mut self, name: String, tool: RegistryEntry) {
        if self.tools.insert(name.clone(), tool).is_none() {
            self.order.push(name);
        }
    }

    /// Creates all missing definitions concurrently.
    ///
    /// # Errors The definitions that failed, by name. The next call retries them; the other tools
    /// are available.
    pub async fn initialize(&self) -> Result<(), Vec<(ToolName, HandlerError)>> {
        let lazy = self
            .order
            .iter()
            .filter_map(|name| match &self.tools[name] {
                RegistryEntry::Lazy(tool) => {
                    Some(async move { (tool.name().clone(), tool.define().await.err()) })
                }
                RegistryEntry::Defined(_) => None,
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

    /// Removes a tool. Returns false if it does not exist.
    pub fn unregister(&mut self, name: &str) -> bool {
        self.order.retain(|other| other != name);
        self.tools.remove(name).is_some()
    }

    /// Returns a tool by name, if its definition exists.
    pub fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.tools.get(name)?.defined()
    }

    /// Checks `arguments`, fills in defaults, and runs a tool without checking permissions. Turns
    /// check permissions in [`crate::tooling::dispatch`].
    pub async fn execute(
        &self,
        name: &str,
        arguments: &Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, HandlerError> {
        let tool = self.tools.get(name).ok_or_else(|| {
            let names = self.order.join(", ");
            let error =
                HandlerError::new(format!("there is no tool `{name}`")).code(Code::TOOL_NOT_FOUND);
            error.suggest(format!("the tools are: {names}"))
        })?;
        let tool = tool.define().await?;
        let checked = tool.schema.check_in_time(arguments).await;
        let arguments = checked.map_err(|invalid| {
            HandlerError::new(invalid.message)
                .code(Code::TOOL_INVALID_ARGS)
                .suggest(invalid.suggestion)
        })?;
        tool.handler.call(ctx, arguments).await
    }

    /// Returns the tools whose required permissions are all in `permissions`, in registration
    /// order. Optional permissions are ignored.
    pub fn enabled<'a>(
        &'a self,
        permissions: &'a BTreeSet<Permission>,
    ) -> impl Iterator<Item = &'a Arc<RegisteredTool>> {
        self.tools()
            .filter(|tool| tool.spec.permissions.is_subset(permissions))
    }

    /// Returns all tools in registration order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.order
            .iter()
            .filter_map(|name| self.tools[name].defined())
    }

    /// Returns a catalog of all tools.
    pub fn catalog(&self) -> ToolCatalog {
        ToolCatalog::new(self.tools().cloned().collect())
    }

    /// Returns the same as [`ToolRegistry::catalog`], but reuses `cached` if it has the same content.
    pub(crate) fn catalog_like(&self, cached: Option<&ToolCatalog>) -> ToolCatalog {
        let is_same = |cached: &&ToolCatalog| {
            cached.tools.len() == self.order.len()
                && cached
                    .tools
                    .iter()
                    .zip(self.tools())
                    .all(|(cached, current)| Arc::ptr_eq(cached, current))
        };
        cached
            .filter(is_same)
            .cloned()
            .unwrap_or_else(|| self.catalog())
    }
}

/// Tools that one step of an agent offers. Calls of other tools are refused.
#[derive(Clone)]
pub struct ToolCatalog {
    tools: Arc<[Arc<RegisteredTool>]>,
    definitions: Arc<[ToolDefinition]>,
}

impl ToolCatalog {
    /// Creates a catalog of `tools` in the given order.
    pub fn new(tools: Vec<Arc<RegisteredTool>>) -> Self {
        let definitions = tools.iter().map(|tool| tool.definition.clone()).collect();
        ToolCatalog {
            tools: tools.into(),
            definitions,
        }
    }

    /// Returns a catalog of the tools for which `keep` returns true.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&RegisteredTool) -> bool) -> Self {
        ToolCatalog::new(
            self.tools
                .iter()
                .filter(|tool| keep(tool))
                .cloned()
                .collect(),
        )
    }

    /// Returns a catalog with `more` tools. A tool of the same name is replaced.
    #[must_use]
    pub(crate) fn with(&self, more: &[Arc<RegisteredTool>]) -> Self {
        let mut tools = self.tools.to_vec();
        for tool in more {
            match tools.iter_mut().find(|existing| existing.name == tool.name) {
                Some(existing) => *existing = Arc::clone(tool),
                None => tools.push(Arc::clone(tool)),
            }
        }
        ToolCatalog::new(tools)
    }

    /// Returns a catalog of the named tools in that order, and the unknown names. Reuses this
    /// catalog if nothing changes.
    pub(crate) fn select_tools<'n>(&self, names: &[&'n str]) -> (Self, Vec<&'n str>) {
        if self.names().eq(names.iter().copied()) {
            return (self.clone(), Vec::new());
        }
        let mut tools = Vec::new();
        let mut unknown = Vec::new();
        for name in names {
            match self.get(name) {
                Some(tool) if tools.iter().all(|added| !Arc::ptr_eq(added, tool)) => {
                    tools.push(Arc::clone(tool))
                }
                Some(_) => {}
                None => unknown.push(*name),
            }
        }
        (ToolCatalog::new(tools), unknown)
    }

    /// Returns a tool by name.
    pub fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// Returns the definitions that the model receives.
    pub fn definitions(&self) -> &Arc<[ToolDefinition]> {
        &self.definitions
    }

    /// Returns all names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    struct EchoHandler;

    #[async_trait::async_trait]
    impl ToolHandler for EchoHandler {
        async fn call(
            &self,
            ctx: &ToolContext,
            input: goondan_core::JsonObject,
        ) -> Result<ToolOutput, HandlerError> {
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
        Arc::new(RegisteredTool::new(
            "t",
            spec,
            Arc::new(EchoHandler),
            limits,
        ))
    }

    #[test]
    fn only_built_in_tools_have_default_arguments() {
        let Value::Object(arguments) = json!({"n": 1, "m": 1}) else {
            unreachable!("the value is an object")
        };
        let tool = RegisteredTool::clone(&tool("echo", &[]));
        assert!(tool.default_arguments(&arguments).is_empty());
        let builtin = Some("echo__echo".to_owned());
        let built_in = RegisteredTool { builtin, ..tool };
        let defaults = built_in.default_arguments(&arguments);
        assert_eq!(defaults, BTreeSet::from(["n".to_owned()]));
    }

    #[test]
    fn only_tools_with_granted_permissions_are_enabled() {
        let mut registry = ToolRegistry::default();
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

    fn lazy(name: &str, definitions: &Arc<AtomicUsize>, first_fails: bool) -> Arc<LazyTool> {
        let definitions = Arc::clone(definitions);
        Arc::new(LazyTool::new(ToolName::new("t", name), move || {
            let (number, tool) = (
                definitions.fetch_add(1, Ordering::Relaxed),
                tool("later", &[Permission::Read]),
            );
            async move {
                tokio::task::yield_now().await;
                if first_fails && number == 0 {
                    Err(HandlerError::new("not yet"))
                } else {
                    Ok(tool)
                }
            }
        }))
    }

    #[tokio::test]
    async fn a_lazy_tool_is_defined_once_at_initialization() {
        let definitions = Arc::new(AtomicUsize::new(0));
        let mut registry = ToolRegistry::default();
        registry.register_lazy(lazy("later", &definitions, false));
        registry.register(tool("now", &[]));
        assert_eq!(
            (registry.tools().count(), registry.get("t__later").is_none()),
            (1, true)
        );
        let (a, b) = tokio::join!(registry.initialize(), registry.initialize());
        assert!(a.is_ok() && b.is_ok() && registry.initialize().await.is_ok());
        assert_eq!(definitions.load(Ordering::Relaxed), 1);
        let names: Vec<&str> = registry.tools().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["t__later", "t__now"]);
        assert!(registry.unregister("t__later") && registry.get("t__later").is_none());
    }

    #[tokio::test]
    async fn a_failed_tool_definition_is_retried() {
        let definitions = Arc::new(AtomicUsize::new(0));
        let mut registry = ToolRegistry::default();
        registry.register_lazy(lazy("later", &definitions, true));
        registry.register_lazy(lazy("other", &Arc::default(), false));
        let failed = registry.initialize().await.unwrap_err();
        // The second definition returns a tool with another name than the registered one.
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
                    "the definition of `t__other` has the name `t__later`"
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
    fn a_tool_name_has_exactly_one_separator() {
        let name: ToolName = "text-transform__case".parse().unwrap();
        assert_eq!((name.resource(), name.export()), ("text-transform", "case"));
        for broken in ["", "a", "__", "a__", "__b", "a__b__c", "a___b", "a____b"] {
            assert!(broken.parse::<ToolName>().is_err(), "{broken}");
        }
    }
}

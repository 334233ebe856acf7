//! The exports of a library: tools with their schemas, and the macros that create the symbol.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::connector::{ConnectorFunction, ErasedConnector as RunConnector};
use super::extension::RegisterFn;
use super::handler::{ErasedTool, Handler, erase};
use crate::wire::{Export, Manifest, Permission, SdkInfo, feature};

/// All exports of a library. Created by [`export_tools!`](crate::export_tools),
/// [`export_extension!`](crate::export_extension) and
/// [`export_connector!`](crate::export_connector).
pub struct Library {
    name: &'static str,
    version: &'static str,
    tools: Vec<Tool>,
    extension: Option<RegisterFn>,
    connector: Option<RunConnector>,
}

/// One export with its handler.
pub struct Tool {
    pub(super) export: Export,
    pub(super) run: Box<dyn ErasedTool>,
}

/// Creates the export `name` for `handler`. The export's description and schema come from the type
/// of the handler's arguments. `M` is inferred; it selects how the handler is called.
pub fn tool<M: 'static>(name: &str, handler: impl Handler<M>) -> Tool {
    // Only names the type of `handler`.
    fn schema<M, H: Handler<M>>(_: &H) -> (Value, String) {
        schema_of::<H::Arguments>()
    }
    let (parameters, description) = schema(&handler);
    let export = Export {
        name: name.to_owned(),
        description,
        parameters,
        permissions: BTreeSet::new(),
        optional_permissions: BTreeSet::new(),
        read_only: false,
        idempotent: false,
    };
    Tool {
        export,
        run: erase(handler),
    }
}

impl Tool {
    /// Sets another name than the function's.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.export.name);
        self
    }

    /// Sets another description than the arguments' doc comment.
    #[must_use]
    pub fn description(mut self, text: &str) -> Self {
        text.clone_into(&mut self.export.description);
        self
    }

    /// Adds required permissions. The agent's policy decides if they are granted.
    #[must_use]
    pub fn permissions(mut self, permissions: impl IntoIterator<Item = Permission>) -> Self {
        self.export.permissions.extend(permissions);
        self
    }

    /// Adds permissions that the tool uses only if they are granted, without an approval prompt.
    /// [`ToolContext::may`](super::ToolContext::may) returns the decision.
    #[must_use]
    pub fn optional_permissions(
        mut self,
        permissions: impl IntoIterator<Item = Permission>,
    ) -> Self {
        self.export.optional_permissions.extend(permissions);
        self
    }

    /// Declares that the tool changes nothing, so that an interrupted call may run again.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.export.read_only = true;
        self
    }

    /// Declares that repeating a call has no further effect, so that an interrupted call may run
    /// again.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.export.idempotent = true;
        self
    }
}

impl Library {
    /// Creates a library that exports `tools`.
    pub fn new(name: &'static str, version: &'static str, tools: Vec<Tool>) -> Self {
        Library {
            name,
            version,
            tools,
            extension: None,
            connector: None,
        }
    }

    /// Adds an extension with its register function.
    #[must_use]
    pub fn extended(mut self, register: RegisterFn) -> Self {
        self.extension = Some(register);
        self
    }

    /// Adds a connector with its function.
    #[must_use]
    pub fn connecting<M: 'static>(mut self, run: impl ConnectorFunction<M>) -> Self {
        self.connector = Some(RunConnector::new(run));
        self
    }

    pub(super) fn extension(&self) -> Option<RegisterFn> {
        self.extension
    }

    pub(super) fn connector(&self) -> Option<RunConnector> {
        self.connector.clone()
    }

    /// Returns the description of the library and its exports for the host.
    pub(super) fn manifest(&self) -> Manifest {
        Manifest {
            name: self.name.to_owned(),
            version: self.version.to_owned(),
            sdk: Some(SdkInfo {
                language: "rust".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            }),
            features: self.features().map(str::to_owned).collect(),
            exports: self.tools.iter().map(|tool| tool.export.clone()).collect(),
        }
    }

    /// Returns true if the library accepts messages in addition to tool calls.
    pub(super) fn is_extending(&self) -> bool {
        self.features().next().is_some()
    }

    /// Returns the names of the features that the library uses.
    fn features(&self) -> impl Iterator<Item = &'static str> {
        let extension = self.extension.map(|_| feature::EXTENSION);
        extension
            .into_iter()
            .chain(self.connector.as_ref().map(|_| feature::CONNECTOR))
    }

    /// Returns the tools by export name.
    pub(super) fn into_tools(self) -> impl Iterator<Item = (String, Box<dyn ErasedTool>)> {
        self.tools
            .into_iter()
            .map(|tool| (tool.export.name, tool.run))
    }
}

/// Returns the schema of `A` for models, and its doc comment.
fn schema_of<A: JsonSchema>() -> (Value, String) {
    let settings = SchemaSettings::draft2020_12()
        .for_deserialize()
        .with(|settings| {
            // Models process a nested schema better than references to a list of definitions.
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    // The name of a Rust type is of no use to a model.
    schema.remove("title");
    let description = match schema.remove("description") {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    (schema.to_value(), description)
}

/// Exports functions as the tools of this library, and makes the library loadable. Use it once in a
/// `cdylib`.
///
/// `name` and `version` default to those of the package. Methods of [`Tool`] follow after
/// `=>`:
///
/// ```
/// # use goondan_abi::sdk::{Permission, ToolContext, ToolError, export_tools};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # struct Empty {}
/// # fn today(_: ToolContext, _: Empty) -> Result<String, ToolError> { Ok(String::new()) }
/// # async fn fetch(_: ToolContext, _: Empty) -> Result<String, ToolError> { Ok(String::new()) }
/// export_tools! {
///     name = "calendar",
///     version = "1.2.0",
///     tools = [
///         today => read_only(),
///         fetch => named("fetch-ics").permissions([Permission::Network]).idempotent(),
///     ],
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_tools {
    (tools = $($rest:tt)*) => {
        $crate::export_tools! { name = env!("CARGO_PKG_NAME"), tools = $($rest)* }
    };
    (name = $name:expr, tools = $($rest:tt)*) => {
        $crate::export_tools! { name = $name, version = env!("CARGO_PKG_VERSION"), tools = $($rest)* }
    };
    (
        name = $name:expr,
        version = $version:expr,
        tools = [$($tool:ident $(=> $($option:ident($($argument:tt)*)).+)?),+ $(,)?] $(,)?
    ) => {
        $crate::__export_library! {
            $crate::__library!($name, $version, [$($tool $(=> $($option($($argument)*)).+)?),+])
        }
    };
}

/// Exports a function as the extension of this library, and makes the library loadable. Use it once
/// in a `cdylib`, instead of [`export_tools!`](crate::export_tools).
///
/// The function registers layers and tools ([`ExtensionApi`](crate::sdk::ExtensionApi)). The
/// library may also have tools for Tool resources:
///
/// ```
/// use goondan_abi::sdk::{ExtensionApi, LayerKind, ToolError, export_extension};
///
/// fn register(api: &mut ExtensionApi) -> Result<(), ToolError> {
///     api.layer(LayerKind::Turn, |ctx| {
///         ctx.append("system", "Answer in one sentence.")?;
///         ctx.next()
///     });
///     Ok(())
/// }
///
/// export_extension! { register = register }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_extension {
    (register = $register:expr $(, tools = [$($tool:ident $(=> $($option:ident($($argument:tt)*)).+)?),* $(,)?])? $(,)?) => {
        $crate::__export_library! {
            $crate::__library!(
                env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), [$($($tool $(=> $($option($($argument)*)).+)?),*)?]
            )
            .extended($register)
        }
    };
}

/// Exports a function as the connector of this library, and makes the library loadable. Use it once
/// in a `cdylib`, instead of [`export_tools!`](crate::export_tools).
///
/// The function takes a [`ConnectorContext`](crate::sdk::ConnectorContext), is async or plain, and
/// runs as long as the connection. The library may also have tools for Tool resources:
///
/// ```
/// use goondan_abi::sdk::{ConnectorContext, ConnectorEvent, ToolError, export_connector};
///
/// async fn run(ctx: ConnectorContext) -> Result<(), ToolError> {
///     while let Some(line) = ctx.line().await? {
///         ctx.emit(ConnectorEvent::new("line", line)).await?;
///     }
///     Ok(())
/// }
///
/// export_connector! { run = run }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_connector {
    (run = $run:expr $(, tools = [$($tool:ident $(=> $($option:ident($($argument:tt)*)).+)?),* $(,)?])? $(,)?) => {
        $crate::__export_library! {
            $crate::__library!(
                env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), [$($($tool $(=> $($option($($argument)*)).+)?),*)?]
            )
            .connecting($run)
        }
    };
}

/// Creates a library with these tools.
#[doc(hidden)]
#[macro_export]
macro_rules! __library {
    ($name:expr, $version:expr, [$($tool:ident $(=> $($option:ident($($argument:tt)*)).+)?),*]) => {
        $crate::sdk::Library::new(
            $name,
            $version,
            vec![$($crate::sdk::tool(stringify!($tool), $tool)$($(.$option($($argument)*))+)?),*],
        )
    };
}

/// Defines the symbol of a library.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_library {
    ($library:expr) => {
        #[cfg(panic = "abort")]
        compile_error!(
            "a library must be built with panic = \"unwind\": remove `panic = \"abort\"` from its \
            profile"
        );

        const _: () = {
            struct Exports;

            impl $crate::sdk::Exported for Exports {
                fn library() -> $crate::sdk::Library {
                    $library
                }
            }

            #[allow(non_upper_case_globals)]
            #[unsafe(no_mangle)]
            pub static goondan_plugin: $crate::raw::Plugin = $crate::sdk::plugin::<Exports>();
        };
    };
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// Finds things.
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Search {
        /// What to look for
        query: String,
        /// How many at most
        #[serde(default)]
        limit: Option<u32>,
        place: Place,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Place {
        Here,
        There,
    }

    #[test]
    fn schema_and_description_come_from_the_type() {
        let (schema, description) = schema_of::<Search>();
        assert_eq!(description, "Finds things.");
        let expected = json!({
            "type": "object",
            "properties": {
                "query": { "description": "What to look for", "type": "string" },
                "limit": {
                    "description": "How many at most", "type": ["integer", "null"], "format": "uint32", "minimum": 0,
                    "default": null
                },
                "place": { "type": "string", "enum": ["here", "there"] }
            },
            "required": ["query", "place"]
        });
        assert_eq!(schema, expected);
    }
}

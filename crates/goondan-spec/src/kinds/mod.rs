//! The eight kinds as the rest of the program sees them: typed, complete, with resolved references.

mod agent;
mod connection;
mod connector;
mod extension;
mod model;
mod package;
mod swarm;
mod tool;

pub use agent::{Action, PermissionRule, Permissions};
pub use agent::{Agent, ExtensionUse, ModelParams, Prompt, ToolUse, Workdir};
pub use connection::{Connection, IngressRule, InstanceKeyRoute};
pub use connector::{Connector, ConnectorEvent, PropertyType};
pub use extension::Extension;
pub use model::Model;
pub use package::{Dependency, Package};
pub use swarm::{Budget, Lifecycle, Policy, Swarm};
pub use tool::{Entry, ExportSpec, Permission, Tool, ToolManifest};

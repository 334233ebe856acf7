//! What a Rust program embeds: load a bundle, run a swarm, send to it, watch it, reload it.
//!
//! It composes the specification, the engine, the built-in tools and the model clients into one [`Swarm`] handle, and is
//! the only place that knows which adapter serves which port. It deliberately does not know terminals and arguments.

mod adapters;
pub mod approvals;
pub mod build;
pub mod builder;
mod contents;
pub mod generation;
pub mod identity;
pub mod preview;
pub mod project;
pub mod reload;
mod secrets;
mod servers;
pub mod swarm;
mod transfer;
pub mod trust;
mod variables;
pub mod wants;
pub mod watch;
pub mod workspace;

pub use build::{BuildEnd, BuildOutcome, Builds};
pub use goondan_dylib::{HostCommand, tool_host};
pub use goondan_mcp as mcp;
pub use goondan_models as models;
pub use goondan_runtime as runtime;
pub use goondan_spec as spec;
pub use goondan_tools::{HelperCommand, diff, enter as enter_sandbox, has_sandbox};

pub use builder::{StartError, SwarmBuilder};
pub use generation::{LastGeneration, LastReload};
pub use goondan_runtime::registry::{Catalog, RegisteredTool, Registry, ToolName};
pub use identity::{AdoptError, Elsewhere, Owner};
pub use preview::{Preview, PreviewError};
pub use project::{Project, around, environment, load, manifest_in};
pub use reload::{ReloadCheck, ReloadNews, ReloadOutcome, ReloadTiming};
pub use servers::mcp_servers;
pub use swarm::{Input, SendError, Submission, Swarm, Turn};
pub use transfer::ImportFailed;
pub use trust::{TrustList, Trusted};
pub use wants::{Want, wants};
pub use watch::{Watch, WatchOptions};
pub use workspace::{StateRoot, Workspace};

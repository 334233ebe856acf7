//! What a Rust program embeds: load a bundle, run a swarm, send to it, watch it, reload it.
//!
//! It composes the specification, the engine, the built-in tools and the model clients into one [`Swarm`] handle, and is
//! the only place that knows which adapter serves which port. It deliberately does not know terminals and arguments.

mod adapters;
pub mod approvals;
mod beside;
pub mod broker;
pub mod build;
pub mod builder;
pub mod chain;
pub mod checks;
pub mod connectors;
mod contents;
pub mod database;
pub mod generation;
mod hosts;
pub mod identity;
pub mod inside;
pub mod preview;
pub mod project;
pub mod reload;
mod secrets;
mod servers;
mod stand_ins;
mod start_error;
pub mod swarm;
pub mod telemetry;
mod transfer;
pub mod trust;
pub mod usage;
mod variables;
pub mod wants;
pub mod watch;
pub mod workspace;

pub use build::{BuildEnd, BuildOutcome, Builds};
pub use goondan_dylib::{HostCommand, tool_host};
pub use goondan_mcp as mcp;
pub use goondan_tools::{HelperCommand, diff, enter as enter_sandbox, has_sandbox};

pub use broker::{Broker, Listener, Question, QuestionEnd};
pub use builder::SwarmBuilder;
pub use checks::check;
pub use database::Database;
pub use generation::{LastGeneration, LastReload};
pub use goondan_engine::delivery::schedule::cron::Schedule;
pub use goondan_engine::tooling::registry::{
    Catalog, LazyTool, RegisteredTool, Registry, ToolLimits, ToolName,
};
pub use goondan_store::jsonl::{LockError, OpenWorkspaceError};
pub use goondan_store::transfer::ImportError;
pub use identity::{AdoptError, Elsewhere, Owner};
pub use preview::{Preview, PreviewError};
pub use project::{Project, around, environment, load, manifest_in};
pub use reload::{ReloadCheck, ReloadNews, ReloadOutcome, ReloadTiming};
pub use servers::mcp_servers;
pub use stand_ins::ToolStandIns;
pub use start_error::StartError;
pub use swarm::{Found, Input, SendError, Submission, Swarm, Turn};
pub use transfer::ImportFailed;
pub use trust::{TrustList, Trusted, TrustedPackage};
pub use usage::{ChainUsage, UsageLedger};
pub use wants::{Want, folders_to_trust, packages_to_trust, wants, wants_elsewhere};
pub use watch::{Watch, WatchOptions};
pub use workspace::{StateRoot, Workspace};

pub use goondan_core::{ids, message, notices, ports};

/// What happens in a swarm, for whoever watches it.
pub mod event {
    pub use goondan_core::event::{
        Cost, FinishReason, RateScope, RuntimeEvent, RuntimeEventKind, ShownError, ShownModelCall,
        ShownResult, SwarmEvent, TurnError, TurnResult,
    };
    pub use goondan_core::inbound::{RESPONSE, turn_id};
    pub use goondan_core::reserved::{FIRED, INPUT};
}

/// What the policy of an agent says about a tool call.
pub mod policy {
    pub use goondan_core::run_mode::{Containment, Direct, RunMode};
    pub use goondan_core::shell::What;
    pub use goondan_engine::policy::{
        AskedAbout, Because, Decision, Ground, PartDecision, Places, PolicyQuestion, decide,
        stricter,
    };
}

/// What a project consists of.
pub mod spec {
    pub use goondan_spec::{
        AgentChange, AgentEffect, AgentPart, Bundle, Code, Diagnostic, Environment, JsonObject,
        Kind, ReloadPlan, Resource, ResourceId, Secret, Severity, Sources, check_name,
        check_schema, codes, kinds, pattern_fault, reason,
    };
}

/// Model clients.
pub mod models {
    pub use goondan_models::{Mask, Providers, record, scripted};
}

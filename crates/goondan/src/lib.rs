//! Library API of goondan: load a bundle, run a swarm, send inputs, subscribe to its events, reload
//! it.
//!
//! The crate combines the specification, the engine, the built-in tools and the model clients in
//! one [`Swarm`] handle. Only this crate selects the adapter for each port. It does not depend on
//! terminals or command-line arguments.

pub mod adapters;
pub mod approvals;
mod blocking;
pub mod build;
pub mod gateway;
pub mod internal;
pub mod reload;
pub mod start;
pub mod trust;
pub mod watch;
pub mod workspace;

pub use build::{BuildEnd, BuildOutcome, ToolBuilds};
pub use goondan_dylib::{HostCommand, tool_host};
pub use goondan_mcp as mcp;
pub use goondan_tools::{HelperCommand, diff, enter as enter_sandbox, has_sandbox};
#[cfg(target_os = "linux")]
pub use goondan_tools::{adopt_orphans, is_sandboxed_client};

pub use adapters::embedded_tools::EmbeddedTool;
pub use adapters::mcp_servers::mcp_servers;
pub use adapters::tool_stubs::ToolStubs;
pub use approvals::broker::{ApprovalBroker, ApprovalEnd, ApprovalHandle, ApprovalListener};
pub use goondan_engine::delivery::schedule::ScheduleTime;
pub use goondan_engine::delivery::schedule::cron::CronSchedule;
pub use goondan_engine::tooling::registry::{
    LazyTool, RegisteredTool, ToolCatalog, ToolLimits, ToolName, ToolRegistry,
};
pub use goondan_store::instance_export::ImportError;
pub use goondan_store::jsonl::{
    BackupReport, LockError, OpenWorkspaceError, RepairReport, WorkspaceInspection,
};
pub use reload::preview::{PreviewError, ReloadPreview};
pub use reload::{ReloadCheck, ReloadNews, ReloadOutcome, ReloadTiming};
pub use start::builder::SwarmBuilder;
pub use start::checks::check;
pub use start::conversations::StatedPrompt;
pub use start::environment::project_variables;
pub use start::model_probe::{model_obstacle, probe_model};
pub use start::project::{Project, around, environment, load, manifest_in};
pub use start::start_error::StartError;
pub use start::swarm::{Input, SendError, SubmittedEventState, SubmittedInput, Swarm, Turn};
pub use start::usage::{ChainUsage, UsageLedger};
pub use trust::requested_capabilities::{
    RequestedCapability, folders_to_trust, packages_to_trust, requested_access,
    requested_access_elsewhere,
};
pub use trust::{TrustList, TrustedDirectory, TrustedPackage};
pub use watch::{ProjectWatch, WatchOptions};
pub use workspace::database::SharedDatabase;
pub use workspace::identity::{AdoptError, StaleState, WorkspaceOwner};
pub use workspace::import_export::ImportFailed;
pub use workspace::running_record::{LastGeneration, LastReload};
pub use workspace::{StateRoot, Workspace};

pub use goondan_core::{
    conversation_title, ids, json_rpc, json_text, message, model_calls, notices, ports, rate_limit,
    received_text,
};

/// Events of a swarm, for subscribers.
pub mod event {
    pub use goondan_core::agent_event::{
        AnswerCall, ConversationOperation, InputDelivery, RESPONSE_EVENT, turn_id,
    };
    pub use goondan_core::event::{
        ContextUsage, FinishReason, RateScope, RuntimeEvent, RuntimeEventKind, ShownError,
        ShownModelCall, ShownResult, SwarmEvent, TurnError, TurnResult, UsageCost, output_lines,
    };
    pub use goondan_core::reserved_names::{COMPACT_EVENT, CRON_EVENT, INPUT_EVENT, UNDO_EVENT};
}

/// Policy decisions about tool calls.
pub mod policy {
    pub use goondan_core::run_mode::{CommandContainment, DirectExecution, RunMode};
    pub use goondan_core::shell::CommandPartKind;
    pub use goondan_engine::policy::{
        ApprovalReason, DecisionReason, PartDecision, PathEnvironment, PolicyDecision,
        PolicyQuestion, ResolvedPaths, decide, stricter,
    };
}

/// Resources of a project.
pub mod spec {
    pub use goondan_spec::{
        AgentChange, AgentEffect, AgentPart, Bundle, Code, Diagnostic, DurationText, Environment,
        JsonObject, Kind, ReloadPlan, Resource, ResourceId, Secret, Severity, SourceTexts,
        ValueSource, check_name, check_schema, codes, kinds, pattern_fault, reason,
    };
}

/// Model clients.
pub mod models {
    pub use goondan_models::{CassetteMask, ModelProviders, record, scripted};
}

//! Tools, extensions and connectors in JavaScript, TypeScript and Python. They run in a process of
//! their runtime, called a host.
//!
//! All modules of a package share one host, which starts with the first call ([`ScriptModules`]). In it,
//! a small shim loads the modules and runs their handlers. Both sides exchange lines of JSON over
//! separate descriptors (`wire`), so printed output is never parsed as an answer but logged. Calls
//! run concurrently.
//!
//! In all cases a call ends: with its result, with the thrown error, or with one of the `E_HOST_…`
//! codes of `goondan_spec::Code`. A host that dies is restarted by the next call, with increasing
//! delays. A host with a call that does not end accepts no further calls, and ends after its other
//! calls. If a file has changed when a tool is reopened, the new handlers get a new host. The old
//! host ends after its last call.
//!
//! Calls, extensions and connectors exchange the messages of `goondan_core::plugin_session`; this
//! crate transports them (`transport.rs`). An extension registers in its host once per instance
//! (`extension.rs`). A connector has its own process, which exists as long as its function runs
//! (`connector.rs`). The caller decides if and when it is restarted.
//!
//! The crate does not start or sandbox programs itself: that is the task of the port
//! [`HostPrograms`].

#![allow(missing_docs, reason = "internal crate")]

mod connector;
mod errors;
mod extension;
mod handler;
mod host;
mod pool;
mod process;
mod programs;
mod result_type_errors;
mod runtimes;
mod shim;
mod source;
mod transport;
mod wire;

pub use programs::{HostProgram, HostPrograms, RunningHost, RuntimeStreams};
pub use runtimes::{
    RuntimeFound, find_runtime, installed, problem, program_version, reads_typescript,
    typescript_problem,
};
pub use source::ScriptModules;

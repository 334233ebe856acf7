//! Tools, extensions and connectors written in JavaScript, TypeScript and Python: they run in a process of their runtime, a host.
//!
//! All modules of a package share one host, and it starts with the first call ([`Modules`]). In it a small shim of ours
//! loads the modules and runs their handlers; both sides speak in lines of JSON over descriptors of their own (`wire`), so
//! that what a module prints is never mistaken for an answer (it becomes log lines). Calls run at the same time.
//!
//! Whatever a module does, a call ends: with its result, with what it threw, or with one of the `E_HOST_…` codes of
//! `goondan_spec::Code`. A host that dies is started again by the next call, a little later each time. One in which a call
//! does not end takes no further calls and ends with the last of those that it has. Where a file has changed when a tool is
//! opened again, the new handlers get a new host, and the old one ends with its last call.
//!
//! An extension registers in its host for each instance, and its layers talk with the engine while they run. How is the same
//! for all extensions that are spoken with in messages (`goondan_core::layering`); here is who carries them (`extension.rs`).
//!
//! A connector has a process of its own, which lives as long as its function runs (`connector.rs`). What it asks is answered in the
//! same way for all (`goondan_core::connecting`). Whoever runs it decides whether and when it is started again.
//!
//! What this crate does not know: how programs are contained and ended. That is behind the port [`HostPrograms`].

mod attended;
mod calls;
mod connector;
mod errors;
mod extension;
mod handler;
mod host;
mod misfits;
mod operations;
mod pool;
mod process;
mod programs;
mod runtimes;
mod shim;
mod source;
mod wire;

pub use programs::{HostProgram, HostPrograms, RunningHost, Streams};
pub use runtimes::{RuntimeFound, found, installed, problem};
pub use source::Modules;

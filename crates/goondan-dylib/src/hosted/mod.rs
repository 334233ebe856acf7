//! `isolation: process`: runs a library in its own host process.

mod child;
mod library;
pub(crate) mod protocol;

pub use child::HostCommand;
pub(crate) use child::{FullQueuePolicy, HostProcess, StartedHostProcess};
pub(crate) use library::HostedLibrary;

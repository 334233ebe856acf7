//! `isolation: process`: a library in a host process of its own.

mod backoff;
mod child;
mod library;
pub(crate) mod protocol;

pub use child::HostCommand;
pub(crate) use child::{Hearing, HostProcess, Started};
pub(crate) use library::HostedLibrary;

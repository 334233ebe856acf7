//! Drives the `gdn` binary as a person, a script or another program does.

#![allow(clippy::unwrap_used, reason = "a test may end with a panic, in its helpers too")]

#[cfg(unix)]
mod build;
mod cases;
mod chain;
#[cfg(unix)]
mod chat;
mod documentation;
mod explain;
mod help;
#[cfg(unix)]
mod hostile;
mod init;
mod instances;
mod later;
mod limits;
mod misuse;
mod new;
mod parents;
#[cfg(unix)]
mod person;
#[cfg(unix)]
mod privacy;
mod projects;
mod run;
mod safety;
mod sandbox;
mod schema;
mod signals;
mod stream;
#[cfg(unix)]
mod terminal;
mod tool;
#[cfg(unix)]
mod trust;
mod validate;
#[cfg(unix)]
mod watch;
mod workspaces;

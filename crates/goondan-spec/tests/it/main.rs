//! Loading of bundles as others see it: from files to a bundle, or to diagnostics.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod again;
mod attacks;
mod broken;
mod connections;
mod documentation;
#[cfg(unix)]
mod file_system;
mod habits;
mod loading;
mod names;
mod packages;
mod properties;
mod reference;
mod renderings;
mod schemas;
mod support;
mod swarms;
mod workdirs;

//! Tests of the public loading API: from files to a bundle, or to diagnostics.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod attacks;
mod cached_load;
mod common_mistakes;
mod connections;
mod documentation;
mod field_names;
#[cfg(unix)]
mod file_system;
mod invalid_projects;
mod loading;
mod packages;
mod properties;
mod reference;
mod renderings;
mod schemas;
mod support;
mod swarms;
mod working_directories;

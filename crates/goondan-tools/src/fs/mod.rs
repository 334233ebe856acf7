//! `fs`: read, search and change files of the working directory, one file an export.

mod edit;
mod glob;
mod grep;
mod lines;
mod ls;
mod patch;
mod read;
mod search;
mod walk;
mod write;

use std::sync::Arc;

use goondan_runtime::spec::kinds::Permission::{Read, Write};

use crate::define::Export;
use crate::table::Builtin;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "fs",
    about: "Reads, searches and changes files inside the working directory.",
    config: &[],
    error_message_limit: Some(2000),
    timeout: None,
    open: |opening| {
        opening.no_config()?;
        let none = Arc::new(());
        Ok(vec![
            Export::new::<read::Read>("read", &none).needs(Read).read_only(),
            Export::new::<write::Write>("write", &none).needs(Write).idempotent(),
            Export::new::<edit::Edit>("edit", &none).needs(Write),
            Export::new::<patch::ApplyPatch>("apply_patch", &none).needs(Write),
            Export::new::<grep::Grep>("grep", &none).needs(Read).read_only(),
            Export::new::<glob::Glob>("glob", &none).needs(Read).read_only(),
            Export::new::<ls::Ls>("ls", &none).needs(Read).read_only(),
        ])
    },
};

/// The working directory, where no path is given.
fn here() -> String {
    ".".to_owned()
}

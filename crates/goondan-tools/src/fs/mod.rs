//! `fs`: reads, searches and changes files of the working directory, with one module per export.

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

use goondan_spec::kinds::Permission::{Read, Write};

use crate::define::Export;
use crate::paths::Roots;
use crate::table::Builtin;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "fs",
    about: "Reads, searches and changes files inside the working directory.",
    config: Roots::CONFIG,
    error_message_limit: Some(2000),
    // Large enough for the largest page of a file with line numbers.
    output_limit: Some(600_000),
    open: |opening| {
        let roots: Arc<Roots> = Arc::new(opening.config()?);
        Ok(vec![
            Export::new::<read::Read>("read", &roots)
                .needs(Read)
                .read_only(),
            Export::new::<write::Write>("write", &roots)
                .needs(Write)
                .idempotent(),
            Export::new::<edit::Edit>("edit", &roots).needs(Write),
            Export::new::<patch::ApplyPatch>("apply_patch", &roots).needs(Write),
            Export::new::<grep::Grep>("grep", &roots)
                .needs(Read)
                .read_only(),
            Export::new::<glob::Glob>("glob", &roots)
                .needs(Read)
                .read_only(),
            Export::new::<ls::Ls>("ls", &roots).needs(Read).read_only(),
        ])
    },
    ..Builtin::BLANK
};

/// The working directory, which is the default path.
fn here() -> String {
    ".".to_owned()
}

//! One tool step with each form of a tool.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Setup;
use super::conversation::one_step;
use crate::figures::Run;
use crate::gdn::Gdn;
use crate::projects;

const STEPS: usize = 200;

/// Form → the call that is made.
const FORMS: [(&str, &str); 6] = [
    (
        "built_in_step",
        r#"text-transform__slice:{"text":"x","start":0,"end":0}"#,
    ),
    ("library_step", "here__current:{}"),
    ("child_process_step", "hosted__current:{}"),
    (
        "executable_step",
        r#"custom-tools__run:{"tool_name":"hello"}"#,
    ),
    // The same program by a shell, and as what a pattern allows: without a shell, in a sandbox.
    ("shell_line_step", r#"bash__exec:{"command":"uname -s"}"#),
    ("allowed_line_step", r#"bash__exec:{"command":"uname -r"}"#),
];

/// The median step of each form, beyond the model's raw round trip.
pub(super) fn each_form(setup: &Setup) -> anyhow::Result<Run> {
    let library = library(&setup.gdn.program)?;
    let mut run = Run::default();
    for (name, call) in FORMS {
        let behaviour = format!("calls:{STEPS}:{call}");
        projects::every_form(
            &setup.project,
            &setup.server.endpoint(),
            &behaviour,
            &library,
        )?;
        // Each with a conversation of its own.
        let gdn = Gdn {
            state: setup.gdn.state.join(name),
            ..setup.gdn.clone()
        };
        run = run.millis(name, one_step(&gdn, setup, STEPS).context(name)?);
    }
    Ok(run)
}

/// The example library, built beside the command.
fn library(program: &Path) -> anyhow::Result<PathBuf> {
    let folder = program.parent().context("the command is in a folder")?;
    let library = folder.join("libcounter.so");
    anyhow::ensure!(
        library.exists(),
        "{} is not there: `cargo build --release -p counter`",
        library.display()
    );
    Ok(library)
}

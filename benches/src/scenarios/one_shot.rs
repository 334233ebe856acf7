//! Commands that start, do one thing, and end.

use anyhow::Context;

use super::Setup;
use crate::figures::Run;
use crate::projects;
use crate::server::round_trip;

/// From the start of the process to the first model request, and to the end.
pub(super) fn start(setup: &Setup) -> anyhow::Result<Run> {
    projects::one_agent(
        &setup.project,
        &setup.server.endpoint(),
        "text",
        &["Tool/file-system", "Tool/text-transform"],
    )?;
    let project = setup
        .project
        .to_str()
        .context("the project's path is no text")?;
    let (began, whole) = setup
        .gdn
        .run(&["run", project, "--input", "hello", "--yes", "-q"])?;
    let exchanges = setup.server.take();
    let first = exchanges.first().context("the model was not asked")?;
    let raw = round_trip(setup.server.address(), first.bytes, 50)?;
    Ok(Run::default()
        .millis("first_request", first.came - began)
        .millis("after_answer", whole.saturating_sub(first.left - began))
        .millis("whole", whole)
        .millis("raw_round_trip", raw))
}

/// Checks that many resources.
pub(super) fn validate(setup: &Setup, tools: usize) -> anyhow::Result<Run> {
    projects::many_resources(&setup.project, tools)?;
    let project = setup
        .project
        .to_str()
        .context("the project's path is no text")?;
    let (_, whole) = setup.gdn.run(&["validate", project, "-q"])?;
    Ok(Run::default().millis("whole", whole))
}

//! `gdn build`, and builds before a start (`--build`).

use std::path::Path;

use clap::Args;
use goondan::internal::{render, untrusted_text};
use goondan::spec::kinds::ToolBuild;
use goondan::spec::{Code, Diagnostic};
use goondan::{BuildEnd, BuildOutcome, Project, StateRoot, ToolBuilds};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::commands::run::{SignalReceiver, run_with_signals};
use crate::complete;
use crate::exit::{CliError, CommandExit};
use crate::output::{ActivitySpinner, CommandOutput, style};
use crate::project::{self, as_json};
use crate::project_path::ProjectPathArg;
use crate::trust::TrustSettings;

const EXAMPLES: &str = "\
Examples:
  gdn build                          Build all tools and extensions of the project in this directory
  gdn build my-swarm --tool dice     Build one tool
  gdn build -v                       Show the output of the commands while they run
  gdn run --build --input \"Hi\"       Build, then run";

/// Arguments of `gdn build`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Build this tool or extension; may be repeated [default: all that have a `spec.build`]
    #[arg(short, long = "tool", value_name = "NAME", add = complete::builds())]
    tools: Vec<String>,
    /// Trust the project for this run
    #[arg(long)]
    trust: bool,
}

/// Builds tools and extensions and reports the outcomes.
pub(crate) async fn run(
    args: &BuildArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let trust = TrustSettings::new(state_root, args.trust);
    run_with_signals(async |mut signals| {
        let project = args.project.find(output)?;
        let outcomes = build_selected(&project, &args.tools, &trust, &mut signals, output).await?;
        if output.json {
            output.json_pretty(&outcomes.iter().map(outcome_json).collect::<Vec<_>>())?;
        } else if outcomes.is_empty() {
            output.note(
                "Nothing to build: no Tool, Extension or Connector of the project has \
                `spec.build`.",
            )?;
        }
        let good = style::GOOD;
        for outcome in outcomes
            .iter()
            .filter(|outcome| outcome.is_built() && !output.json)
        {
            let seconds = outcome.duration.as_secs_f32();
            output.line(&format!(
                "{good}Built{good:#} {} in {seconds:.1} s",
                untrusted_text::line(&outcome.tool)
            ))?;
        }
        require_success(&outcomes)?;
        check_entries(&project, &outcomes, output)
    })
    .await
}

/// Builds all tools and extensions of a project (`--build`). Fails if one build fails.
pub(crate) async fn before_start(
    project: &Path,
    trust: &TrustSettings,
    signals: &mut SignalReceiver,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let outcomes = build_selected(project, &[], trust, signals, output).await?;
    require_success(&outcomes)
}

/// Builds the named tools, or all if `names` is empty. Shows the output of failed builds.
async fn build_selected(
    path: &Path,
    names: &[String],
    trust: &TrustSettings,
    signals: &mut SignalReceiver,
    output: &CommandOutput,
) -> Result<Vec<BuildOutcome>, CliError> {
    let project = project::load(path)?;
    refuse_other_mistakes(&project, output)?;
    let builds = ToolBuilds::of_project(&project);
    let chosen = select_builds(&builds, names)?;
    if !chosen.is_empty() {
        trust.require(&project, output)?;
    }
    let mut outcomes = Vec::new();
    for tool in chosen {
        let outcome = build_one(&builds, tool, signals, output).await?;
        let shown_already = output.verbose > 0 || outcome.output.trim().is_empty();
        if !outcome.is_built() && !shown_already {
            output.trace(&untrusted_text::lines(outcome.output.trim_end()).to_string())?;
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Builds one tool and shows its progress. A signal cancels the build and fails.
async fn build_one(
    builds: &ToolBuilds,
    tool: &ToolBuild,
    signals: &mut SignalReceiver,
    output: &CommandOutput,
) -> Result<BuildOutcome, CliError> {
    output.note(&format!(
        "Building {}: {}",
        untrusted_text::line(&tool.tool),
        untrusted_text::line(&tool.build.command)
    ))?;
    let mut activity = ActivitySpinner::new(output);
    activity.show(format!("building {}", tool.tool));
    let cancellation = CancellationToken::new();
    let mut on_line = |line: &str| {
        match output.verbose {
            0 => activity.show(format!("building {}  {line}", tool.tool)),
            // Standard error may be closed; there is no other place to report that.
            _ => drop(output.trace(&untrusted_text::lines(line).to_string())),
        }
    };
    let mut building = std::pin::pin!(builds.run(tool, &cancellation, &mut on_line));
    tokio::select! {
        outcome = &mut building => Ok(outcome),
        signal = signals.next() => {
            cancellation.cancel();
            building.await;
            Err(CliError::stopped(signal.exit(), format!("The build of {} was stopped.", tool.tool)))
        }
    }
}

/// Returns the builds with these names (`dice`, `Tool/dice`), or all builds if there are none.
fn select_builds<'b>(
    builds: &'b ToolBuilds,
    names: &[String],
) -> Result<Vec<&'b ToolBuild>, CliError> {
    if names.is_empty() {
        return Ok(builds.tools().collect());
    }
    let find = |name: &String| {
        let resource_name = name
            .strip_prefix("Tool/")
            .or_else(|| name.strip_prefix("Extension/"))
            .unwrap_or(name);
        builds
            .tools()
            .find(|tool| tool.tool.name == resource_name)
            .ok_or_else(|| unknown_build_error(name, builds))
    };
    names.iter().map(find).collect()
}

/// Returns the error of a name without a build. It lists the names with a build.
fn unknown_build_error(name: &str, builds: &ToolBuilds) -> CliError {
    let names: Vec<String> = builds
        .tools()
        .map(|tool| format!("`{}`", tool.tool.name))
        .collect();
    let error = CliError::usage(format!(
        "There is no Tool or Extension `{name}` with a `spec.build`."
    ));
    if names.is_empty() {
        error.suggest("Add `spec.build` with the build command.")
    } else {
        error.suggest(format!("Use one of: {}.", names.join(", ")))
    }
}

/// Fails if the project has errors other than missing entries, which a build can create.
fn refuse_other_mistakes(project: &Project, output: &CommandOutput) -> Result<(), CliError> {
    let other_errors: Vec<Diagnostic> = project
        .diagnostics
        .iter()
        .filter(|problem| problem.is_error() && !is_missing_entry(problem, &project.builds))
        .cloned()
        .collect();
    if other_errors.is_empty() {
        return Ok(());
    }
    output.explain(
        render::pretty(
            &other_errors,
            &project.sources,
            CommandOutput::stderr_has_colour(),
        )
        .trim_end_matches('\n'),
    )?;
    Err(project::invalid_project_error(&other_errors))
}

/// Returns true if the error is the missing entry file of one of the builds.
fn is_missing_entry(problem: &Diagnostic, builds: &[ToolBuild]) -> bool {
    problem.code == Code::ENTRY_NOT_FOUND
        && problem.field.as_deref() == Some("spec.entry")
        && builds
            .iter()
            .any(|build| problem.resource.as_ref() == Some(&build.tool.to_string()))
}

/// Fails if a build failed; the error names the failed builds.
fn require_success(outcomes: &[BuildOutcome]) -> Result<(), CliError> {
    let failed: Vec<&BuildOutcome> = outcomes
        .iter()
        .filter(|outcome| !outcome.is_built())
        .collect();
    let message = match failed.as_slice() {
        [] => return Ok(()),
        [outcome] => format!("The build of {} failed: {}.", outcome.tool, outcome.end),
        failures => {
            let names: Vec<String> = failures
                .iter()
                .map(|outcome| outcome.tool.to_string())
                .collect();
            format!("{} builds failed: {}.", failures.len(), names.join(", "))
        }
    };
    let hint = if failed
        .iter()
        .any(|outcome| matches!(outcome.end, BuildEnd::NotStarted(_)))
    {
        "Correct the command in `spec.build`, or install the programs that it needs."
    } else {
        "Fix the errors above, then build again."
    };
    Err(CliError::failure(Code::BUILD_FAILED, message).suggest(hint))
}

/// Fails if an entry is still missing: a command can succeed and create something else.
fn check_entries(
    path: &Path,
    outcomes: &[BuildOutcome],
    output: &CommandOutput,
) -> Result<(), CliError> {
    let project = project::load(path)?;
    let was_built = |build: &&ToolBuild| outcomes.iter().any(|outcome| outcome.tool == build.tool);
    let built: Vec<ToolBuild> = project.builds.iter().filter(was_built).cloned().collect();
    let missing_entries: Vec<Diagnostic> = project
        .diagnostics
        .iter()
        .filter(|problem| is_missing_entry(problem, &built))
        .cloned()
        .collect();
    let Some(first) = missing_entries.first() else {
        return Ok(());
    };
    output.explain(
        render::pretty(
            &missing_entries,
            &project.sources,
            CommandOutput::stderr_has_colour(),
        )
        .trim_end_matches('\n'),
    )?;
    let tool = first.resource.as_deref().unwrap_or_default();
    let message = format!(
        "The build command of {tool} succeeded, but did not create the file in `spec.entry`."
    );
    let mut error = CliError::new(CommandExit::Validation, Code::BUILD_FAILED, message).suggest(
        "Correct `spec.entry`, or change the command so that it writes the library \
            there.",
    );
    error.diagnostics = as_json(&missing_entries).into();
    Err(error)
}

fn outcome_json(outcome: &BuildOutcome) -> Value {
    let status = match &outcome.end {
        BuildEnd::Built => "built",
        BuildEnd::Failed(_) => "failed",
        BuildEnd::NotStarted(_) => "notStarted",
        BuildEnd::TimedOut(_) => "timedOut",
        BuildEnd::Cancelled => "cancelled",
    };
    json!({
        "tool": outcome.tool.to_string(),
        "command": outcome.command,
        "status": status,
        "durationMs": u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        "output": outcome.output,
    })
}

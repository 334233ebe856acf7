//! `gdn validate`: validates a project and reports all errors.

mod fix;

use clap::{Args, ValueEnum};
use goondan::internal::render;
use goondan::internal::{DEFER_TOKENS, OPTIONAL_ENV_FILES};
use goondan::spec::kinds::Agent;
use goondan::spec::{Bundle, Code, Diagnostic, Environment, Resource, ResourceId};
use goondan::start::checks::{startability, typescript_problems, unread_files};
use goondan::{Project, StateRoot, Swarm};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::commands::mcp::{ProjectMcpServers, connect_to_all};
use crate::commands::tool_host;
use crate::exit::{CliError, CommandExit};
use crate::output::CommandOutput;
use crate::project;
use crate::project_path::ProjectPathArg;
use crate::trust::TrustSettings;

const EXAMPLES: &str = "\
Examples:
  gdn validate                       Check the project in this directory
  gdn validate my-swarm --strict     Also fail on warnings
  gdn validate -o short              Print one line per error or warning
  gdn validate --open                Also load its libraries
  gdn validate --fix                 Apply safe fixes, and list them
  gdn validate --fix --dry-run       Show the changes as a diff
  gdn validate --expand              Print all resources, with short forms written out
  gdn validate --connect             Also connect to the project's MCP servers
  gdn validate -o github             Annotate a pull request";

/// Arguments of `gdn validate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    project: ProjectPathArg,
    /// Print errors and warnings in this format [default: pretty, or json with --json]
    #[arg(
        short = 'o',
        long = "output-format",
        visible_alias = "format",
        value_enum,
        value_name = "FORMAT"
    )]
    format: Option<DiagnosticFormat>,
    /// Fail on warnings as well
    #[arg(long)]
    strict: bool,
    /// Apply safe fixes, such as to misspelled names, and list them
    #[arg(long)]
    fix: bool,
    /// Show what `--fix` would change, without changing it
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Print all resources as YAML, with short forms written out and secrets masked
    #[arg(long, conflicts_with_all = ["fix", "format"])]
    expand: bool,
    /// Load the libraries of a trusted project and report their errors
    #[arg(long)]
    open: bool,
    /// Connect to the MCP servers of a trusted project and report their errors
    #[arg(long)]
    connect: bool,
}

/// Format of errors and warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DiagnosticFormat {
    /// With the YAML lines they refer to.
    #[value(alias = "text")]
    Pretty,
    /// One line per error or warning.
    Short,
    /// One JSON object: valid, errors, warnings.
    Json,
    /// Workflow commands of GitHub Actions.
    Github,
}

/// Validates a project. Diagnostics are the result, so they are written to standard output.
pub(crate) async fn run(
    args: &ValidateArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let path = args.project.find(output)?;
    if args.expand {
        return print_expanded(&path, output);
    }
    let mut project = project::load(&path)?;
    let repairs = if args.fix {
        fix::fix(&project.root, args.dry_run, output)?
    } else {
        Vec::new()
    };
    if !repairs.is_empty() {
        project = project::load(&path)?;
    }
    let mut diagnostics = project.diagnostics.clone();
    let trust = TrustSettings::new(state_root, false);
    diagnostics.extend(unread_files(&project.root));
    match trust.environment(&project.root) {
        Ok(environment) => {
            diagnostics.extend(goondan::check(&project, &environment));
            extend_new(
                &mut diagnostics,
                start_problems(&project, &environment, state_root).await,
            );
        }
        Err(problem) => diagnostics.push(problem),
    }
    if !trust.is_given(&project.root)? {
        mention_unread_variables(&project.root, &mut diagnostics);
    }
    if let (true, Some(bundle)) = (args.open, project.bundle.clone()) {
        trust.require(&project, output)?;
        let library_problems = library_diagnostics(&bundle, state_root).await;
        extend_new(&mut diagnostics, library_problems);
    }
    if let (true, Some(bundle)) = (args.connect, project.bundle.clone()) {
        trust.require(&project, output)?;
        diagnostics.extend(server_diagnostics(bundle, state_root).await?);
    }
    let diagnostics = &diagnostics;
    let format = args.format.unwrap_or(if output.json {
        DiagnosticFormat::Json
    } else {
        DiagnosticFormat::Pretty
    });
    match format {
        DiagnosticFormat::Pretty if diagnostics.is_empty() => {
            let bundle = project.bundle.as_ref();
            let inventory = bundle.map(|bundle| format!(": {}", bundle.inventory()));
            output.piece(&format!("No problems{}.\n", inventory.unwrap_or_default()))
        }
        DiagnosticFormat::Pretty => output.piece(&render::pretty(
            diagnostics,
            &project.sources,
            CommandOutput::stdout_has_colour(),
        )),
        DiagnosticFormat::Short => output.piece(&render::short(diagnostics)),
        DiagnosticFormat::Json => {
            let mut report = report(diagnostics);
            if args.fix {
                report["fixed"] = fix::report(&repairs).into();
            }
            output.json_pretty(&report)
        }
        DiagnosticFormat::Github => output.piece(&render::github(diagnostics)),
    }?;
    let fails = diagnostics
        .iter()
        .any(|diagnostic| args.strict || diagnostic.is_error());
    // The process ends now; freeing a large project piece by piece would only take time.
    std::mem::forget(project);
    if fails {
        Err(CliError::already_printed(CommandExit::Validation))
    } else {
        Ok(())
    }
}

/// Prints the resources of a project as YAML, or its errors.
fn print_expanded(path: &Path, output: &CommandOutput) -> Result<(), CliError> {
    let (project, written) = goondan::internal::expand(path);
    if project.bundle.is_some() {
        return output.foreign(&written);
    }
    output.piece(&render::pretty(
        &project.diagnostics,
        &project.sources,
        CommandOutput::stdout_has_colour(),
    ))?;
    Err(CliError::already_printed(CommandExit::Validation))
}

/// Loads the libraries that the swarms use and returns the diagnostics.
async fn library_diagnostics(bundle: &Arc<Bundle>, state_root: &StateRoot) -> Vec<Diagnostic> {
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    for swarm in bundle.swarms().keys() {
        let builder = Swarm::builder(Arc::clone(bundle))
            .state_root(&state_root.0)
            .swarm(&swarm.name);
        let builder = tool_host::command()
            .into_iter()
            .fold(builder, |builder, host| builder.tool_host(host));
        extend_new(&mut diagnostics, builder.open_to_check().await);
    }
    diagnostics
}

/// Returns the problems that a start of the swarms would report. Nothing of the project is run.
async fn start_problems(
    project: &Project,
    environment: &Environment,
    state_root: &StateRoot,
) -> Vec<Diagnostic> {
    let Some(bundle) = &project.bundle else {
        return Vec::new();
    };
    let mut problems = startability(bundle, environment, state_root).await;
    problems.extend(typescript_problems(bundle).await);
    problems
}

/// Adds to each missing variable that the environment files of an untrusted project are not read.
fn mention_unread_variables(root: &Path, diagnostics: &mut [Diagnostic]) {
    let Some(file) = OPTIONAL_ENV_FILES
        .into_iter()
        .find(|file| root.join(file).exists())
    else {
        return;
    };
    let missing_values = diagnostics
        .iter_mut()
        .filter(|problem| matches!(problem.code, Code::ENV_MISSING | Code::NOT_READY));
    for suggestion in missing_values.filter_map(|problem| problem.suggestion.as_mut()) {
        let end = suggestion.trim_end_matches('.').len();
        suggestion.truncate(end);
        suggestion.push_str(&format!(
            "; `{file}` is only read in a trusted project: run `gdn trust`"
        ));
    }
}

/// Adds the problems that are not reported yet.
fn extend_new(diagnostics: &mut Vec<Diagnostic>, problems: Vec<Diagnostic>) {
    for problem in problems {
        if !is_reported(diagnostics, &problem) {
            diagnostics.push(problem);
        }
    }
}

/// Returns true if `known` already contains the problem, at any position.
fn is_reported(known: &[Diagnostic], problem: &Diagnostic) -> bool {
    let is_same = |one: &Diagnostic| {
        one.resource == problem.resource
            && (one.message == problem.message
                || (one.code == problem.code
                    && matches!(one.code, Code::ENV_MISSING | Code::ENTRY_NOT_FOUND)))
    };
    known.iter().any(is_same)
}

/// Connects to the project's MCP servers and returns the diagnostics.
async fn server_diagnostics(
    bundle: Arc<Bundle>,
    state_root: &StateRoot,
) -> Result<Vec<Diagnostic>, CliError> {
    let servers = ProjectMcpServers::new(bundle, None, true, state_root).await?;
    let mut diagnostics = Vec::new();
    let mut sizes = BTreeMap::new();
    for (tool, lookup) in connect_to_all(&servers).await {
        sizes.insert(
            tool.id.clone(),
            lookup
                .as_ref()
                .map(|lookup| lookup.catalog.tokens())
                .unwrap_or_default(),
        );
        let problems = match lookup {
            Ok(lookup) => lookup
                .catalog
                .notes
                .into_iter()
                .map(|note| (note, None))
                .collect(),
            Err(error) => vec![(format!("{}.", error.message), error.suggestion)],
        };
        for (message, suggestion) in problems {
            let mut diagnostic = Diagnostic::new(Code::MCP_CATALOG, message)
                .of(&tool.id)
                .field("spec.mcp");
            diagnostic.suggestion = suggestion;
            if let Some((file, position)) = &tool.origin {
                let position = servers
                    .bundle
                    .place(&tool.id, "spec.mcp")
                    .unwrap_or(*position);
                diagnostic = diagnostic.in_file(file.clone()).at(position);
            }
            diagnostics.push(diagnostic);
        }
    }
    diagnostics.extend(
        servers
            .bundle
            .agents()
            .values()
            .filter_map(|agent| tool_size_warning(agent, &sizes)),
    );
    Ok(diagnostics)
}

/// Returns a warning if an agent has more MCP tools than it is offered at once.
fn tool_size_warning(
    agent: &Resource<Agent>,
    sizes: &BTreeMap<ResourceId, usize>,
) -> Option<Diagnostic> {
    let undecided = agent.spec.tools.iter().filter(|used| used.defer.is_none());
    let tokens: usize = undecided.filter_map(|used| sizes.get(&used.tool)).sum();
    if tokens <= DEFER_TOKENS {
        return None;
    }
    let message = format!(
        "The MCP tools of {} take about {tokens} tokens per request, more than {DEFER_TOKENS}, \
            so the model must search for them.",
        agent.id
    );
    let diagnostic = Diagnostic::new(Code::MCP_CATALOG, message)
        .of(&agent.id)
        .field("spec.tools");
    let diagnostic = diagnostic
        .suggest("set `defer: true` or `defer: false` in `spec.tools`, or select `exports`");
    Some(match &agent.origin {
        Some((file, at)) => diagnostic.in_file(file.clone()).at(*at),
        None => diagnostic,
    })
}

/// Returns the diagnostics as JSON.
fn report(diagnostics: &[Diagnostic]) -> Value {
    let (errors, warnings): (Vec<&Diagnostic>, Vec<&Diagnostic>) = diagnostics
        .iter()
        .partition(|diagnostic| diagnostic.is_error());
    json!({ "valid": errors.is_empty(), "errors": errors, "warnings": warnings })
}

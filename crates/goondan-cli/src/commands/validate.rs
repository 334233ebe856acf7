//! `gdn validate`.

mod fix;

use clap::{Args, ValueEnum};
use goondan::inside::DEFER_TOKENS;
use goondan::inside::render;
use goondan::spec::kinds::Agent;
use goondan::spec::{Bundle, Code, Diagnostic, Resource, ResourceId};
use goondan::{StateRoot, Swarm};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::commands::mcp::{Servers, reach};
use crate::commands::tool_host;
use crate::exit::{CliError, Exit};
use crate::output::Output;
use crate::place::ProjectPath;
use crate::project;
use crate::trust::Trust;

const EXAMPLES: &str = "\
Examples:
  gdn validate                       Check the project in this folder
  gdn validate my-swarm --strict     Fail on warnings, too
  gdn validate --format short        Print one line per problem, for editors and grep
  gdn validate --open                Load its libraries, too
  gdn validate --fix                 Repair what is plain, and say what was changed
  gdn validate --fix --dry-run       Show the changes as a diff
  gdn validate --connect             Reach the project's MCP servers, too
  gdn validate --format github       Annotate a pull request";

/// Arguments of `gdn validate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    project: ProjectPath,
    /// Print problems in this format [default: pretty, or json with --json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Fail on warnings, too
    #[arg(long)]
    strict: bool,
    /// Repair what is plain, such as misspelt names, and say what was changed
    #[arg(long)]
    fix: bool,
    /// Show what `--fix` would change, and change nothing
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Load the libraries of a trusted project, too, and tell what is wrong with them
    #[arg(long)]
    open: bool,
    /// Reach the MCP servers of a trusted project, too, and tell what is wrong with them
    #[arg(long)]
    connect: bool,
}

/// How problems are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// With the lines of YAML that they are about.
    Pretty,
    /// One line each.
    Short,
    /// One object: valid, errors, warnings.
    Json,
    /// Workflow commands of GitHub Actions.
    Github,
}

/// Checks a project. The problems are the result, so they go to standard output.
pub(crate) async fn run(
    args: &ValidateArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    let path = args.project.find(output)?;
    let mut project = project::load(&path)?;
    let repairs = match args.fix {
        true => fix::fix(&project.root, args.dry_run, output)?,
        false => Vec::new(),
    };
    if !repairs.is_empty() {
        project = project::load(&path)?;
    }
    let mut diagnostics = project.diagnostics.clone();
    let trust = Trust::new(state_root, false);
    match trust.environment(&project.root) {
        Ok(environment) => diagnostics.extend(goondan::check(&project, &environment)),
        Err(problem) => diagnostics.push(problem),
    }
    if let (true, Some(bundle)) = (args.open, project.bundle.clone()) {
        trust.require(&project, output)?;
        let found = opened(&bundle, state_root).await;
        let new: Vec<Diagnostic> = found
            .into_iter()
            .filter(|problem| !is_told(&diagnostics, problem))
            .collect();
        diagnostics.extend(new);
    }
    if let (true, Some(bundle)) = (args.connect, project.bundle.clone()) {
        trust.require(&project, output)?;
        diagnostics.extend(unreached(bundle, state_root).await?);
    }
    let diagnostics = &diagnostics;
    let format = args.format.unwrap_or(if output.json {
        Format::Json
    } else {
        Format::Pretty
    });
    match format {
        Format::Pretty => output.piece(&render::pretty(
            diagnostics,
            &project.sources,
            Output::stdout_has_colour(),
        )),
        Format::Short => output.piece(&render::short(diagnostics)),
        Format::Json => {
            let mut report = report(diagnostics);
            if args.fix {
                report["fixed"] = fix::report(&repairs).into();
            }
            output.json_pretty(&report)
        }
        Format::Github => output.piece(&render::github(diagnostics)),
    }?;
    let fails = diagnostics
        .iter()
        .any(|diagnostic| args.strict || diagnostic.is_error());
    // The program ends: what a large project holds need not be given back piece by piece.
    std::mem::forget(project);
    match fails {
        true => Err(CliError::shown(Exit::Validation)),
        false => Ok(()),
    }
}

/// What is found once the libraries that the swarms use are loaded.
async fn opened(bundle: &Arc<Bundle>, state_root: &StateRoot) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for swarm in bundle.swarms().keys() {
        let builder = Swarm::builder(Arc::clone(bundle))
            .state_root(&state_root.0)
            .swarm(&swarm.name);
        let builder = tool_host::command()
            .into_iter()
            .fold(builder, |builder, host| builder.tool_host(host));
        let new = builder.open_to_check().await;
        found.extend(
            new.into_iter()
                .filter(|problem| !is_told(&found, problem))
                .collect::<Vec<_>>(),
        );
    }
    found
}

/// Whether a problem is among those that are known.
fn is_told(known: &[Diagnostic], problem: &Diagnostic) -> bool {
    let same =
        |one: &Diagnostic| (&one.message, &one.resource) == (&problem.message, &problem.resource);
    known.iter().any(same)
}

/// What is wrong with the servers of a project.
async fn unreached(
    bundle: Arc<Bundle>,
    state_root: &StateRoot,
) -> Result<Vec<Diagnostic>, CliError> {
    let servers = Servers::new(bundle, None, true, state_root).await?;
    let (mut diagnostics, mut sizes) = (Vec::new(), BTreeMap::new());
    for (tool, look) in reach(&servers).await {
        sizes.insert(
            tool.id.clone(),
            look.as_ref()
                .map(|look| look.catalog.tokens())
                .unwrap_or_default(),
        );
        let problems = match look {
            Ok(look) => look
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
            if let Some((file, at)) = &tool.origin {
                let at = servers.bundle.place(&tool.id, "spec.mcp").unwrap_or(*at);
                diagnostic = diagnostic.in_file(file.clone()).at(at);
            }
            diagnostics.push(diagnostic);
        }
    }
    diagnostics.extend(
        servers
            .bundle
            .agents()
            .values()
            .filter_map(|agent| too_much(agent, &sizes)),
    );
    Ok(diagnostics)
}

/// That an agent has more tools of servers than it is offered at once.
fn too_much(agent: &Resource<Agent>, sizes: &BTreeMap<ResourceId, usize>) -> Option<Diagnostic> {
    let undecided = agent.spec.tools.iter().filter(|used| used.defer.is_none());
    let tokens: usize = undecided.filter_map(|used| sizes.get(&used.tool)).sum();
    if tokens <= DEFER_TOKENS {
        return None;
    }
    let message = format!(
        "The tools that {} has of MCP servers take about {tokens} tokens of every request, more than {DEFER_TOKENS}, so the \
         model has to look for them.",
        agent.id
    );
    let diagnostic = Diagnostic::new(Code::MCP_CATALOG, message)
        .of(&agent.id)
        .field("spec.tools");
    let diagnostic = diagnostic
        .suggest("say `defer: true` or `defer: false` in `spec.tools`, or choose `exports`");
    Some(match &agent.origin {
        Some((file, at)) => diagnostic.in_file(file.clone()).at(*at),
        None => diagnostic,
    })
}

/// One object: `valid`, `errors`, `warnings`.
fn report(diagnostics: &[Diagnostic]) -> Value {
    let (errors, warnings): (Vec<&Diagnostic>, Vec<&Diagnostic>) =
        diagnostics.iter().partition(|one| one.is_error());
    json!({ "valid": errors.is_empty(), "errors": errors, "warnings": warnings })
}

//! `gdn validate`.

use clap::{Args, ValueEnum};
use goondan::inside::render;
use goondan::spec::Diagnostic;
use serde_json::{Value, json};

use crate::exit::{CliError, Exit};
use crate::output::Output;
use crate::place::ProjectPath;
use crate::project;

const EXAMPLES: &str = "\
Examples:
  gdn validate                       Check the project in this folder
  gdn validate my-swarm --strict     Fail on warnings, too
  gdn validate --format short        Print one line per problem, for editors and grep
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
pub(crate) fn run(args: &ValidateArgs, output: &Output) -> Result<(), CliError> {
    let project = project::load(&args.project.find(output)?)?;
    let mut diagnostics = project.diagnostics.clone();
    diagnostics.extend(goondan::check(&project));
    let diagnostics = &diagnostics;
    let format = args.format.unwrap_or(if output.json { Format::Json } else { Format::Pretty });
    match format {
        Format::Pretty => output.piece(&render::pretty(diagnostics, &project.sources, Output::stdout_has_colour())),
        Format::Short => output.piece(&render::short(diagnostics)),
        Format::Json => output.json_pretty(&report(diagnostics)),
        Format::Github => output.piece(&render::github(diagnostics)),
    }?;
    let fails = diagnostics.iter().any(|diagnostic| args.strict || diagnostic.is_error());
    // The program ends: what a large project holds need not be given back piece by piece.
    std::mem::forget(project);
    match fails {
        true => Err(CliError::shown(Exit::Validation)),
        false => Ok(()),
    }
}

/// One object: `valid`, `errors`, `warnings`.
fn report(diagnostics: &[Diagnostic]) -> Value {
    let (errors, warnings): (Vec<&Diagnostic>, Vec<&Diagnostic>) = diagnostics.iter().partition(|one| one.is_error());
    json!({ "valid": errors.is_empty(), "errors": errors, "warnings": warnings })
}

//! `gdn test`.

mod live;
mod record;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use goondan::StateRoot;
use goondan_conformance::coverage::Coverage;
use goondan_conformance::discover::discover;
use goondan_conformance::report::{
    CaseReport, Outcome, Summary, case_error, case_line, closing_line, json, junit,
};
use goondan_conformance::{Options, run as run_cases};

use crate::exit::{CliError, Exit};
use crate::output::{Activity, Output, style};
use crate::place::around;
use crate::store::StoreArgs;

use self::live::LiveArgs;

const EXAMPLES: &str = "\
Examples:
  gdn test                                              Run all cases of the project around this folder
  gdn test tests/conformance                            Run all cases of a folder
  gdn test tests/conformance --filter queue --jobs 1    Run some of them, one by one
  gdn test tests/conformance --format junit > results.xml
  gdn test tests/conformance --coverage                 List the rules without a case
  gdn test evals --live --runs 5 --pass-rate 0.8        Evaluate real models
  gdn test record --instance assistant:main -o bees.case.yaml";

/// Arguments of `gdn test`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct TestArgs {
    #[command(subcommand)]
    command: Option<TestCommand>,
    /// Files with cases, or folders with *.case.yaml files [default: the project around this folder]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Run only cases whose name contains this text or matches it as a regular expression
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print results in this format [default: text, or json with --json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Run nothing, and list which rules have a case and which have none
    #[arg(long, conflicts_with_all = ["filter", "format", "jobs", "live"])]
    coverage: bool,
    /// Run this many cases at the same time [default: twice the number of cores, or 4 with --live]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    store: StoreArgs,
    /// Run each case on so many nodes that share the database
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        requires = "store",
        conflicts_with = "live"
    )]
    nodes: NonZeroUsize,
    #[command(flatten)]
    live: LiveArgs,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    /// Make a case of a conversation that has happened
    Record(record::RecordArgs),
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line a case, differences, a closing line.
    Text,
    /// One object.
    Json,
    /// XML, as CI services read it.
    Junit,
}

/// Runs cases. It blocks: every case has a runtime of its own.
pub(crate) fn run(
    args: &TestArgs,
    state_root: &StateRoot,
    output: &Output,
) -> Result<(), CliError> {
    if let Some(TestCommand::Record(args)) = &args.command {
        return record::run(args, state_root, output);
    }
    let paths = match args.paths.is_empty() {
        true => vec![around(output)?.unwrap_or_else(|| PathBuf::from("."))],
        false => args.paths.clone(),
    };
    if args.coverage {
        return coverage(&paths, output);
    }
    let mut options = Options {
        filter: args.filter.clone(),
        jobs: args.jobs,
        database: args.store.database()?,
        nodes: args.nodes.get(),
        tool_host: crate::commands::tool_host::command(),
        ..Options::new(paths)
    };
    args.live.apply(&mut options, state_root, output)?;
    let summary = match args.format.unwrap_or(if output.json {
        Format::Json
    } else {
        Format::Text
    }) {
        Format::Text => run_aloud(&options, output)?,
        Format::Json => run_silently(&options, output, |summary| output.json_text(&json(summary)))?,
        Format::Junit => run_silently(&options, output, |summary| output.foreign(&junit(summary)))?,
    };
    match summary.is_good() {
        true => Ok(()),
        false => Err(CliError::shown(Exit::Failure)),
    }
}

/// Prints each case as soon as it and all before it have ended.
fn run_aloud(options: &Options, output: &Output) -> Result<Summary, CliError> {
    let mut activity = Activity::new(output);
    let mut printed = Ok(());
    activity.show("running cases");
    let summary = run_cases(options, &mut |report| {
        activity.hide();
        if printed.is_ok() {
            printed = output.piece(&coloured(report));
        }
        activity.show("running cases");
    });
    activity.hide();
    printed?;
    for error in &summary.errors {
        output.piece(&paint(&case_error(error), style::ERROR))?;
    }
    let colour = if summary.is_good() {
        style::GOOD
    } else {
        style::ERROR
    };
    output.piece(&paint(&closing_line(&summary), colour))?;
    Ok(summary)
}

fn run_silently(
    options: &Options,
    output: &Output,
    print: impl FnOnce(&Summary) -> Result<(), CliError>,
) -> Result<Summary, CliError> {
    let mut activity = Activity::new(output);
    activity.show("running cases");
    let summary = run_cases(options, &mut |report| {
        activity.show(format!("ran {}", report.case))
    });
    activity.hide();
    print(&summary)?;
    Ok(summary)
}

fn coverage(paths: &[PathBuf], output: &Output) -> Result<(), CliError> {
    let found = discover(paths);
    let coverage = Coverage::of(found.cases.iter().map(|located| &located.case));
    match output.json {
        true => output.json_pretty(&coverage)?,
        false => output.piece(&coverage.render())?,
    }
    for error in &found.errors {
        output.trace(case_error(error).trim_end())?;
    }
    match found.errors.is_empty() {
        true => Ok(()),
        false => Err(CliError::shown(Exit::Failure)),
    }
}

/// A case's lines, the first word in a colour.
fn coloured(report: &CaseReport) -> String {
    let colour = match report.outcome {
        Outcome::Passed => style::GOOD,
        Outcome::Skipped(_) => style::WARNING,
        Outcome::Failed(_) => style::ERROR,
    };
    let lines = case_line(report);
    match lines.split_once(' ') {
        Some((word, rest)) => format!("{} {rest}", paint(word, colour)),
        None => lines,
    }
}

fn paint(text: &str, colour: anstyle::Style) -> String {
    format!("{colour}{text}{colour:#}")
}

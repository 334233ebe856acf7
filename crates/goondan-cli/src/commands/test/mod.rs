//! `gdn test`: runs test cases, and selects its subcommands.

mod live;
mod record;
mod watch;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use goondan::StateRoot;
use goondan_conformance::coverage::RuleCoverage;
use goondan_conformance::discover::discover;
use goondan_conformance::report::{
    CaseOutcome, CaseReport, RunSummary, case_error, case_line, closing_line, json, junit,
};
use goondan_conformance::{RunOptions, run as run_cases};

use crate::exit::{CliError, CommandExit};
use crate::output::{ActivitySpinner, CommandOutput, style};
use crate::project_path::find_around;
use crate::store::StoreArgs;

use self::live::TestLiveArgs;

const EXAMPLES: &str = "\
Examples:
  gdn test                                              Run all test cases of the project
  gdn test tests/conformance                            Run all test cases in a directory
  gdn test --watch                                      Run them again after each change
  gdn test tests/conformance --filter queue --jobs 1    Run some test cases, one at a time
  gdn test tests/conformance -o junit > results.xml
  gdn test tests/conformance --coverage                 List the rules without a test case
  gdn test evals --live --runs 5 --pass-rate 0.8        Evaluate real models
  gdn test record --instance assistant:main -o bees.case.yaml";

/// Arguments of `gdn test`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct TestArgs {
    #[command(subcommand)]
    command: Option<TestCommand>,
    /// Test case files, or directories with *.case.yaml files [default: the project around this
    /// directory]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Run only test cases whose name contains this string or matches it as a regular expression
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print results in this format [default: text, or json with --json]
    #[arg(
        short = 'o',
        long = "output-format",
        visible_alias = "format",
        value_enum,
        value_name = "FORMAT"
    )]
    format: Option<TestReportFormat>,
    /// List the rules with and without a test case, and run nothing
    #[arg(long, conflicts_with_all = ["filter", "format", "jobs", "live"])]
    coverage: bool,
    /// Run again after each change of a file
    #[arg(short, long, conflicts_with_all = ["coverage", "format", "live"])]
    watch: bool,
    /// Run this many test cases in parallel [default: twice the number of cores, or 4 with --live]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    store: StoreArgs,
    /// Run each test case on this many nodes that share the database
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        requires = "store",
        conflicts_with = "live"
    )]
    nodes: NonZeroUsize,
    #[command(flatten)]
    live: TestLiveArgs,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    /// Create a test case from a past conversation
    Record(record::TestRecordArgs),
}

/// Format of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TestReportFormat {
    /// One line per test case, with differences and a summary.
    Text,
    /// One JSON object.
    Json,
    /// JUnit XML for CI services.
    Junit,
}

/// Runs test cases. Blocks: each test case has its own runtime.
pub(crate) fn run(
    args: &TestArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    if let Some(TestCommand::Record(args)) = &args.command {
        return record::run(args, state_root, output);
    }
    let paths = if args.paths.is_empty() {
        vec![find_around(output)?.unwrap_or_else(|| PathBuf::from("."))]
    } else {
        args.paths.clone()
    };
    if args.coverage {
        return print_coverage(&paths, output);
    }
    let mut options = RunOptions {
        filter: args.filter.clone(),
        jobs: args.jobs,
        database: args.store.database()?,
        nodes: args.nodes.get(),
        tool_host: crate::commands::tool_host::command(),
        ..RunOptions::new(paths)
    };
    args.live.apply(&mut options, state_root, output)?;
    if args.watch {
        let paths = options.paths.clone();
        let mut run = || {
            if output.json {
                run_with_spinner(&options, output, |summary| output.json_text(&json(summary)))
            } else {
                run_and_print(&options, output)
            }
            .map(|_| ())
        };
        return watch::repeat(&paths, output, &mut run);
    }
    let summary = match args.format.unwrap_or(if output.json {
        TestReportFormat::Json
    } else {
        TestReportFormat::Text
    }) {
        TestReportFormat::Text => run_and_print(&options, output)?,
        TestReportFormat::Json => {
            run_with_spinner(&options, output, |summary| output.json_text(&json(summary)))?
        }
        TestReportFormat::Junit => {
            run_with_spinner(&options, output, |summary| output.foreign(&junit(summary)))?
        }
    };
    if summary.is_good() {
        Ok(())
    } else {
        Err(CliError::already_printed(CommandExit::Failure))
    }
}

/// Prints each test case once it and all earlier ones have ended.
fn run_and_print(options: &RunOptions, output: &CommandOutput) -> Result<RunSummary, CliError> {
    let mut activity = ActivitySpinner::new(output);
    let mut printed = Ok(());
    activity.show("running cases");
    let summary = run_cases(options, &mut |report| {
        activity.hide();
        if printed.is_ok() {
            printed = output.piece(&colored_report(report));
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

/// Runs the test cases with a spinner, then prints the summary with `print`.
fn run_with_spinner(
    options: &RunOptions,
    output: &CommandOutput,
    print: impl FnOnce(&RunSummary) -> Result<(), CliError>,
) -> Result<RunSummary, CliError> {
    let mut activity = ActivitySpinner::new(output);
    activity.show("running cases");
    let summary = run_cases(options, &mut |report| {
        activity.show(format!("ran {}", report.case))
    });
    activity.hide();
    print(&summary)?;
    Ok(summary)
}

/// Prints which rules of the reference no test case names, and how many a test case names. With
/// `--json`, prints all rules with their test cases.
fn print_coverage(paths: &[PathBuf], output: &CommandOutput) -> Result<(), CliError> {
    let discovered = discover(paths);
    let coverage = RuleCoverage::of(discovered.cases.iter().map(|located| &located.case));
    if output.json {
        output.json_pretty(&coverage)?
    } else {
        output.piece(&coverage.render())?
    }
    for error in &discovered.errors {
        output.trace(case_error(error).trim_end())?;
    }
    if discovered.errors.is_empty() {
        Ok(())
    } else {
        Err(CliError::already_printed(CommandExit::Failure))
    }
}

/// Formats the result of a test case, with a color for its outcome.
fn colored_report(report: &CaseReport) -> String {
    let colour = match report.outcome {
        CaseOutcome::Passed => style::GOOD,
        CaseOutcome::Skipped(_) => style::WARNING,
        CaseOutcome::Failed(_) => style::ERROR,
    };
    let lines = case_line(report);
    match lines.split_once(' ') {
        Some((word, rest)) => format!("{} {rest}", paint(word, colour)),
        None => lines,
    }
}

/// Returns the text in this style.
fn paint(text: &str, colour: anstyle::Style) -> String {
    format!("{colour}{text}{colour:#}")
}

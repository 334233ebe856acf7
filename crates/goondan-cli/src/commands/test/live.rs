//! Options of `gdn test --live`, which runs test cases with real models.

use std::collections::BTreeMap;

use clap::Args;
use goondan::StateRoot;
use goondan_conformance::case::MAX_RUNS;
use goondan_conformance::live::model_of;
use goondan_conformance::{
    LIVE_TIME_LIMIT, LiveOptions, RunOptions, judged_projects, live_projects,
};

use crate::commands::instance::in_sentence_case;
use crate::exit::CliError;
use crate::output::CommandOutput;
use crate::project;
use crate::trust::TrustSettings;

/// Options for real models.
#[derive(Debug, Args)]
pub(super) struct TestLiveArgs {
    /// Run the test cases with `live`, using the models of their projects: uses the network and may
    /// cost money
    #[arg(long)]
    live: bool,
    /// Run each test case this many times [default: `live.runs` of the case, or 1]
    #[arg(long, value_name = "N", requires = "live", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RUNS)))]
    runs: Option<u32>,
    /// Require this share of runs to pass, from 0 to 1 [default: `live.passRate` of the case, or 1]
    #[arg(long, value_name = "RATE", requires = "live", value_parser = parse_rate)]
    pass_rate: Option<f64>,
    /// Use this Model of the project for `judge` checks [default: `live.judge` of the case, or the
    /// only Model]
    #[arg(long, value_name = "MODEL", requires = "live")]
    judge: Option<String>,
    /// Trust the projects for this run
    #[arg(long, requires = "live")]
    trust: bool,
}

impl TestLiveArgs {
    /// Applies the options. Projects whose models are called read secrets, so they must be trusted.
    pub(super) fn apply(
        &self,
        options: &mut RunOptions,
        state_root: &StateRoot,
        output: &CommandOutput,
    ) -> Result<(), CliError> {
        if !self.live {
            return Ok(());
        }
        let trust = TrustSettings::new(state_root, self.trust);
        let mut environments = BTreeMap::new();
        let mut bundles = BTreeMap::new();
        for folder in live_projects(options) {
            let (root, bundle, _) = project::load_trusted(&folder, &trust, output)?;
            let environment = goondan::environment(&root, None);
            bundles.insert(folder.clone(), bundle);
            environments.insert(
                folder,
                environment.map_err(|problem| CliError::configuration(problem.message))?,
            );
        }
        // All judge models are resolved before the first model call.
        for (folder, judge_name) in judged_projects(options) {
            let Some(bundle) = bundles.get(&folder) else {
                continue;
            };
            model_of(bundle, self.judge.as_deref().or(judge_name.as_deref())).map_err(
                |problem| {
                    CliError::usage(format!("{}.", in_sentence_case(&problem))).suggest(format!(
                        "Name a Model of the project in {} with `--judge`. No model was called.",
                        folder.display()
                    ))
                },
            )?;
        }
        let Self {
            runs,
            pass_rate,
            judge,
            ..
        } = self;
        options.time_limit = LIVE_TIME_LIMIT;
        options.live = Some(LiveOptions {
            runs: *runs,
            pass_rate: *pass_rate,
            judge: judge.clone(),
            environments,
        });
        Ok(())
    }
}

/// Parses a share of runs, from 0 to 1.
fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
    rate.ok_or_else(|| "a share of runs is a number from 0 to 1, such as 0.8".to_owned())
}

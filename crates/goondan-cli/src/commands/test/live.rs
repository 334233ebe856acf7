//! `gdn test --live`.

use std::collections::BTreeMap;

use clap::Args;
use goondan::StateRoot;
use goondan_conformance::case::MOST_RUNS;
use goondan_conformance::live::model_of;
use goondan_conformance::{LIVE_TIME_LIMIT, LiveOptions, Options, judged_projects, live_projects};

use crate::commands::instance::in_sentence_case;
use crate::exit::CliError;
use crate::output::Output;
use crate::project;
use crate::trust::Trust;

/// How cases are run with real models.
#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    /// Run the cases that have `live`, with the models of their projects: this uses the network and may cost money
    #[arg(long)]
    live: bool,
    /// Run each case this often [default: `live.runs` of the case, or 1]
    #[arg(long, value_name = "N", requires = "live", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RUNS)))]
    runs: Option<u32>,
    /// Demand that this share of runs passes, from 0 to 1 [default: `live.passRate` of the case, or 1]
    #[arg(long, value_name = "RATE", requires = "live", value_parser = rate)]
    pass_rate: Option<f64>,
    /// Let this Model of the project answer `judge` checks [default: `live.judge` of the case, or the only Model]
    #[arg(long, value_name = "MODEL", requires = "live")]
    judge: Option<String>,
    /// Trust the projects for this run
    #[arg(long, requires = "live")]
    trust: bool,
}

impl LiveArgs {
    /// Puts them into `options`. Projects whose models are asked read secrets, so they must be trusted.
    pub(super) fn apply(
        &self,
        options: &mut Options,
        state_root: &StateRoot,
        output: &Output,
    ) -> Result<(), CliError> {
        if !self.live {
            return Ok(());
        }
        let trust = Trust::new(state_root, self.trust);
        let (mut environments, mut bundles) = (BTreeMap::new(), BTreeMap::new());
        for folder in live_projects(options) {
            let (root, bundle, _) = project::load_trusted(&folder, &trust, output)?;
            let environment = goondan::environment(&root, None);
            bundles.insert(folder.clone(), bundle);
            environments.insert(
                folder,
                environment.map_err(|problem| CliError::configuration(problem.message))?,
            );
        }
        // Whoever judges is known before anybody is asked.
        for (folder, named) in judged_projects(options) {
            let Some(bundle) = bundles.get(&folder) else {
                continue;
            };
            model_of(bundle, self.judge.as_deref().or(named.as_deref())).map_err(|problem| {
                CliError::usage(format!("{}.", in_sentence_case(&problem))).suggest(format!(
                    "Name a Model of the project in {} with `--judge`. No model was asked.",
                    folder.display()
                ))
            })?;
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

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
    rate.ok_or_else(|| "a share of runs is a number from 0 to 1, such as 0.8".to_owned())
}

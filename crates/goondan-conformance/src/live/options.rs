//! How cases are run live, and what that comes to for one case.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan::models::Providers;
use goondan::spec::Environment;

use crate::case::read::Located;
use crate::case::{Action, Case};

/// How cases are run live. What is not said here, a case says itself.
#[derive(Debug, Clone, Default)]
pub struct LiveOptions {
    /// How often each case is run.
    pub runs: Option<u32>,
    /// The share of runs that must pass.
    pub pass_rate: Option<f64>,
    /// The Model that answers `judge` checks.
    pub judge: Option<String>,
    /// The variables that the models of a project see, by [`Located::project_folder`]. Cases of other projects, and cases that
    /// change files of their project, see those of the case alone.
    pub environments: BTreeMap<PathBuf, Environment>,
}

/// One case, about to be run live. Clones share its scripted models, which go on from run to run.
#[derive(Clone)]
pub(crate) struct LiveCase {
    /// How often.
    pub(crate) runs: u32,
    /// The share of runs that must pass.
    pub(crate) pass_rate: f64,
    /// The Model that judges; `None`: the only one of the project.
    pub(crate) judge: Option<String>,
    /// Its scripted models.
    pub(crate) scripts: Arc<Providers>,
    /// The variables that it sees beside those of the case.
    pub(crate) environment: Option<Environment>,
}

impl LiveCase {
    /// `None` where the case is not meant to be run live.
    pub(crate) fn of(located: &Located, options: &LiveOptions) -> Option<Self> {
        let live = located.case.live.as_ref()?;
        let is_plain = !changes_project(&located.case);
        let folder = located.project_folder().filter(|_| is_plain);
        Some(LiveCase {
            runs: options.runs.or(live.runs).unwrap_or(1).max(1),
            pass_rate: options.pass_rate.or(live.pass_rate).unwrap_or(1.0),
            judge: options.judge.clone().or(live.judge.clone()),
            scripts: Arc::new(Providers::new()),
            environment: folder
                .and_then(|folder| options.environments.get(&folder))
                .cloned(),
        })
    }

    /// Whether that many passed runs are enough.
    pub(crate) fn is_enough(&self, passed: usize) -> bool {
        passed >= self.required()
    }

    /// How many runs must pass: 0.75 of 4 are 3, whatever the last digits of a product are.
    pub(crate) fn required(&self) -> usize {
        let share = self.pass_rate * f64::from(self.runs) - 1e-9;
        let count = (0..=self.runs)
            .find(|count| f64::from(*count) >= share)
            .unwrap_or(self.runs);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// Whether a case writes resources that nobody has looked at when the project was trusted.
fn changes_project(case: &Case) -> bool {
    let writes = |action: &Action| matches!(action, Action::Write(..) | Action::Replace(_));
    !case.files.is_empty() || case.steps.iter().any(|step| writes(&step.action))
}

impl Located {
    /// The folder that its project is copied from.
    pub fn project_folder(&self) -> Option<PathBuf> {
        Some(
            self.file
                .parent()
                .unwrap_or(Path::new("."))
                .join(self.case.project.as_ref()?),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_whole_number_of_runs() {
        let required = |runs, pass_rate| {
            let (judge, scripts, environment) = (None, Arc::default(), None);
            LiveCase {
                runs,
                pass_rate,
                judge,
                scripts,
                environment,
            }
            .required()
        };
        assert_eq!(
            (required(4, 0.75), required(4, 0.76), required(4, 0.0)),
            (3, 4, 0)
        );
        assert_eq!(
            (
                required(3, 1.0),
                required(10, 0.7),
                required(3, 1.0 / 3.0),
                required(1, 0.1)
            ),
            (3, 7, 1, 1)
        );
    }
}

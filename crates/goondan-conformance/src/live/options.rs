//! Options of live runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan::models::ModelProviders;
use goondan::spec::Environment;

use crate::case::read::LocatedCase;
use crate::case::{ConformanceCase, StepAction};

/// Options of live runs. They override the options of the test cases.
#[derive(Debug, Clone, Default)]
pub struct LiveOptions {
    /// Number of runs of each test case.
    pub runs: Option<u32>,
    /// Share of runs that must pass.
    pub pass_rate: Option<f64>,
    /// Model that answers `judge` checks.
    pub judge: Option<String>,
    /// Variables for the models of a project, by [`LocatedCase::project_folder`]. Test cases of
    /// other projects get only their own variables. The same applies to test cases that change
    /// project files.
    pub environments: BTreeMap<PathBuf, Environment>,
}

/// Live options of a test case. Clones share the scripted models, which continue across runs.
#[derive(Clone)]
pub(crate) struct LiveCase {
    /// Number of runs.
    pub(crate) runs: u32,
    /// Share of runs that must pass.
    pub(crate) pass_rate: f64,
    /// Model of the judge. `None`: the only one of the project.
    pub(crate) judge: Option<String>,
    /// Scripted models.
    pub(crate) scripts: Arc<ModelProviders>,
    /// Variables in addition to those of the test case.
    pub(crate) environment: Option<Environment>,
}

impl LiveCase {
    /// Returns `None` for a test case that cannot run live.
    pub(crate) fn for_case(located: &LocatedCase, options: &LiveOptions) -> Option<Self> {
        let live = located.case.live.as_ref()?;
        let is_plain = !changes_project(&located.case);
        let folder = located.project_folder().filter(|_| is_plain);
        Some(LiveCase {
            runs: options.runs.or(live.runs).unwrap_or(1).max(1),
            pass_rate: options.pass_rate.or(live.pass_rate).unwrap_or(1.0),
            judge: options.judge.clone().or(live.judge.clone()),
            scripts: Arc::new(ModelProviders::new()),
            environment: folder
                .and_then(|folder| options.environments.get(&folder))
                .cloned(),
        })
    }

    /// Returns true if enough runs passed.
    pub(crate) fn is_enough(&self, passed: usize) -> bool {
        passed >= self.required_passes()
    }

    /// Returns the number of runs that must pass. Tolerates rounding errors: 0.75 of 4 is 3.
    pub(crate) fn required_passes(&self) -> usize {
        let share = self.pass_rate * f64::from(self.runs) - 1e-9;
        let count = (0..=self.runs)
            .find(|count| f64::from(*count) >= share)
            .unwrap_or(self.runs);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// Returns true if the test case adds resources that the user did not see when trusting the
/// project.
fn changes_project(case: &ConformanceCase) -> bool {
    let writes =
        |action: &StepAction| matches!(action, StepAction::Write(..) | StepAction::Replace(_));
    !case.files.is_empty() || case.steps.iter().any(|step| writes(&step.action))
}

impl LocatedCase {
    /// Returns the directory from which the project is copied; `None` if the test case contains its
    /// project itself.
    pub fn project_folder(&self) -> Option<PathBuf> {
        let relative_path = self.case.project.as_ref()?;
        let case_directory = self.file.parent().unwrap_or(Path::new("."));
        Some(case_directory.join(relative_path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pass_rate_is_rounded_up_to_whole_runs() {
        let required = |runs, pass_rate| {
            let judge = None;
            let scripts = Arc::default();
            let environment = None;
            LiveCase {
                runs,
                pass_rate,
                judge,
                scripts,
                environment,
            }
            .required_passes()
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

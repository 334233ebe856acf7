//! What can be found out about a project without running it, beyond what is written in its YAML.

mod chain;

use goondan_spec::Diagnostic;

use crate::project::Project;

/// Everything of that kind, for a project that is valid as far as its YAML goes. Nothing of it is run or opened.
pub fn check(project: &Project) -> Vec<Diagnostic> {
    let Some(bundle) = &project.bundle else { return Vec::new() };
    chain::check(bundle)
}

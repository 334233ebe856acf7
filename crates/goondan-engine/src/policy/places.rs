//! Where the paths of a call lead, and which of these places are asked about whatever the rules allow.

use std::path::PathBuf;

use goondan_core::JsonObject;
use goondan_core::run_mode::RunMode;
use goondan_spec::kinds::{Action, MarkedArguments, Permissions};

use crate::policy::protected::{self, Ground, Protected, Redirections};
use crate::policy::{Decision, PathArguments, PolicyQuestion};

/// The most paths that a call may name: each is looked up before a policy decides.
pub(crate) const MOST_PATHS: usize = 10_000;

/// Where the paths in the arguments of a call lead.
#[derive(Default)]
pub struct Places {
    arguments: PathArguments,
    protected: Vec<Protected>,
    /// Where redirections lead can't be told for all of them.
    are_unclear: bool,
}

/// Why a call that the rules allow is asked about all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedAbout {
    /// The reason, as a part of a sentence.
    pub why: String,
    /// A rule that would allow it, as YAML in one line.
    pub rule: Option<String>,
}

impl Places {
    /// Where they lead for a call that works on `ground`. Asks the file system.
    pub fn of(ground: &Ground<'_>, marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        Places::with(
            ground,
            marked,
            arguments,
            &Redirections::of(marked, arguments, MOST_PATHS),
        )
    }

    /// As [`Places::of`], with the redirections of the call's command lines.
    pub(crate) fn with(
        ground: &Ground<'_>,
        marked: &MarkedArguments,
        arguments: &JsonObject,
        redirections: &Redirections,
    ) -> Self {
        let paths = PathArguments::within(ground.workdir, marked, arguments);
        let given = marked
            .folders
            .iter()
            .filter_map(|name| Some(ground.workdir.join(arguments.get(name)?.as_str()?)));
        let mut folders: Vec<PathBuf> = given.collect();
        if folders.is_empty() {
            folders.push(ground.workdir.to_owned());
        }
        let protected = protected::find(ground, &paths, redirections, &folders);
        Places {
            arguments: paths,
            protected,
            are_unclear: redirections.are_unclear,
        }
    }

    /// Where they lead as far as their text tells. Nothing is protected then.
    pub fn by_text(marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        Places {
            arguments: PathArguments::of(marked, arguments),
            ..Places::default()
        }
    }

    /// The paths.
    pub fn arguments(&self) -> &PathArguments {
        &self.arguments
    }

    /// Why a call that `decision` allows is asked about: it names a protected place, and no rule of `permissions` does.
    pub fn asked_about(
        &self,
        permissions: Option<&Permissions>,
        question: PolicyQuestion<'_>,
        decision: &Decision,
    ) -> Option<AskedAbout> {
        if decision.action != Action::Allow {
            return None;
        }
        // What a shell may run it may open, too.
        let is_direct = matches!(decision.run_mode(), RunMode::Direct(_));
        let is_open = |place: &&Protected| {
            let is_opened = is_direct || !place.is_redirected_to();
            is_opened && place.concerns(question.needs) && !place.is_named(permissions, decision)
        };
        let open = self.protected.iter().find(is_open);
        let unclear =
            || "it changes its folder too often to tell where its redirections lead".to_owned();
        let why = open
            .map(Protected::reason)
            .or_else(|| (is_direct && self.are_unclear).then(unclear))?;
        Some(AskedAbout {
            why,
            rule: open.map(|open| open.rule(question.tool_name)),
        })
    }
}

//! Targets of the paths of a call, and the check for protected paths.

use std::path::PathBuf;

use goondan_core::JsonObject;
use goondan_core::run_mode::RunMode;
use goondan_spec::kinds::{MarkedArguments, PermissionAction, Permissions};

use crate::policy::protected_paths::{self, PathEnvironment, ProtectedPath, RedirectionTargets};
use crate::policy::{PathArguments, PolicyDecision, PolicyQuestion};

/// Limit of paths per call: each is resolved before a policy decides.
pub(crate) const MAX_CALL_PATHS: usize = 10_000;

/// Resolved path arguments of a call.
#[derive(Default)]
pub struct ResolvedPaths {
    arguments: PathArguments,
    protected: Vec<ProtectedPath>,
    /// Some redirection targets are unknown.
    are_unclear: bool,
}

/// Reason for an approval request although the rules allow the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalReason {
    /// Reason, as a part of a sentence.
    pub why: String,
    /// Rule that would allow the call, as one line of YAML.
    pub rule: Option<String>,
}

impl ResolvedPaths {
    /// Resolves the paths of a call in `ground`. Accesses the file system.
    pub fn of(
        ground: &PathEnvironment<'_>,
        marked: &MarkedArguments,
        arguments: &JsonObject,
    ) -> Self {
        ResolvedPaths::with(
            ground,
            marked,
            arguments,
            &RedirectionTargets::of(marked, arguments, MAX_CALL_PATHS),
        )
    }

    /// Works like [`ResolvedPaths::of`], with parsed redirections.
    pub(crate) fn with(
        ground: &PathEnvironment<'_>,
        marked: &MarkedArguments,
        arguments: &JsonObject,
        redirections: &RedirectionTargets,
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
        let protected = protected_paths::find(ground, &paths, redirections, &folders);
        ResolvedPaths {
            arguments: paths,
            protected,
            are_unclear: redirections.are_unclear,
        }
    }

    /// Parses the paths without accessing the file system. No path counts as protected.
    pub fn by_text(marked: &MarkedArguments, arguments: &JsonObject) -> Self {
        ResolvedPaths {
            arguments: PathArguments::of(marked, arguments),
            ..ResolvedPaths::default()
        }
    }

    /// Returns the path arguments.
    pub fn arguments(&self) -> &PathArguments {
        &self.arguments
    }

    /// Returns the reason if a call that `decision` allows requires an approval: it names a
    /// protected path that no rule of `permissions` names.
    pub fn asked_about(
        &self,
        permissions: Option<&Permissions>,
        question: PolicyQuestion<'_>,
        decision: &PolicyDecision,
    ) -> Option<ApprovalReason> {
        if decision.action != PermissionAction::Allow {
            return None;
        }
        // A command that a shell may run can open such files anyway.
        let is_direct = matches!(decision.run_mode(), RunMode::Direct(_));
        let is_open = |place: &&ProtectedPath| {
            let is_opened = is_direct || !place.is_redirected_to();
            is_opened && place.concerns(question.needs) && !place.is_named(permissions, decision)
        };
        let open = self.protected.iter().find(is_open);
        let unclear = || "it changes directory too often to resolve its redirections".to_owned();
        let why = open
            .map(ProtectedPath::reason)
            .or_else(|| (is_direct && self.are_unclear).then(unclear))?;
        Some(ApprovalReason {
            why,
            rule: open.map(|open| open.rule(question.tool_name)),
        })
    }
}

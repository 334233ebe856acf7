//! Targets of the paths of a call, and the check for protected paths.

use std::collections::BTreeMap;
use std::path::PathBuf;

use goondan_core::JsonObject;
use goondan_core::ports::tool::WrittenFile;
use goondan_core::run_mode::RunMode;
use goondan_spec::kinds::{MarkedArguments, PermissionAction, Permissions};

use crate::policy::grant_scope::GrantScope;
use crate::policy::protected_paths::{self, PathEnvironment, ProtectedPath, RedirectionTargets};
use crate::policy::{PathArguments, PolicyDecision, PolicyQuestion};

/// Limit of paths per call: each is resolved before a policy decides.
pub(crate) const MAX_CALL_PATHS: usize = 10_000;

/// Resolved path arguments of a call.
#[derive(Default, PartialEq)]
pub struct ResolvedPaths {
    arguments: PathArguments,
    /// Directories in which command lines run, without links.
    folders: Vec<PathBuf>,
    /// Stated directories of command lines that contain links, with their targets.
    linked_folders: BTreeMap<String, String>,
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
    /// Resolves the path arguments of a call in `environment`. Accesses the file system.
    pub fn of(
        environment: &PathEnvironment<'_>,
        marked: &MarkedArguments,
        arguments: &JsonObject,
    ) -> Self {
        ResolvedPaths::with(
            environment,
            marked,
            arguments,
            &RedirectionTargets::from_arguments(marked, arguments, MAX_CALL_PATHS),
            &[],
        )
    }

    /// Resolves the paths of a call like [`ResolvedPaths::of`], with parsed redirections and the
    /// additional files that the call writes.
    pub(crate) fn with(
        environment: &PathEnvironment<'_>,
        marked: &MarkedArguments,
        arguments: &JsonObject,
        redirections: &RedirectionTargets,
        written: &[WrittenFile],
    ) -> Self {
        let paths = PathArguments::within(environment.workdir, marked, arguments);
        let workdir = protected_paths::real_path_or_self(environment.workdir);
        let stated_folders = marked
            .folders
            .iter()
            .filter_map(|name| arguments.get(name)?.as_str());
        let mut folders = Vec::new();
        let mut linked_folders = BTreeMap::new();
        for stated in stated_folders {
            let path = workdir.join(stated);
            let target = protected_paths::real_path_or_self(&path);
            if target != protected_paths::normalize_path(&path) {
                let name = target.strip_prefix(&workdir).unwrap_or(&target);
                linked_folders.insert(stated.to_owned(), name.display().to_string());
            }
            folders.push(target);
        }
        if folders.is_empty() {
            folders.push(workdir);
        }
        let protected = protected_paths::find(
            environment,
            &paths,
            redirections,
            &folders,
            written,
            arguments,
        );
        ResolvedPaths {
            arguments: paths,
            folders,
            linked_folders,
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

    /// Returns the targets of the paths that contain symbolic links, by path.
    pub(crate) fn link_targets(&self) -> BTreeMap<String, String> {
        let argument_targets = self.arguments.linked_paths();
        let argument_targets =
            argument_targets.map(|(path, target)| (path.to_owned(), target.to_owned()));
        self.linked_folders
            .clone()
            .into_iter()
            .chain(argument_targets)
            .collect()
    }

    /// Returns the path arguments.
    pub fn arguments(&self) -> &PathArguments {
        &self.arguments
    }

    /// Returns the reason why a call that `decision` allows requires an approval anyway: the call
    /// names a protected path that no rule of `permissions` names. `None` if it requires no
    /// approval.
    pub fn approval_reason(
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
        let mut unapproved = self.unapproved_paths(permissions, question, decision);
        let unapproved = unapproved.find(|path| is_direct || !path.is_redirected_to());
        let unclear_reason =
            || "it changes directory too often to resolve its redirections".to_owned();
        let reason = unapproved
            .map(ProtectedPath::approval_reason)
            .or_else(|| (is_direct && self.are_unclear).then(unclear_reason))?;
        Some(ApprovalReason {
            why: reason,
            rule: unapproved.map(|unapproved| unapproved.allow_rule(question.tool_name)),
        })
    }

    /// Limits the scopes of an approval that `decision` requires: only an approval of the call
    /// itself covers a protected path. An approval of the tool covers redirections, because a shell
    /// opens them.
    pub(crate) fn limit(
        &self,
        scope: GrantScope,
        permissions: Option<&Permissions>,
        question: PolicyQuestion<'_>,
        decision: &PolicyDecision,
    ) -> GrantScope {
        let mut unapproved = self
            .unapproved_paths(permissions, question, decision)
            .map(ProtectedPath::is_redirected_to)
            .peekable();
        let is_any = self.are_unclear || unapproved.peek().is_some();
        match unapproved.all(|is_redirected_to| is_redirected_to) {
            true if is_any => scope.without_forms(),
            true => scope,
            false => GrantScope::default(),
        }
    }

    /// Returns the protected paths that the call uses and that no rule names.
    fn unapproved_paths<'p>(
        &'p self,
        permissions: Option<&'p Permissions>,
        question: PolicyQuestion<'p>,
        decision: &'p PolicyDecision,
    ) -> impl Iterator<Item = &'p ProtectedPath> {
        self.protected.iter().filter(move |path| {
            path.requires_approval(question.needs)
                && !path.is_named(question.tool_name, permissions, decision)
        })
    }
}

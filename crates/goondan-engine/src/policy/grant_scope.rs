//! Scope of an approval beyond the call: commands of the same form, or all calls of the tool.
//!
//! The scope never exceeds the policy's rule. A rule for `git push --force*` is narrower than the
//! form `git push *`, so approvals of that form do not apply to it. If a policy requires an
//! approval because a command is unknown, the approval only covers that line.

use std::collections::BTreeSet;

use goondan_core::ports::approval::{ApprovalCoverage, ApprovalGrant, ApprovalOffer};
use goondan_core::run_mode::RunMode;
use goondan_core::shell::{self, CommandForm, CommandPart, CommandPartKind};
use goondan_spec::kinds::{PermissionAction, Permissions, SandboxSettings};
use goondan_spec::pattern;

use super::decide::command_containment;
use super::{DecisionReason, PolicyDecision, PolicyQuestion};

/// Scopes that an approval for one policy may have.
#[derive(Debug, Clone, Default)]
pub(crate) struct GrantScope {
    /// The policy requires an approval with any arguments.
    asks_by_tool: bool,
    /// Commands that require an approval. Empty if something else in the call also requires one.
    commands: Vec<ApprovalCommand>,
    /// Name of the argument that contains the commands.
    argument: String,
    /// Other arguments that determine the programs to run.
    telling: Vec<String>,
    /// Run mode of the line if the commands are allowed by their form.
    contained: RunMode,
}

/// Command that requires an approval.
#[derive(Debug, Clone)]
struct ApprovalCommand {
    part: CommandPart,
    /// Pattern of the rule, if the rule only applies to certain commands.
    only: Option<String>,
}

impl ApprovalCommand {
    /// Returns true if the policy requires an approval for all commands of a form.
    fn is_about(&self, form: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| pattern::always_matches(only, &pattern::pattern_atoms(form)))
    }

    /// Returns the form of the command for a wider grant; `None` if the rule does not apply to all
    /// commands of that form.
    fn grantable_form(&self, has_sandbox: bool) -> Option<CommandForm> {
        shell::form(&self.part)
            .filter(|form| (has_sandbox || !form.needs_sandbox) && self.is_about(&form.pattern))
    }
}

impl GrantScope {
    /// Computes the scopes for a policy decision. `runs_lines`: the tool supports sandboxes for
    /// commands.
    pub(crate) fn for_decision(
        permissions: Option<&Permissions>,
        question: PolicyQuestion<'_>,
        decision: &PolicyDecision,
        runs_lines: bool,
    ) -> Self {
        let asking_reasons = || match decision.parts.as_slice() {
            [] => vec![&decision.because],
            parts => parts
                .iter()
                .filter(|part| part.action == PermissionAction::Ask)
                .map(|part| &part.because)
                .collect(),
        };
        let asks_by_tool = !decision.in_doubt
            && asking_reasons()
                .into_iter()
                .all(|why| asks_for_any_arguments(permissions, why));
        let [argument] = question.marked.commands.as_slice() else {
            return GrantScope {
                asks_by_tool,
                ..GrantScope::default()
            };
        };
        let asked = decision
            .parts
            .iter()
            .filter(|part| part.action == PermissionAction::Ask);
        let asked: Option<Vec<ApprovalCommand>> = asked
            .map(|part| {
                let is_simple = part.part.what == CommandPartKind::Command
                    && part.part.command.is_some()
                    && !part.in_doubt;
                let only =
                    only_pattern(permissions, &part.because, argument).filter(|_| is_simple)?;
                Some(ApprovalCommand {
                    part: part.part.clone(),
                    only,
                })
            })
            .collect();
        let commands = asked.filter(|_| runs_lines).unwrap_or_default();
        let mut allowed = decision.clone();
        allowed.action = PermissionAction::Allow;
        for part in allowed
            .parts
            .iter_mut()
            .filter(|part| part.action == PermissionAction::Ask)
        {
            part.contained = Some(command_containment(
                permissions,
                question,
                SandboxSettings::default(),
                &part.part,
            ));
        }
        GrantScope {
            asks_by_tool,
            commands,
            argument: argument.clone(),
            telling: [
                &question.marked.folders,
                &question.marked.environments,
                &question.marked.programs,
            ]
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
            contained: allowed.run_mode(),
        }
    }

    /// Returns the scope without approvals of command forms.
    pub(crate) fn without_forms(self) -> Self {
        GrantScope {
            commands: Vec::new(),
            ..self
        }
    }

    /// Returns the forms of the commands; `None` if a command has no form.
    fn command_forms(&self, has_sandbox: bool) -> Option<Vec<String>> {
        let forms = self
            .commands
            .iter()
            .map(|command| Some(command.grantable_form(has_sandbox)?.pattern));
        let mut forms = forms
            .collect::<Option<Vec<String>>>()
            .filter(|forms| !forms.is_empty())?;
        forms.sort_unstable();
        forms.dedup();
        Some(forms)
    }

    /// Returns the grants for the scope `covers`, derived from the grant for the call. `None` if
    /// the scope is not offered.
    pub(crate) fn grants_for(
        &self,
        covers: ApprovalCoverage,
        call: &ApprovalGrant,
        has_sandbox: bool,
    ) -> Option<Vec<ApprovalGrant>> {
        match covers {
            ApprovalCoverage::Call => Some(vec![call.clone()]),
            ApprovalCoverage::Program => {
                let forms = self.command_forms(has_sandbox)?.into_iter();
                Some(forms.map(|form| self.grant_for_form(call, &form)).collect())
            }
            ApprovalCoverage::Tool if self.asks_by_tool => {
                let args = serde_json::Map::new();
                Some(vec![ApprovalGrant {
                    covers: ApprovalCoverage::Tool,
                    conversation: None,
                    args,
                    files: Default::default(),
                    link_targets: Default::default(),
                    ..call.clone()
                }])
            }
            ApprovalCoverage::Tool => None,
        }
    }

    /// Returns the widest scope of the `held` grants that covers the call; `None` if there is none.
    pub(crate) fn answered_by(
        &self,
        held: &[ApprovalGrant],
        call: &ApprovalGrant,
        has_sandbox: bool,
    ) -> Option<ApprovalCoverage> {
        let is_held = |needed: &ApprovalGrant| held.iter().any(|held| grant_covers(held, needed));
        let all_covered = |covers| {
            self.grants_for(covers, call, has_sandbox)
                .is_some_and(|grants| grants.iter().all(is_held))
        };
        // An approval of the exact call requires no sandbox.
        if held.contains(call) {
            return Some(ApprovalCoverage::Call);
        }
        if all_covered(ApprovalCoverage::Tool) {
            return Some(ApprovalCoverage::Tool);
        }
        all_covered(ApprovalCoverage::Program).then_some(ApprovalCoverage::Program)
    }

    /// Returns the files whose content differs from that in the latest approval that covers the call in
    /// all other respects. The latest approval is the last one in `held`.
    pub(crate) fn changed_files(
        &self,
        held: &[ApprovalGrant],
        call: &ApprovalGrant,
        has_sandbox: bool,
    ) -> BTreeSet<String> {
        let scopes = [
            ApprovalCoverage::Call,
            ApprovalCoverage::Program,
            ApprovalCoverage::Tool,
        ];
        let grants: Vec<ApprovalGrant> = scopes
            .into_iter()
            .filter_map(|covers| self.grants_for(covers, call, has_sandbox))
            .flatten()
            .collect();
        let latest_of = |now: &ApprovalGrant| held.iter().rposition(|it| differ_in_files(it, now));
        let latest = grants.iter().max_by_key(|now| latest_of(now));
        let before = latest.and_then(|now| Some((held.get(latest_of(now)?)?, now)));
        before.map_or_else(BTreeSet::new, |(before, now)| {
            changed_contents(before, now).into_iter().collect()
        })
    }

    /// Returns the run mode of a command line allowed with that scope.
    pub(crate) fn run_mode(&self, covers: ApprovalCoverage) -> RunMode {
        if covers == ApprovalCoverage::Program {
            self.contained.clone()
        } else {
            RunMode::Shell
        }
    }

    /// Returns the grant for all commands of this form.
    fn grant_for_form(&self, call: &ApprovalGrant, form: &str) -> ApprovalGrant {
        let mut args = call.args.clone();
        args.retain(|name, _| self.telling.contains(name));
        // A sandbox limits the files of the commands, so only links in these arguments count.
        let mut link_targets = call.link_targets.clone();
        link_targets.retain(|path, _| args.values().any(|value| value == path));
        args.insert(self.argument.clone(), form.into());
        ApprovalGrant {
            covers: ApprovalCoverage::Program,
            conversation: None,
            args,
            link_targets,
            files: Default::default(),
            ..call.clone()
        }
    }
}

/// Returns the scopes that an approval for several policies may have.
pub(crate) fn approval_offers(reaches: &[&GrantScope], has_sandbox: bool) -> Vec<ApprovalOffer> {
    let mut offers = vec![ApprovalOffer {
        covers: ApprovalCoverage::Call,
        commands: Vec::new(),
    }];
    let forms: Option<Vec<Vec<String>>> = reaches
        .iter()
        .map(|reach| reach.command_forms(has_sandbox))
        .collect();
    if let Some(forms) = forms {
        let mut commands = forms.concat();
        commands.sort_unstable();
        commands.dedup();
        offers.push(ApprovalOffer {
            covers: ApprovalCoverage::Program,
            commands,
        });
    }
    if reaches.iter().all(|reach| reach.asks_by_tool) {
        offers.push(ApprovalOffer {
            covers: ApprovalCoverage::Tool,
            commands: Vec::new(),
        });
    }
    offers
}

/// Returns true if the grant `held` covers the grant `needed`. All programs that the call runs must be
/// unchanged.
fn grant_covers(held: &ApprovalGrant, needed: &ApprovalGrant) -> bool {
    let without_scope = |grant: &ApprovalGrant| ApprovalGrant {
        programs: Default::default(),
        ..grant.clone()
    };
    let are_programs_unchanged = needed
        .programs
        .iter()
        .all(|(path, content)| held.programs.get(path) == Some(content));
    are_programs_unchanged && without_scope(held) == without_scope(needed)
}

/// Returns true if the policy requires an approval with any arguments.
fn asks_for_any_arguments(permissions: Option<&Permissions>, because: &DecisionReason) -> bool {
    rule_argument_patterns(permissions, because).is_some_and(|args| args.is_none())
}

/// Returns the pattern of a rule that depends only on the command; `Some(None)` without a pattern.
fn only_pattern(
    permissions: Option<&Permissions>,
    because: &DecisionReason,
    argument: &str,
) -> Option<Option<String>> {
    match rule_argument_patterns(permissions, because)? {
        None => Some(None),
        Some(args) if args.len() == 1 => Some(Some(args.get(argument)?.clone())),
        Some(_) => None,
    }
}

type RuleArguments = std::collections::BTreeMap<String, String>;

/// Returns the argument patterns of the rule; `None` if the deciding rule is uncertain.
fn rule_argument_patterns<'p>(
    permissions: Option<&'p Permissions>,
    because: &DecisionReason,
) -> Option<Option<&'p RuleArguments>> {
    match because {
        DecisionReason::Unstated
        | DecisionReason::Default
        | DecisionReason::Rule { number: None, .. } => Some(None),
        DecisionReason::Rule {
            number: Some(number),
            ..
        } => {
            let args = &permissions?.rules.get(*number)?.args;
            Some(Some(args).filter(|args| !args.is_empty()))
        }
        DecisionReason::Doubt { .. } => None,
    }
}

/// Returns true if two approvals cover the same calls, except for the content of files.
fn differ_in_files(before: &ApprovalGrant, now: &ApprovalGrant) -> bool {
    let without_files = |grant: &ApprovalGrant| ApprovalGrant {
        programs: Default::default(),
        files: Default::default(),
        ..grant.clone()
    };
    without_files(before) == without_files(now)
}

/// Returns the files of `now` that have another content in `before`, or are not part of it.
fn changed_contents(before: &ApprovalGrant, now: &ApprovalGrant) -> Vec<String> {
    let contents = [
        (&before.programs, &now.programs),
        (&before.files, &now.files),
    ];
    let changed = contents.into_iter().flat_map(|(before, now)| {
        now.iter()
            .filter(|(path, content)| before.get(*path) != Some(*content))
    });
    changed.map(|(path, _)| path.clone()).collect()
}

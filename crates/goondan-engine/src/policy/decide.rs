//! Policy decisions: selects the rule that applies to a call, with the reason.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use goondan_spec::kinds::{
    MarkedArguments, Permission, PermissionAction, PermissionRule, Permissions, RuleSandbox,
    SandboxSettings, SourceLocation,
};
use goondan_spec::pattern;
use serde_json::Value;

use super::paths::PathArguments;
use goondan_core::JsonObject;
use goondan_core::run_mode::{CommandContainment, RunMode};
use goondan_core::shell::{self, CommandPart, CommandPartKind};

/// Call to which a policy is applied.
#[derive(Debug, Clone, Copy)]
pub struct PolicyQuestion<'a> {
    /// Tool name in the form `resource__export`.
    pub tool_name: &'a str,
    /// Permissions that the export declares.
    pub needs: &'a BTreeSet<Permission>,
    /// Arguments of the call.
    pub arguments: &'a JsonObject,
    /// Names of the arguments with a special meaning, such as paths and commands.
    pub marked: &'a MarkedArguments,
    /// Resolved path arguments.
    pub paths: &'a PathArguments,
}

/// Decision of a policy about a call.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyDecision {
    /// The strictest action of all parts.
    pub action: PermissionAction,
    /// Reason for the action: for the call, or for the first part with that action.
    pub because: DecisionReason,
    /// Commands, paths and other parts of the call that are decided separately.
    pub parts: Vec<PartDecision>,
    /// A restricting rule may also match.
    pub in_doubt: bool,
}

/// Decision about one part of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct PartDecision {
    /// Part of the call.
    pub part: CommandPart,
    /// Action for the part.
    pub action: PermissionAction,
    /// Reason for the action.
    pub because: DecisionReason,
    /// Sandbox for the command or redirection if a pattern allows it.
    pub contained: Option<CommandContainment>,
    /// A restricting rule may also match.
    pub in_doubt: bool,
}

impl PolicyDecision {
    /// Returns the run mode of the command lines, as far as this policy determines it.
    pub fn run_mode(&self) -> RunMode {
        let mut mode = RunMode::Shell;
        for part in self
            .parts
            .iter()
            .filter(|_| self.action == PermissionAction::Allow)
        {
            let is_folder =
                part.part.what == CommandPartKind::Command && part.part.command.is_none();
            if is_folder {
                mode.make_direct().is_outside = true;
                continue;
            }
            if let Some((file, contained)) = part.part.file.as_ref().zip(part.contained.as_ref()) {
                mode.contain_file(file, contained.clone());
            } else if let Some(contained) = &part.contained {
                mode.contain(part.part.command.unwrap_or(0), contained.clone());
            } else if matches!(
                part.because,
                DecisionReason::Rule {
                    by_pattern: true,
                    ..
                }
            ) {
                mode.make_direct();
            }
        }
        mode
    }

    /// Returns true if the call needs an approval only because the project states nothing about it.
    /// An answer in the channel of its event then needs no approval.
    pub fn asks_without_rule(&self) -> bool {
        let is_unwritten = matches!(
            self.because,
            DecisionReason::Unstated | DecisionReason::Rule { number: None, .. }
        );
        self.action == PermissionAction::Ask && is_unwritten
    }
}

/// Reason for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionReason {
    /// The agent has no permissions: reading and writing is allowed; running programs and network
    /// access require an approval.
    Unstated,
    /// No rule matches; `default` applies.
    Default,
    /// A rule matches.
    Rule {
        /// Index in the agent's list; `None` for an implicit rule.
        number: Option<usize>,
        /// Source position of the rule.
        written: SourceLocation,
        /// The rule allows a command by a pattern, not by its complete text.
        by_pattern: bool,
    },
    /// A restricting rule may match, depending on values that are only known at run time.
    Doubt {
        /// Source position of that rule.
        written: SourceLocation,
    },
}

/// Applies `permissions` to a call: the last matching rule, else the default.
///
/// Command lines, patches and path lists are split into parts. The strictest action of a part
/// applies to the whole call.
pub fn decide(permissions: Option<&Permissions>, question: PolicyQuestion<'_>) -> PolicyDecision {
    let mut parts = Vec::new();
    let mut judge = |asked: ArgumentPart<'_>| {
        let decision = decide_part(permissions, question, &asked);
        let contained = pattern_containment(permissions, question, &asked, &decision);
        let part = asked.part.clone();
        let RuleDecision {
            action,
            because,
            in_doubt,
            ..
        } = decision;
        parts.push(PartDecision {
            part,
            action,
            because,
            contained,
            in_doubt,
        });
    };
    for (name, part) in variable_parts(question) {
        let argument = question
            .marked
            .commands
            .first()
            .map_or(name, String::as_str);
        judge(ArgumentPart {
            argument,
            line: None,
            number: None,
            stays: true,
            part: &part,
        });
    }
    for (argument, part) in program_parts(question) {
        judge(ArgumentPart {
            argument,
            line: None,
            number: None,
            stays: true,
            part: &part,
        });
    }
    let folder = folder_outside(question);
    let commands = &question.marked.commands;
    let lines = commands
        .iter()
        .filter_map(|name| Some((name.as_str(), question.arguments.get(name)?.as_str()?)));
    for (argument, line) in lines {
        if let Some(part) = &folder {
            judge(ArgumentPart {
                argument,
                line: None,
                number: None,
                stays: true,
                part,
            });
        }
        for part in shell::parts(line) {
            judge(ArgumentPart {
                argument,
                line: Some(line),
                number: None,
                stays: folder.is_none(),
                part: &part,
            });
        }
    }
    for (argument, number, given) in question.paths.listed_paths() {
        let part = CommandPart::path(given);
        judge(ArgumentPart {
            argument,
            line: None,
            number: Some(number),
            stays: true,
            part: &part,
        });
    }
    let strictest = parts
        .iter()
        .rev()
        .max_by_key(|part| strictness(part.action));
    match strictest {
        Some(part) => {
            let in_doubt = parts.iter().any(|part| part.in_doubt);
            PolicyDecision {
                action: part.action,
                because: part.because.clone(),
                parts,
                in_doubt,
            }
        }
        None => {
            let RuleDecision {
                action,
                because,
                in_doubt,
                ..
            } = decide_call(permissions, question, None);
            PolicyDecision {
                action,
                because,
                parts,
                in_doubt,
            }
        }
    }
}

/// Returns the working directory argument of a command line if it is outside the working directory.
fn folder_outside(question: PolicyQuestion<'_>) -> Option<CommandPart> {
    let outside = question
        .marked
        .folders
        .iter()
        .find(|name| !question.paths.is_inside(name))?;
    Some(CommandPart::folder(
        question.arguments.get(outside)?.as_str()?,
    ))
}

/// Returns the environment variables in the arguments, each with the argument name. Variables apply
/// to every command of a line, like assignments before a command.
fn variable_parts<'a>(
    question: PolicyQuestion<'a>,
) -> impl Iterator<Item = (&'a str, CommandPart)> + 'a {
    let names = question.marked.environments.iter();
    names
        .filter_map(move |name| Some((name, question.arguments.get(name)?.as_object()?)))
        .flat_map(|(argument, variables)| {
            variables.iter().map(|(name, value)| {
                (
                    argument.as_str(),
                    CommandPart::variable(name, &as_text(value)),
                )
            })
        })
}

/// Programs that interpret a script as shell code. The choice between them does not affect the
/// decision.
const SCRIPT_SHELLS: [&str; 6] = [
    "/bin/bash",
    "/bin/sh",
    "/usr/bin/bash",
    "/usr/bin/sh",
    "bash",
    "sh",
];

/// Returns the programs in the arguments that are not shells, each with the argument name.
fn program_parts<'a>(
    question: PolicyQuestion<'a>,
) -> impl Iterator<Item = (&'a str, CommandPart)> + 'a {
    let arguments = question.marked.programs.iter();
    let arguments = arguments
        .filter_map(move |name| Some((name.as_str(), question.arguments.get(name)?.as_str()?)));
    arguments
        .filter(|(_, program)| !SCRIPT_SHELLS.contains(program))
        .map(|(name, program)| (name, CommandPart::program(program)))
}

/// Returns the stricter of two actions: a callee never has more permissions than its callers.
pub fn stricter(a: PermissionAction, b: PermissionAction) -> PermissionAction {
    if strictness(a) >= strictness(b) { a } else { b }
}

/// Returns the rank of an action; a stricter action has a higher rank.
fn strictness(action: PermissionAction) -> u8 {
    match action {
        PermissionAction::Allow => 0,
        PermissionAction::Ask => 1,
        PermissionAction::Deny => 2,
    }
}

/// Part of an argument to decide about.
struct ArgumentPart<'a> {
    argument: &'a str,
    /// Index of the path in the argument.
    number: Option<usize>,
    /// The complete line that contains the part.
    line: Option<&'a str>,
    /// True if the line runs in the working directory of the call.
    stays: bool,
    part: &'a CommandPart,
}

impl ArgumentPart<'_> {
    /// Returns true if a rule contains exactly this command line.
    fn is_whole(&self, expected: &str) -> bool {
        !expected.contains(['*', '?']) && self.line == Some(expected)
    }
}

/// Decision with the matching rule.
struct RuleDecision<'p> {
    action: PermissionAction,
    because: DecisionReason,
    rule: Option<&'p PermissionRule>,
    in_doubt: bool,
}

/// Decides about one part of an argument. A redirection is checked twice: as a command, and with
/// the permission to read or write that it needs.
fn decide_part<'p>(
    permissions: Option<&'p Permissions>,
    question: PolicyQuestion<'_>,
    asked: &ArgumentPart<'_>,
) -> RuleDecision<'p> {
    let (needed_permission, inside) = match asked.part.what {
        CommandPartKind::Read { inside } => (Permission::Read, inside),
        CommandPartKind::Write { inside } => (Permission::Write, inside),
        _ => return decide_call(permissions, question, Some(asked)),
    };
    // A redirection also needs the permission to read or write. If its target may be outside the
    // working directory, the tool's declared permissions must allow it as well.
    let mut needs = question.needs.clone();
    needs.insert(needed_permission);
    let opening_file = decide_call(
        permissions,
        PolicyQuestion {
            needs: &needs,
            ..question
        },
        Some(asked),
    );
    if inside && asked.stays {
        // An allowed command can read files itself, so a redirection may also pass them to it.
        let is_asked =
            needed_permission == Permission::Read && opening_file.action == PermissionAction::Ask;
        return RuleDecision {
            action: if is_asked {
                PermissionAction::Allow
            } else {
                opening_file.action
            },
            ..opening_file
        };
    }
    let running_command = decide_call(permissions, question, Some(asked));
    // Both must allow it, so the sandbox of either applies.
    let is_sandboxed = |decision: &RuleDecision<'_>| pattern_sandbox(asked, decision).is_some();
    match strictness(opening_file.action).cmp(&strictness(running_command.action)) {
        Ordering::Less => running_command,
        Ordering::Equal if is_sandboxed(&running_command) && !is_sandboxed(&opening_file) => {
            running_command
        }
        Ordering::Equal | Ordering::Greater => opening_file,
    }
}

/// Applies the last matching rule, else the default, to one part of a call, or to the whole call if
/// `asked` is `None`.
///
/// A rule that allows a permission decides only about that permission. The rules before it and the
/// default decide about the others.
fn decide_call<'p>(
    permissions: Option<&'p Permissions>,
    question: PolicyQuestion<'_>,
    asked: Option<&ArgumentPart<'_>>,
) -> RuleDecision<'p> {
    let Some(permissions) = permissions else {
        return RuleDecision {
            action: action_without_policy(question.needs),
            because: DecisionReason::Unstated,
            rule: None,
            in_doubt: false,
        };
    };
    let mut doubt = None;
    let mut decision = RuleDecision {
        action: permissions.default,
        because: DecisionReason::Default,
        rule: None,
        in_doubt: false,
    };
    let mut undecided = question.needs.clone();
    let mut allowed: Option<RuleDecision<'_>> = None;
    for (number, rule) in permissions.rules.iter().enumerate().rev() {
        let remaining = PolicyQuestion {
            needs: &undecided,
            ..question
        };
        match match_rule(rule, remaining, asked) {
            RuleMatch::Yes => {
                let number = rule.written.0.is_some().then_some(number);
                let allowed_by_pattern = allows_by_pattern(rule, asked);
                let because = DecisionReason::Rule {
                    number,
                    written: rule.written.clone(),
                    by_pattern: allowed_by_pattern,
                };
                let rule_decision = RuleDecision {
                    action: rule.action,
                    because,
                    rule: Some(rule),
                    in_doubt: false,
                };
                let permission = rule
                    .permission
                    .filter(|_| rule.action == PermissionAction::Allow)
                    .filter(|permission| redirection_permission(asked) != Some(*permission));
                let Some(permission) = permission else {
                    decision = rule_decision;
                    break;
                };
                undecided.remove(&permission);
                let has_precedence = |allowed| allowed_by_pattern && !is_by_pattern(allowed);
                if allowed.as_ref().is_none_or(has_precedence) {
                    allowed = Some(rule_decision);
                }
                if undecided.is_empty() {
                    decision.action = PermissionAction::Allow;
                    break;
                }
            }
            RuleMatch::Perhaps => {
                doubt = doubt.or_else(|| {
                    Some(DecisionReason::Doubt {
                        written: rule.written.clone(),
                    })
                })
            }
            RuleMatch::No => {}
        }
    }
    if decision.action == PermissionAction::Allow
        && let Some(allowed) = allowed
        && (is_by_pattern(&allowed) || !is_by_pattern(&decision))
    {
        decision = allowed;
    }
    match doubt {
        Some(because) if decision.action == PermissionAction::Allow => RuleDecision {
            action: PermissionAction::Ask,
            because,
            rule: None,
            in_doubt: true,
        },
        doubt => RuleDecision {
            in_doubt: doubt.is_some(),
            ..decision
        },
    }
}

/// Returns true if a rule allows a command by a pattern, not by its complete line.
fn allows_by_pattern(rule: &PermissionRule, asked: Option<&ArgumentPart<'_>>) -> bool {
    let Some(asked) =
        asked.filter(|asked| asked.line.is_some() && rule.action == PermissionAction::Allow)
    else {
        return false;
    };
    rule.args
        .get(asked.argument)
        .is_some_and(|pattern| !asked.is_whole(pattern))
}

/// Returns the permission that a redirection needs. A rule that allows it decides about the
/// redirection, because the command is a separate part.
fn redirection_permission(asked: Option<&ArgumentPart<'_>>) -> Option<Permission> {
    match asked?.part.what {
        CommandPartKind::Read { .. } => Some(Permission::Read),
        CommandPartKind::Write { .. } => Some(Permission::Write),
        _ => None,
    }
}

/// Returns true if a pattern allows a command.
fn is_by_pattern(decision: &RuleDecision<'_>) -> bool {
    matches!(
        decision.because,
        DecisionReason::Rule {
            by_pattern: true,
            ..
        }
    )
}

/// Returns the sandbox of a command or redirection that a pattern allows.
fn pattern_containment(
    permissions: Option<&Permissions>,
    question: PolicyQuestion<'_>,
    asked: &ArgumentPart<'_>,
    decision: &RuleDecision<'_>,
) -> Option<CommandContainment> {
    Some(command_containment(
        permissions,
        question,
        pattern_sandbox(asked, decision)?,
        asked.part,
    ))
}

/// Returns the sandbox settings of the rule whose pattern allows a part. `None` if the rule names
/// the target of a redirection explicitly.
fn pattern_sandbox(
    asked: &ArgumentPart<'_>,
    decision: &RuleDecision<'_>,
) -> Option<SandboxSettings> {
    let DecisionReason::Rule {
        by_pattern: true, ..
    } = decision.because
    else {
        return None;
    };
    let rule = decision.rule?;
    match &asked.part.file {
        Some(file) if names_place(rule.args.get(asked.argument)?, file) => return None,
        None if asked.part.what != CommandPartKind::Command => return None,
        _ => {}
    }
    match &rule.sandbox {
        RuleSandbox::Off => None,
        RuleSandbox::Usual => Some(SandboxSettings::default()),
        RuleSandbox::With(sandbox) => Some(sandbox.clone()),
    }
}

/// Returns true if a pattern contains at least the beginning of the redirection target: true for
/// `> out/*`, false for `> *` and `*`.
fn names_place(pattern: &str, file: &str) -> bool {
    let literal = pattern.split(['*', '?']).next().unwrap_or_default();
    let operator = file.split_inclusive(' ').next().unwrap_or_default();
    literal
        .strip_prefix(operator)
        .is_some_and(|path| path.contains(|c| !matches!(c, '.' | '/' | ' ' | '\'' | '"')))
}

/// Returns the sandbox of a command that a pattern allows. A command that only prints gets no write
/// access, because its options could write a protected file.
pub(super) fn command_containment(
    permissions: Option<&Permissions>,
    question: PolicyQuestion<'_>,
    mut sandbox: SandboxSettings,
    part: &CommandPart,
) -> CommandContainment {
    sandbox.programs.get_or_insert_default();
    sandbox.network |= opens_network(permissions, question.tool_name);
    let writes = permission_action(permissions, question.tool_name, Permission::Write)
        != (PermissionAction::Deny, true);
    let writes = writes && !shell::only_prints(part);
    CommandContainment { sandbox, writes }
}

/// Returns true if the policy allows the tool's commands to use the network in any case.
pub fn opens_network(permissions: Option<&Permissions>, tool_name: &str) -> bool {
    permission_action(permissions, tool_name, Permission::Network).0 == PermissionAction::Allow
}

/// Returns the action for a permission of a tool with any arguments, and `true` if a rule defines
/// it.
fn permission_action(
    permissions: Option<&Permissions>,
    tool_name: &str,
    wanted_permission: Permission,
) -> (PermissionAction, bool) {
    let Some(permissions) = permissions else {
        return (
            action_without_policy(&BTreeSet::from([wanted_permission])),
            false,
        );
    };
    let applies_to_permission = |rule: &&PermissionRule| {
        rule.args.is_empty()
            && rule
                .permission
                .is_none_or(|permission| permission == wanted_permission)
            && rule
                .tool
                .as_ref()
                .is_none_or(|tool| pattern::matches(tool, tool_name))
    };
    let rule = permissions.rules.iter().rev().find(applies_to_permission);
    rule.map_or((permissions.default, false), |rule| (rule.action, true))
}

/// Match of a rule with a call, least certain first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RuleMatch {
    No,
    /// A restriction that cannot be decided before the call runs.
    Perhaps,
    Yes,
}

/// Returns true if a rule matches a part of a call, or the whole call if `asked` is `None`.
fn match_rule(
    rule: &PermissionRule,
    question: PolicyQuestion<'_>,
    asked: Option<&ArgumentPart<'_>>,
) -> RuleMatch {
    let is_about = rule
        .tool
        .as_ref()
        .is_none_or(|tool| pattern::matches(tool, question.tool_name))
        && rule
            .permission
            .is_none_or(|permission| question.needs.contains(&permission));
    // A rule that allows certain arguments does not allow arbitrary variables or script
    // interpreters with them.
    let is_silent = |asked: &ArgumentPart<'_>| {
        matches!(
            asked.part.what,
            CommandPartKind::Variable | CommandPartKind::Program
        ) && !rule.args.is_empty()
            && !rule.args.contains_key(asked.argument)
    };
    if !is_about || (rule.action == PermissionAction::Allow && asked.is_some_and(is_silent)) {
        return RuleMatch::No;
    }
    let argument = |(name, expected): (&String, &String)| {
        let asked = asked.filter(|asked| asked.argument == name);
        let number = asked.and_then(|asked| asked.number);
        let matches_as_path = || {
            question
                .paths
                .match_pattern(name, number, expected, rule.action)
        };
        match asked {
            Some(asked) if number.is_none() => match_part(rule.action, expected, asked),
            _ => matches_as_path()
                .unwrap_or_else(|| match_text(expected, question.arguments.get(name))),
        }
    };
    rule.args
        .iter()
        .map(argument)
        .min()
        .unwrap_or(RuleMatch::Yes)
}

/// Matches the pattern of a rule with an argument; a missing argument never matches.
fn match_text(expected: &str, value: Option<&Value>) -> RuleMatch {
    if value.is_some_and(|value| pattern::matches(expected, &as_text(value))) {
        RuleMatch::Yes
    } else {
        RuleMatch::No
    }
}

/// Matches the pattern of a rule with a part. An allowing rule must match with certainty and
/// completely. A restricting rule applies to everything it may match.
fn match_part(action: PermissionAction, expected: &str, asked: &ArgumentPart<'_>) -> RuleMatch {
    if asked.is_whole(expected) {
        return RuleMatch::Yes;
    }
    let part = asked.part;
    let is_hidden = matches!(part.what, CommandPartKind::Hidden { .. });
    match action {
        PermissionAction::Allow if !is_hidden && pattern::always_matches(expected, &part.whole) => {
            RuleMatch::Yes
        }
        PermissionAction::Allow => RuleMatch::No,
        _ if part
            .names
            .iter()
            .any(|name| pattern::always_matches(expected, name)) =>
        {
            RuleMatch::Yes
        }
        _ if is_hidden
            || part
                .names
                .iter()
                .any(|name| pattern::may_match(expected, name)) =>
        {
            RuleMatch::Perhaps
        }
        _ => RuleMatch::No,
    }
}

/// Returns the action for an agent without a policy: running programs and using the network require
/// an approval.
fn action_without_policy(needs: &BTreeSet<Permission>) -> PermissionAction {
    let asks = needs.contains(&Permission::Execute) || needs.contains(&Permission::Network);
    if asks {
        PermissionAction::Ask
    } else {
        PermissionAction::Allow
    }
}

/// Returns the text that patterns are matched with: a string itself, any other value as JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

//! Which rule decides about a call, and why.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use goondan_spec::kinds::{
    Action, MarkedArguments, Permission, PermissionRule, Permissions, RuleSandbox, Sandbox, Written,
};
use goondan_spec::pattern;
use serde_json::Value;

use super::paths::PathArguments;
use goondan_core::JsonObject;
use goondan_core::run_mode::{Containment, RunMode};
use goondan_core::shell::{self, Part, What};

/// A call that a policy decides about.
#[derive(Debug, Clone, Copy)]
pub struct PolicyQuestion<'a> {
    /// `resource__export`.
    pub tool_name: &'a str,
    /// What the export declares that it needs.
    pub needs: &'a BTreeSet<Permission>,
    /// The arguments.
    pub arguments: &'a JsonObject,
    /// The arguments whose meaning is known.
    pub marked: &'a MarkedArguments,
    /// Where the paths among them lead.
    pub paths: &'a PathArguments,
}

/// What was decided, and by what.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The strictest of what its parts say.
    pub action: Action,
    /// What decided, where there are no parts; else what decided about the first part that says so.
    pub because: Because,
    /// The commands of shell arguments and the paths of a patch or a list, one by one.
    pub parts: Vec<PartDecision>,
    /// A rule that restricts certain calls may match, too.
    pub in_doubt: bool,
}

/// What was decided about a part of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct PartDecision {
    /// The part.
    pub part: Part,
    /// What happens to it.
    pub action: Action,
    /// What decided.
    pub because: Because,
    /// What contains the command, or the opening of a file, where a pattern allows it.
    pub contained: Option<Containment>,
    /// A rule that restricts certain commands may match, too.
    pub in_doubt: bool,
}

impl Decision {
    /// How the command lines of a call are run, as far as this policy decides.
    pub fn run_mode(&self) -> RunMode {
        let mut mode = RunMode::Shell;
        for part in self.parts.iter().filter(|_| self.action == Action::Allow) {
            let is_folder = part.part.what == What::Command && part.part.command.is_none();
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
                Because::Rule {
                    by_pattern: true,
                    ..
                }
            ) {
                mode.make_direct();
            }
        }
        mode
    }
}

/// What decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    /// The agent states nothing: it reads and writes freely, and asks before it runs programs or uses the network.
    Unstated,
    /// No rule matches: `default`.
    Default,
    /// A rule, counted from 0 in the agent's list; no number where it is understood without being written.
    Rule {
        /// Its number.
        number: Option<usize>,
        /// Where it is written.
        written: Written,
        /// It allows a command by a pattern, not a line that somebody has written down whole.
        by_pattern: bool,
    },
    /// A restricting rule may or may not match what is not known before it runs.
    Doubt {
        /// Where that rule is written.
        written: Written,
    },
}

/// What `permissions` say about a call: the last matching rule, else the default. A shell command line, a patch and a list
/// of paths are taken to pieces, and what holds for the strictest piece holds for all of it.
pub fn decide(permissions: Option<&Permissions>, question: PolicyQuestion<'_>) -> Decision {
    let mut parts = Vec::new();
    let mut judge = |asked: Asked<'_>| {
        let judged = about_part(permissions, question, &asked);
        let contained = contained(permissions, question, &asked, &judged);
        let part = asked.part.clone();
        let Judged {
            action,
            because,
            in_doubt,
            ..
        } = judged;
        parts.push(PartDecision {
            part,
            action,
            because,
            contained,
            in_doubt,
        });
    };
    for (name, part) in variables(question) {
        let argument = question
            .marked
            .commands
            .first()
            .map_or(name, String::as_str);
        judge(Asked {
            argument,
            line: None,
            number: None,
            stays: true,
            part: &part,
        });
    }
    for (argument, part) in programs(question) {
        judge(Asked {
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
            judge(Asked {
                argument,
                line: None,
                number: None,
                stays: true,
                part,
            });
        }
        for part in shell::parts(line) {
            judge(Asked {
                argument,
                line: Some(line),
                number: None,
                stays: folder.is_none(),
                part: &part,
            });
        }
    }
    for (argument, number, given) in question.paths.listed() {
        let part = Part::path(given);
        judge(Asked {
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
            Decision {
                action: part.action,
                because: part.because.clone(),
                parts,
                in_doubt,
            }
        }
        None => {
            let Judged {
                action,
                because,
                in_doubt,
                ..
            } = about_call(permissions, question, None);
            Decision {
                action,
                because,
                parts,
                in_doubt,
            }
        }
    }
}

/// The folder in which a command line runs, where that lies outside of the working folder.
fn folder_outside(question: PolicyQuestion<'_>) -> Option<Part> {
    let outside = question
        .marked
        .folders
        .iter()
        .find(|name| !question.paths.is_inside(name))?;
    Some(Part::folder(question.arguments.get(outside)?.as_str()?))
}

/// Variables that a call sets beside what it runs, and the argument that they stand in. They hold for every command of a
/// line, as assignments before it do.
fn variables<'a>(question: PolicyQuestion<'a>) -> impl Iterator<Item = (&'a str, Part)> + 'a {
    let names = question.marked.environments.iter();
    names
        .filter_map(move |name| Some((name, question.arguments.get(name)?.as_object()?)))
        .flat_map(|(argument, variables)| {
            variables
                .iter()
                .map(|(name, value)| (argument.as_str(), Part::variable(name, &as_text(value))))
        })
}

/// Programs that read a script as what it is. Which of them does so changes nothing about what was judged.
const SHELLS: [&str; 6] = [
    "/bin/bash",
    "/bin/sh",
    "/usr/bin/bash",
    "/usr/bin/sh",
    "bash",
    "sh",
];

/// Other programs that a call names, and the arguments that they stand in.
fn programs<'a>(question: PolicyQuestion<'a>) -> impl Iterator<Item = (&'a str, Part)> + 'a {
    let named = question.marked.programs.iter();
    let named = named
        .filter_map(move |name| Some((name.as_str(), question.arguments.get(name)?.as_str()?)));
    named
        .filter(|(_, program)| !SHELLS.contains(program))
        .map(|(name, program)| (name, Part::program(program)))
}

/// The stricter of two actions: a callee never gets more than its callers have.
pub fn stricter(a: Action, b: Action) -> Action {
    if strictness(a) >= strictness(b) { a } else { b }
}

fn strictness(action: Action) -> u8 {
    match action {
        Action::Allow => 0,
        Action::Ask => 1,
        Action::Deny => 2,
    }
}

/// A part of what is in `argument`.
struct Asked<'a> {
    argument: &'a str,
    /// Which of the argument's paths the part is.
    number: Option<usize>,
    /// The line as a whole, where the part stands in it.
    line: Option<&'a str>,
    /// The line runs in the working folder.
    stays: bool,
    part: &'a Part,
}

impl Asked<'_> {
    /// Somebody wrote down this very command line.
    fn is_whole(&self, expected: &str) -> bool {
        !expected.contains(['*', '?']) && self.line == Some(expected)
    }
}

/// What was decided, and by which rule.
struct Judged<'p> {
    action: Action,
    because: Because,
    rule: Option<&'p PermissionRule>,
    in_doubt: bool,
}

fn about_part<'p>(
    permissions: Option<&'p Permissions>,
    question: PolicyQuestion<'_>,
    asked: &Asked<'_>,
) -> Judged<'p> {
    let (needed, inside) = match asked.part.what {
        What::Read { inside } => (Permission::Read, inside),
        What::Write { inside } => (Permission::Write, inside),
        _ => return about_call(permissions, question, Some(asked)),
    };
    // A redirection needs to read or to write, too. Where it may leave the working folder, that permission alone is not
    // enough: what the tool needs anyhow must suffice.
    let mut needs = question.needs.clone();
    needs.insert(needed);
    let opening = about_call(
        permissions,
        PolicyQuestion {
            needs: &needs,
            ..question
        },
        Some(asked),
    );
    if inside && asked.stays {
        // What a command that may run reads by itself, it may be given.
        let is_asked = needed == Permission::Read && opening.action == Action::Ask;
        return Judged {
            action: if is_asked {
                Action::Allow
            } else {
                opening.action
            },
            ..opening
        };
    }
    let running = about_call(permissions, question, Some(asked));
    // Both must allow it, so what contains either contains it.
    let is_held = |judged: &Judged<'_>| containing(asked, judged).is_some();
    match strictness(opening.action).cmp(&strictness(running.action)) {
        Ordering::Less => running,
        Ordering::Equal if is_held(&running) && !is_held(&opening) => running,
        Ordering::Equal | Ordering::Greater => opening,
    }
}

fn about_call<'p>(
    permissions: Option<&'p Permissions>,
    question: PolicyQuestion<'_>,
    asked: Option<&Asked<'_>>,
) -> Judged<'p> {
    let Some(permissions) = permissions else {
        return Judged {
            action: unstated(question.needs),
            because: Because::Unstated,
            rule: None,
            in_doubt: false,
        };
    };
    let mut doubt = None;
    let mut judged = Judged {
        action: permissions.default,
        because: Because::Default,
        rule: None,
        in_doubt: false,
    };
    for (number, rule) in permissions.rules.iter().enumerate().rev() {
        match fits(rule, question, asked) {
            Fit::Yes => {
                let number = rule.written.0.is_some().then_some(number);
                let by_pattern = allows_by_pattern(rule, asked);
                let because = Because::Rule {
                    number,
                    written: rule.written.clone(),
                    by_pattern,
                };
                judged = Judged {
                    action: rule.action,
                    because,
                    rule: Some(rule),
                    in_doubt: false,
                };
                break;
            }
            Fit::Perhaps => {
                doubt = doubt.or_else(|| {
                    Some(Because::Doubt {
                        written: rule.written.clone(),
                    })
                })
            }
            Fit::No => {}
        }
    }
    match doubt {
        Some(because) if judged.action == Action::Allow => Judged {
            action: Action::Ask,
            because,
            rule: None,
            in_doubt: true,
        },
        doubt => Judged {
            in_doubt: doubt.is_some(),
            ..judged
        },
    }
}

/// Whether a rule allows a command for what it looks like, and not a whole line for what it is.
fn allows_by_pattern(rule: &PermissionRule, asked: Option<&Asked<'_>>) -> bool {
    let Some(asked) = asked.filter(|asked| asked.line.is_some() && rule.action == Action::Allow)
    else {
        return false;
    };
    rule.args
        .get(asked.argument)
        .is_some_and(|pattern| !asked.is_whole(pattern))
}

/// What contains a command, or the opening of a file, that a pattern allows.
fn contained(
    permissions: Option<&Permissions>,
    question: PolicyQuestion<'_>,
    asked: &Asked<'_>,
    judged: &Judged<'_>,
) -> Option<Containment> {
    Some(containment(
        permissions,
        question,
        containing(asked, judged)?,
    ))
}

/// The sandbox of the pattern that allows a part. A rule that names the very place of a redirection opens it.
fn containing(asked: &Asked<'_>, judged: &Judged<'_>) -> Option<Sandbox> {
    let Because::Rule {
        by_pattern: true, ..
    } = judged.because
    else {
        return None;
    };
    let rule = judged.rule?;
    match &asked.part.file {
        Some(file) if names_place(rule.args.get(asked.argument)?, file) => return None,
        None if asked.part.what != What::Command => return None,
        _ => {}
    }
    match &rule.sandbox {
        RuleSandbox::Off => None,
        RuleSandbox::Usual => Some(Sandbox::default()),
        RuleSandbox::With(sandbox) => Some(sandbox.clone()),
    }
}

/// Whether a pattern spells out where a redirection leads, at least in its beginning: `> out/*` does, `> *` and `*` do not.
fn names_place(pattern: &str, file: &str) -> bool {
    let spelled = pattern.split(['*', '?']).next().unwrap_or_default();
    let sign = file.split_inclusive(' ').next().unwrap_or_default();
    spelled
        .strip_prefix(sign)
        .is_some_and(|path| path.contains(|c| !matches!(c, '.' | '/' | ' ' | '\'' | '"')))
}

/// What contains a command that somebody allows by a pattern.
pub(super) fn containment(
    permissions: Option<&Permissions>,
    question: PolicyQuestion<'_>,
    mut sandbox: Sandbox,
) -> Containment {
    sandbox.programs.get_or_insert_default();
    sandbox.network |= opens_network(permissions, question.tool_name);
    let writes =
        by_permission(permissions, question.tool_name, Permission::Write) != (Action::Deny, true);
    Containment { sandbox, writes }
}

/// Whether commands of a tool that a pattern allows reach the network, since the policy allows that anyway.
pub fn opens_network(permissions: Option<&Permissions>, tool_name: &str) -> bool {
    by_permission(permissions, tool_name, Permission::Network).0 == Action::Allow
}

/// What a policy says about a permission of a tool whatever the arguments are, and whether a rule says so.
fn by_permission(
    permissions: Option<&Permissions>,
    tool_name: &str,
    one: Permission,
) -> (Action, bool) {
    let Some(permissions) = permissions else {
        return (unstated(&BTreeSet::from([one])), false);
    };
    let is_about = |rule: &&PermissionRule| {
        rule.args.is_empty()
            && rule.permission.is_none_or(|permission| permission == one)
            && rule
                .tool
                .as_ref()
                .is_none_or(|tool| pattern::matches(tool, tool_name))
    };
    let rule = permissions.rules.iter().rev().find(is_about);
    rule.map_or((permissions.default, false), |rule| (rule.action, true))
}

/// Whether a rule is about a call, the surest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    No,
    /// A restriction of which nobody can tell.
    Perhaps,
    Yes,
}

fn fits(rule: &PermissionRule, question: PolicyQuestion<'_>, asked: Option<&Asked<'_>>) -> Fit {
    let is_about = rule
        .tool
        .as_ref()
        .is_none_or(|tool| pattern::matches(tool, question.tool_name))
        && rule
            .permission
            .is_none_or(|permission| question.needs.contains(&permission));
    // What a rule allows by its arguments it does not allow with any variable, or with any program to read them.
    let is_silent = |asked: &Asked<'_>| {
        matches!(asked.part.what, What::Variable | What::Program)
            && !rule.args.is_empty()
            && !rule.args.contains_key(asked.argument)
    };
    if !is_about || (rule.action == Action::Allow && asked.is_some_and(is_silent)) {
        return Fit::No;
    }
    let argument = |(name, expected): (&String, &String)| {
        let asked = asked.filter(|asked| asked.argument == name);
        let number = asked.and_then(|asked| asked.number);
        let as_path = || question.paths.fit(name, number, expected, rule.action);
        match asked {
            Some(asked) if number.is_none() => fits_part(rule.action, expected, asked),
            _ => as_path().unwrap_or_else(|| fits_text(expected, question.arguments.get(name))),
        }
    };
    rule.args.iter().map(argument).min().unwrap_or(Fit::Yes)
}

fn fits_text(expected: &str, value: Option<&Value>) -> Fit {
    if value.is_some_and(|value| pattern::matches(expected, &as_text(value))) {
        Fit::Yes
    } else {
        Fit::No
    }
}

/// Whether the pattern of a rule is about a part. What allows must match for certain and as a whole; what restricts is
/// about everything that it may match.
fn fits_part(action: Action, expected: &str, asked: &Asked<'_>) -> Fit {
    if asked.is_whole(expected) {
        return Fit::Yes;
    }
    let part = asked.part;
    let is_hidden = matches!(part.what, What::Hidden { .. });
    match action {
        Action::Allow if !is_hidden && pattern::always_matches(expected, &part.whole) => Fit::Yes,
        Action::Allow => Fit::No,
        _ if part
            .names
            .iter()
            .any(|name| pattern::always_matches(expected, name)) =>
        {
            Fit::Yes
        }
        _ if is_hidden
            || part
                .names
                .iter()
                .any(|name| pattern::may_match(expected, name)) =>
        {
            Fit::Perhaps
        }
        _ => Fit::No,
    }
}

fn unstated(needs: &BTreeSet<Permission>) -> Action {
    let asks = needs.contains(&Permission::Execute) || needs.contains(&Permission::Network);
    if asks { Action::Ask } else { Action::Allow }
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

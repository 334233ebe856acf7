//! Which rule decides about a call, and why.

use std::collections::BTreeSet;

use goondan_spec::kinds::{Action, MarkedArguments, Permission, PermissionRule, Permissions, Written};
use goondan_spec::pattern;
use serde_json::Value;

use super::paths::PathArguments;
use super::shell::{self, Part, What};
use crate::JsonObject;

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
    let commands = &question.marked.commands;
    let lines = commands.iter().filter_map(|name| Some((name.as_str(), question.arguments.get(name)?.as_str()?)));
    let mut parts = Vec::new();
    for (argument, line) in lines {
        let in_line = shell::parts(line).into_iter();
        for part in variables(question).chain(in_line) {
            let line = (part.what != What::Variable).then_some(line);
            let (action, because) =
                about_part(permissions, question, &Asked { argument, line, number: None, part: &part });
            parts.push(PartDecision { part, action, because });
        }
    }
    for (argument, number, given) in question.paths.listed() {
        let part = Part::path(given);
        let asked = Asked { argument, line: None, number: Some(number), part: &part };
        let (action, because) = about_part(permissions, question, &asked);
        parts.push(PartDecision { part, action, because });
    }
    let strictest = parts.iter().rev().max_by_key(|part| strictness(part.action));
    match strictest {
        Some(part) => Decision { action: part.action, because: part.because.clone(), parts },
        None => {
            let (action, because) = about_call(permissions, question, None);
            Decision { action, because, parts }
        }
    }
}

/// Variables that a call sets beside its command line. They hold for every command in it, as assignments before it do.
fn variables<'a>(question: PolicyQuestion<'a>) -> impl Iterator<Item = Part> + 'a {
    let objects = question.marked.environments.iter().filter_map(move |name| question.arguments.get(name)?.as_object());
    objects.flatten().map(|(name, value)| Part::variable(name, &as_text(value)))
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
    part: &'a Part,
}

fn about_part(permissions: Option<&Permissions>, question: PolicyQuestion<'_>, asked: &Asked<'_>) -> (Action, Because) {
    let What::Write { inside } = asked.part.what else { return about_call(permissions, question, Some(asked)) };
    // A redirection needs to write, too. Where it may leave the working folder, the permission to write alone is not
    // enough: what the tool needs anyhow must suffice.
    let mut needs = question.needs.clone();
    needs.insert(Permission::Write);
    let writing = about_call(permissions, PolicyQuestion { needs: &needs, ..question }, Some(asked));
    if inside {
        return writing;
    }
    let running = about_call(permissions, question, Some(asked));
    if strictness(writing.0) >= strictness(running.0) { writing } else { running }
}

fn about_call(
    permissions: Option<&Permissions>,
    question: PolicyQuestion<'_>,
    asked: Option<&Asked<'_>>,
) -> (Action, Because) {
    let Some(permissions) = permissions else { return (unstated(question.needs), Because::Unstated) };
    let mut doubt = None;
    let mut found = None;
    for (number, rule) in permissions.rules.iter().enumerate().rev() {
        match fits(rule, question, asked) {
            Fit::Yes => {
                let number = rule.written.0.is_some().then_some(number);
                found = Some((rule.action, Because::Rule { number, written: rule.written.clone() }));
                break;
            }
            Fit::Perhaps => doubt = doubt.or_else(|| Some(Because::Doubt { written: rule.written.clone() })),
            Fit::No => {}
        }
    }
    let (action, because) = found.unwrap_or((permissions.default, Because::Default));
    match doubt {
        Some(doubt) if action == Action::Allow => (Action::Ask, doubt),
        _ => (action, because),
    }
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
    let is_about = rule.tool.as_ref().is_none_or(|tool| pattern::matches(tool, question.tool_name))
        && rule.permission.is_none_or(|permission| question.needs.contains(&permission));
    if !is_about {
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
    if value.is_some_and(|value| pattern::matches(expected, &as_text(value))) { Fit::Yes } else { Fit::No }
}

/// Whether the pattern of a rule is about a part. What allows must match for certain and as a whole; what restricts is
/// about everything that it may match.
fn fits_part(action: Action, expected: &str, asked: &Asked<'_>) -> Fit {
    // Somebody wrote down this very command line.
    if !expected.contains(['*', '?']) && asked.line == Some(expected) {
        return Fit::Yes;
    }
    let part = asked.part;
    let is_hidden = matches!(part.what, What::Hidden { .. });
    match action {
        Action::Allow if !is_hidden && pattern::always_matches(expected, &part.whole) => Fit::Yes,
        Action::Allow => Fit::No,
        _ if part.names.iter().any(|name| pattern::always_matches(expected, name)) => Fit::Yes,
        _ if is_hidden || part.names.iter().any(|name| pattern::may_match(expected, name)) => Fit::Perhaps,
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

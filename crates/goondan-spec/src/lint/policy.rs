//! Permission rules that never decide anything (rule S1).

use std::collections::{HashMap, HashSet};

use crate::ResourceId;
use crate::bundle::{Decoded, Resource};
use crate::command_line;
use crate::diagnostic::{Code, Diagnostic};
use crate::kinds::{
    Action, Agent, Entry, ExportSpec, PATCHED, PermissionRule, SKILL_EXPORT, Tool, qualified_name,
};
use crate::pattern::{Atom, always_matches, atoms, may_match, pattern_atoms};
use crate::text::{excerpt, list};

pub(super) fn lint(decoded: &Decoded) -> Vec<Diagnostic> {
    let swarms = swarms_by_agent(decoded);
    let mut reaches = HashMap::new();
    let mut found = Vec::new();
    for agent in decoded.agents.values() {
        let rules = agent
            .spec
            .permissions
            .as_ref()
            .map(|permissions| permissions.rules.as_slice())
            .unwrap_or_default();
        if rules.is_empty() {
            continue;
        }
        // Agents of the same swarms reach the same tools. One that is in no swarm reaches its own.
        let group = match swarms.get(&agent.id) {
            Some(swarms) => Group::Swarms(swarms),
            None => Group::Alone(&agent.id),
        };
        let tools = reaches
            .entry(group)
            .or_insert_with(|| reachable(group, decoded));
        found.extend(of_agent(agent, rules, tools, decoded));
    }
    found
}

/// Agents that reach the same tools.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Group<'d> {
    Alone(&'d ResourceId),
    Swarms(&'d [&'d ResourceId]),
}

fn swarms_by_agent(decoded: &Decoded) -> HashMap<&ResourceId, Vec<&ResourceId>> {
    let mut by_agent: HashMap<_, Vec<_>> = HashMap::new();
    for swarm in decoded.swarms.values() {
        for agent in &swarm.spec.agents {
            by_agent.entry(agent).or_default().push(&swarm.id);
        }
    }
    by_agent
}

fn of_agent(
    agent: &Resource<Agent>,
    rules: &[PermissionRule],
    tools: &Reachable,
    decoded: &Decoded,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let later = rules.get(index + 1..).unwrap_or_default();
        let shadow = later.iter().find(|later| covers(later, rule));
        let problem = shadow
            .map(shadowed)
            .or_else(|| idle(rule, tools))
            .or_else(|| elsewhere(rule, agent, decoded));
        let problem = problem.or_else(|| unreadable(rule, agent, decoded));
        let about = problem.and_then(|problem| warning(agent, rule, index, problem));
        found.extend(about);
    }
    found
}

/// What is wrong with a rule, and what to do about it.
struct Problem {
    reason: String,
    remedy: String,
}

fn warning(
    agent: &Resource<Agent>,
    rule: &PermissionRule,
    index: usize,
    problem: Problem,
) -> Option<Diagnostic> {
    let (file, at) = rule.written.0.clone()?;
    let first = agent
        .spec
        .permissions
        .iter()
        .flat_map(|permissions| &permissions.rules);
    let unwritten = first.take_while(|rule| rule.written.0.is_none()).count();
    let message = format!("This rule never decides: {}.", problem.reason);
    let field = format!(
        "spec.permissions.rules[{}]",
        index.saturating_sub(unwritten)
    );
    let diagnostic = Diagnostic::new(Code::DEAD_RULE, message)
        .in_file(file)
        .at(at)
        .of(&agent.id);
    Some(diagnostic.field(field).suggest(problem.remedy))
}

fn shadowed(by: &PermissionRule) -> Problem {
    let line = by
        .written
        .0
        .as_ref()
        .map(|(_, at)| format!(" in line {}", at.line))
        .unwrap_or_default();
    Problem {
        reason: format!(
            "the later rule{line} matches every call that it matches, and the last match wins"
        ),
        remedy: "put it behind the other one, or remove it".to_owned(),
    }
}

/// A rule about tools that neither the agent nor anybody it could call has. Rules hold for callees, too (rule S1b).
fn idle(rule: &PermissionRule, tools: &Reachable) -> Option<Problem> {
    let pattern = rule.tool.as_deref()?;
    if tools.names.iter().any(|name| may_match(pattern, name)) {
        return None;
    }
    let known: Vec<&String> = tools.resources.iter().collect();
    let remedy = match known.as_slice() {
        [] => "give the agent a tool, or remove the rule".to_owned(),
        some => format!(
            "names have the form `tool__export`; the tools in reach are {}",
            list(some, 12)
        ),
    };
    Some(Problem {
        reason: format!(
            "no tool in the agent's reach has a name like `{}`",
            excerpt(pattern, 80)
        ),
        remedy,
    })
}

/// A rule about a path that no call has: `~` is nobody's home there, and what allows a path outside of the working folder
/// changes nothing for tools that do not leave it.
fn elsewhere(rule: &PermissionRule, agent: &Resource<Agent>, decoded: &Decoded) -> Option<Problem> {
    let (name, pattern) = rule
        .args
        .iter()
        .find(|(_, pattern)| pattern.starts_with("~/") || pattern.starts_with("../"))?;
    let is_about = |tool: &Resource<Tool>, export: &ExportSpec| {
        let marked = export.marked_arguments();
        let is_path = [&marked.paths, &marked.trees]
            .into_iter()
            .any(|names| names.contains(name));
        let fits = |pattern: &String| {
            may_match(
                pattern,
                &atoms(&qualified_name(&tool.id.name, &export.name)),
            )
        };
        (is_path || (!marked.patches.is_empty() && name == PATCHED))
            && rule.tool.as_ref().is_none_or(fits)
    };
    let used = agent
        .spec
        .tools
        .iter()
        .filter_map(|used| decoded.tools.get(&used.tool).map(AsRef::as_ref));
    let about: Vec<&Resource<Tool>> = used
        .filter(|tool| {
            tool.spec
                .exports
                .iter()
                .any(|export| is_about(tool, export))
        })
        .collect();
    if about.is_empty() {
        return None;
    }
    let shown = excerpt(pattern, 80);
    if pattern.starts_with('~') {
        let reason = format!("no path is compared in the form `{shown}`");
        let remedy = "write an absolute path, or one seen from the working folder".to_owned();
        return Some(Problem { reason, remedy });
    }
    let stays = |tool: &&Resource<Tool>| {
        matches!(tool.spec.entry, Entry::Builtin(_)) && !tool.spec.config.contains_key("roots")
    };
    (rule.action == Action::Allow && about.iter().all(stays)).then(|| Problem {
        reason: format!("`{shown}` lies outside of the working folder, which {} do not leave", list_of(&about)),
        remedy: "open the folder in `config.roots` of a Tool with `entry: builtin:fs`, or remove the rule".to_owned(),
    })
}

/// A rule that allows by a pattern what no single command looks like: only a shell can run that, and what a shell runs is
/// allowed as a whole or not at all.
fn unreadable(
    rule: &PermissionRule,
    agent: &Resource<Agent>,
    decoded: &Decoded,
) -> Option<Problem> {
    if rule.action != Action::Allow {
        return None;
    }
    let commands = command_arguments(rule, agent, decoded);
    let patterns = rule
        .args
        .iter()
        .filter(|(name, pattern)| commands.contains(*name) && pattern.contains(['*', '?']));
    let mut found = patterns.filter_map(|(_, pattern)| Some((pattern, no_command(pattern)?)));
    found.next().map(|(pattern, reason)| Problem {
        reason: format!("a pattern allows single commands, and `{}` {reason}", excerpt(pattern, 80)),
        remedy: "write a line that takes a shell as a whole, without `*` and `?`; or allow the tool without `args`"
            .to_owned(),
    })
}

/// Why a pattern matches no command; nothing where it may match one, a redirection or a variable.
fn no_command(pattern: &str) -> Option<String> {
    let sample = pattern.replace(['*', '?'], "x");
    let is_variable = || {
        sample
            .split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && !name.contains(' '))
    };
    if sample.starts_with(['<', '>']) {
        return None;
    }
    match command_line::parse(&sample) {
        Err(_) if is_variable() => None,
        Err(beyond) => Some(beyond.0),
        Ok(script) => match script.steps.as_slice() {
            [only] if only.stages.len() == 1 => None,
            _ => Some("is several".to_owned()),
        },
    }
}

/// The arguments of the agent's tools that are command lines.
fn command_arguments(
    rule: &PermissionRule,
    agent: &Resource<Agent>,
    decoded: &Decoded,
) -> HashSet<String> {
    let used = agent
        .spec
        .tools
        .iter()
        .filter_map(|used| decoded.tools.get(&used.tool).map(AsRef::as_ref));
    let exports = used.flat_map(|tool| {
        tool.spec
            .exports
            .iter()
            .map(|export| (&tool.id.name, export))
    });
    let fits = |(tool, export): &(&String, &ExportSpec)| {
        let name = qualified_name(tool, &export.name);
        rule.tool
            .as_ref()
            .is_none_or(|pattern| may_match(pattern, &atoms(&name)))
    };
    exports
        .filter(fits)
        .flat_map(|(_, export)| export.marked_arguments().commands)
        .collect()
}

fn list_of(tools: &[&Resource<Tool>]) -> String {
    list(
        &tools
            .iter()
            .map(|tool| tool.id.to_string())
            .collect::<Vec<_>>(),
        4,
    )
}

/// The tools of agents and of all agents that they may call.
struct Reachable {
    /// Names, in part unknown where an entry does not say its exports.
    names: Vec<Vec<Atom>>,
    resources: Vec<String>,
}

fn reachable(group: Group<'_>, decoded: &Decoded) -> Reachable {
    let agents: HashSet<&ResourceId> = match group {
        Group::Alone(agent) => HashSet::from([agent]),
        Group::Swarms(swarms) => swarms
            .iter()
            .filter_map(|id| decoded.swarms.get(*id))
            .flat_map(|swarm| &swarm.spec.agents)
            .collect(),
    };
    let mut reachable = Reachable {
        names: Vec::new(),
        resources: Vec::new(),
    };
    let agents: Vec<_> = agents
        .into_iter()
        .filter_map(|id| decoded.agents.get(id))
        .collect();
    if agents.iter().any(|agent| !agent.spec.skills.is_empty()) {
        reachable
            .names
            .push(atoms(&qualified_name(SKILL_EXPORT.0, SKILL_EXPORT.1)));
        reachable.resources.push(SKILL_EXPORT.0.to_owned());
    }
    let uses = agents.into_iter().flat_map(|agent| &agent.spec.tools);
    for used in uses {
        let exports = decoded
            .tools
            .get(&used.tool)
            .map(|tool| &*tool.spec.exports)
            .unwrap_or_default();
        if exports.is_empty() {
            let prefix = atoms(&qualified_name(&used.tool.name, ""));
            reachable.names.push([prefix, vec![Atom::Any]].concat());
        }
        reachable.names.extend(
            exports
                .iter()
                .map(|export| atoms(&qualified_name(&used.tool.name, &export.name))),
        );
        reachable.resources.push(used.tool.name.clone());
    }
    // Extensions may bring tools of their own.
    if decoded
        .agents
        .values()
        .any(|agent| !agent.spec.extensions.is_empty())
    {
        reachable
            .names
            .push(vec![Atom::Any, Atom::Char('_'), Atom::Char('_'), Atom::Any]);
    }
    reachable.resources.sort();
    reachable.resources.dedup();
    reachable
}

/// Whether `later` matches every call that `rule` matches.
fn covers(later: &PermissionRule, rule: &PermissionRule) -> bool {
    // What allows does not match commands that are hidden; what restricts may.
    let is_certain =
        later.args.is_empty() || later.action != Action::Allow || rule.action == Action::Allow;
    let wider = |later: &Option<String>, rule: &Option<String>| match (later, rule) {
        (None, _) => true,
        (Some(later), Some(rule)) => always_matches(later, &pattern_atoms(rule)),
        (Some(later), None) => later.chars().all(|c| c == '*') && !later.is_empty(),
    };
    let args = later.args.iter().all(|(name, later)| {
        rule.args
            .get(name)
            .is_some_and(|rule| always_matches(later, &pattern_atoms(rule)))
    });
    let permission = later.permission.is_none() || later.permission == rule.permission;
    is_certain && permission && args && wider(&later.tool, &rule.tool)
}

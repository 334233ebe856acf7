//! Warns about permission rules that never apply (rule S1).

use std::collections::{HashMap, HashSet};

use crate::ResourceId;
use crate::command_line;
use crate::decoded_resources::DecodedResources;
use crate::diagnostic::{Code, Diagnostic};
use crate::kinds::{
    Agent, ExportSpec, PATCHED_PATH_ARGUMENT, PermissionAction, PermissionRule, SKILL_EXPORT, Tool,
    ToolEntry, qualified_name,
};
use crate::pattern::{PatternAtom, always_matches, atoms, may_match, pattern_atoms};
use crate::resource::Resource;
use crate::text::{excerpt, format_list};

/// Returns warnings about permission rules that have no effect.
pub(super) fn lint(decoded: &DecodedResources) -> Vec<Diagnostic> {
    let swarms = swarms_by_agent(decoded);
    let mut reaches = HashMap::new();
    let mut diagnostics = Vec::new();
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
        // Agents of the same swarms can call the same tools. An agent without a swarm only has its
        // own.
        let group = match swarms.get(&agent.id) {
            Some(swarms) => AgentGroup::Swarms(swarms),
            None => AgentGroup::Alone(&agent.id),
        };
        let tools = reaches
            .entry(group)
            .or_insert_with(|| reachable_tools(group, decoded));
        diagnostics.extend(lint_agent(agent, rules, tools, decoded));
    }
    diagnostics
}

/// Agents that can call the same tools.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum AgentGroup<'d> {
    Alone(&'d ResourceId),
    Swarms(&'d [&'d ResourceId]),
}

fn swarms_by_agent(decoded: &DecodedResources) -> HashMap<&ResourceId, Vec<&ResourceId>> {
    let mut swarms_by_agent: HashMap<_, Vec<_>> = HashMap::new();
    for swarm in decoded.swarms.values() {
        for agent in &swarm.spec.agents {
            swarms_by_agent.entry(agent).or_default().push(&swarm.id);
        }
    }
    swarms_by_agent
}

/// Returns warnings about the rules of one agent that have no effect.
fn lint_agent(
    agent: &Resource<Agent>,
    rules: &[PermissionRule],
    tools: &ReachableTools,
    decoded: &DecodedResources,
) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let later = rules.get(index + 1..).unwrap_or_default();
        let shadow = later.iter().find(|later| covers(later, rule));
        let problem = shadow
            .map(shadowed_problem)
            .or_else(|| without_tool(rule, tools))
            .or_else(|| unreachable_path(rule, agent, decoded));
        let problem = problem.or_else(|| unmatchable_command(rule, agent, decoded));
        let diagnostic = problem.and_then(|problem| rule_warning(agent, rule, index, problem));
        diagnostics.extend(diagnostic);
    }
    diagnostics
}

struct RuleProblem {
    reason: String,
    remedy: String,
}

/// Creates the warning for a rule; `None` if the rule is not written in a file. `index` counts
/// inherited rules.
fn rule_warning(
    agent: &Resource<Agent>,
    rule: &PermissionRule,
    index: usize,
    problem: RuleProblem,
) -> Option<Diagnostic> {
    let (file, at) = rule.written.0.clone()?;
    let first = agent
        .spec
        .permissions
        .iter()
        .flat_map(|permissions| &permissions.rules);
    let unwritten = first.take_while(|rule| rule.written.0.is_none()).count();
    let message = format!("This rule has no effect: {}.", problem.reason);
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

/// Describes a rule that a later rule overrides completely.
fn shadowed_problem(by: &PermissionRule) -> RuleProblem {
    let line = by
        .written
        .0
        .as_ref()
        .map(|(_, at)| format!(" in line {}", at.line))
        .unwrap_or_default();
    RuleProblem {
        reason: format!(
            "the later rule{line} matches every call of this rule, and the last match wins"
        ),
        remedy: "move it after the later rule, or remove it".to_owned(),
    }
}

/// Reports a rule about tools that neither the agent nor any agent it could call has. Rules also
/// apply to callees (rule S1b).
fn without_tool(rule: &PermissionRule, tools: &ReachableTools) -> Option<RuleProblem> {
    let pattern = rule.tool.as_deref()?;
    if tools.names.iter().any(|name| may_match(pattern, name)) {
        return None;
    }
    let known_tools: Vec<&String> = tools.resources.iter().collect();
    let remedy = match known_tools.as_slice() {
        [] => "give the agent a tool, or remove the rule".to_owned(),
        some => format!(
            "names have the form `tool__export`; the tools of the agent and of the agents that \
            it can call are {}",
            format_list(some, 12)
        ),
    };
    Some(RuleProblem {
        reason: format!(
            "neither the agent nor an agent that it can call has a tool that matches `{}`",
            excerpt(pattern, 80)
        ),
        remedy,
    })
}

/// Reports a rule about a path that no call has. `~` is never expanded there. Allowing a path
/// outside the working directory has no effect on tools that stay inside it.
fn unreachable_path(
    rule: &PermissionRule,
    agent: &Resource<Agent>,
    decoded: &DecodedResources,
) -> Option<RuleProblem> {
    let (name, pattern) = rule
        .args
        .iter()
        .find(|(_, pattern)| pattern.starts_with("~/") || pattern.starts_with("../"))?;
    let is_about = |tool: &Resource<Tool>, export: &ExportSpec| {
        let marked = export.marked_arguments();
        let is_path = [&marked.paths, &marked.trees]
            .into_iter()
            .any(|names| names.contains(name));
        let may_match = |pattern: &String| {
            may_match(
                pattern,
                &atoms(&qualified_name(&tool.id.name, &export.name)),
            )
        };
        (is_path || (!marked.patches.is_empty() && name == PATCHED_PATH_ARGUMENT))
            && rule.tool.as_ref().is_none_or(may_match)
    };
    let used_tools = agent
        .spec
        .tools
        .iter()
        .filter_map(|used| decoded.tools.get(&used.tool).map(AsRef::as_ref));
    let about: Vec<&Resource<Tool>> = used_tools
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
    let pattern_excerpt = excerpt(pattern, 80);
    if pattern.starts_with('~') {
        let reason = format!("paths are never compared in the form `{pattern_excerpt}`");
        let remedy =
            "write an absolute path, or a path relative to the working directory".to_owned();
        return Some(RuleProblem { reason, remedy });
    }
    let stays_inside = |tool: &&Resource<Tool>| {
        matches!(tool.spec.entry, ToolEntry::Builtin(_)) && !tool.spec.config.contains_key("roots")
    };
    (rule.action == PermissionAction::Allow && about.iter().all(stays_inside)).then(|| RuleProblem {
        reason: format!(
            "`{pattern_excerpt}` is outside the working directory, and {} cannot leave that directory",
            format_tools(&about)
        ),
        remedy: "add the directory to `config.roots` of a Tool with `entry: builtin:fs`, or \
            remove the rule"
            .to_owned(),
    })
}

/// Reports an allow rule whose pattern matches no single command. Only a shell can run such a line,
/// and shell lines are allowed completely or not at all.
fn unmatchable_command(
    rule: &PermissionRule,
    agent: &Resource<Agent>,
    decoded: &DecodedResources,
) -> Option<RuleProblem> {
    if rule.action != PermissionAction::Allow {
        return None;
    }
    let commands = command_arguments(rule, agent, decoded);
    let patterns = rule
        .args
        .iter()
        .filter(|(name, pattern)| commands.contains(*name) && pattern.contains(['*', '?']));
    let mut unmatchable =
        patterns.filter_map(|(_, pattern)| Some((pattern, why_no_command(pattern)?)));
    unmatchable.next().map(|(pattern, reason)| RuleProblem {
        reason: format!(
            "a pattern allows only single commands, but `{}` {reason}",
            excerpt(pattern, 80)
        ),
        remedy:
            "write the whole command line without `*` and `?`, or allow the tool without `args`"
                .to_owned(),
    })
}

/// Returns why a pattern matches no command. `None` if it may match a command, a redirection or a
/// variable.
fn why_no_command(pattern: &str) -> Option<String> {
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
            _ => Some("contains several commands".to_owned()),
        },
    }
}

/// Returns the command-line arguments of the agent's tools that the rule covers.
fn command_arguments(
    rule: &PermissionRule,
    agent: &Resource<Agent>,
    decoded: &DecodedResources,
) -> HashSet<String> {
    let used_tools = agent
        .spec
        .tools
        .iter()
        .filter_map(|used| decoded.tools.get(&used.tool).map(AsRef::as_ref));
    let exports = used_tools.flat_map(|tool| {
        tool.spec
            .exports
            .iter()
            .map(|export| (&tool.id.name, export))
    });
    let is_selected = |(tool, export): &(&String, &ExportSpec)| {
        let name = qualified_name(tool, &export.name);
        rule.tool
            .as_ref()
            .is_none_or(|pattern| may_match(pattern, &atoms(&name)))
    };
    exports
        .filter(is_selected)
        .flat_map(|(_, export)| export.marked_arguments().commands)
        .collect()
}

/// Formats a list of tools.
fn format_tools(tools: &[&Resource<Tool>]) -> String {
    format_list(
        &tools
            .iter()
            .map(|tool| tool.id.to_string())
            .collect::<Vec<_>>(),
        4,
    )
}

/// Tools of agents and of all agents that they may call.
struct ReachableTools {
    /// Tool names. The export part is unknown if the entry does not declare its exports.
    names: Vec<Vec<PatternAtom>>,
    resources: Vec<String>,
}

/// Returns the tools that the agents of the group can call.
fn reachable_tools(group: AgentGroup<'_>, decoded: &DecodedResources) -> ReachableTools {
    let agents: HashSet<&ResourceId> = match group {
        AgentGroup::Alone(agent) => HashSet::from([agent]),
        AgentGroup::Swarms(swarms) => swarms
            .iter()
            .filter_map(|id| decoded.swarms.get(*id))
            .flat_map(|swarm| &swarm.spec.agents)
            .collect(),
    };
    let mut reachable = ReachableTools {
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
            reachable
                .names
                .push([prefix, vec![PatternAtom::Any]].concat());
        }
        reachable.names.extend(
            exports
                .iter()
                .map(|export| atoms(&qualified_name(&used.tool.name, &export.name))),
        );
        reachable.resources.push(used.tool.name.clone());
    }
    // Extensions may add their own tools.
    if decoded
        .agents
        .values()
        .any(|agent| !agent.spec.extensions.is_empty())
    {
        reachable.names.push(vec![
            PatternAtom::Any,
            PatternAtom::Char('_'),
            PatternAtom::Char('_'),
            PatternAtom::Any,
        ]);
    }
    reachable.resources.sort();
    reachable.resources.dedup();
    reachable
}

/// Returns true if `later` matches every call that `rule` matches.
fn covers(later: &PermissionRule, rule: &PermissionRule) -> bool {
    // An allow rule does not match hidden commands, but a restricting rule may.
    let is_certain = later.args.is_empty()
        || later.action != PermissionAction::Allow
        || rule.action == PermissionAction::Allow;
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

//! Duties that agents cannot fulfill in their swarm: required calls that no one can approve, answers
//! that go nowhere, sub-agents without tools, and agents that nothing can reach.

mod answers;
mod reach;

use goondan_spec::kinds::{Agent, ToolEntry, ToolUse};
use goondan_spec::{Bundle, Code, Diagnostic, Resource, ResourceId};

/// Returns a warning for each duty that an agent of `swarm` cannot fulfill.
pub(crate) fn of_swarm(bundle: &Bundle, swarm: &ResourceId) -> Vec<Diagnostic> {
    let mut warnings = answers::check(bundle, swarm);
    warnings.extend(reach::check(bundle, swarm));
    warnings
}

/// Returns true if `code` warns of a duty that an agent cannot fulfill. Duty warnings depend only on
/// the YAML.
pub(crate) fn is_duty(code: Code) -> bool {
    const CODES: [Code; 5] = [
        Code::NO_APPROVER,
        Code::LOST_ANSWER,
        Code::UNREACHABLE_AGENT,
        Code::IDLE_SUBAGENT,
        Code::SEPARATE_WORKDIRS,
    ];
    CODES.contains(&code)
}

/// Returns the warnings of all swarms, each once.
pub(super) fn check(bundle: &Bundle) -> Vec<Diagnostic> {
    let mut warnings: Vec<Diagnostic> = Vec::new();
    for swarm in bundle.swarms().keys() {
        for warning in of_swarm(bundle, swarm) {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

/// Returns the agents of a swarm.
fn agents_of<'b>(
    bundle: &'b Bundle,
    swarm: &ResourceId,
) -> impl Iterator<Item = &'b Resource<Agent>> {
    let swarm = bundle.swarms().get(swarm);
    let ids = swarm.into_iter().flat_map(|swarm| &swarm.spec.agents);
    ids.filter_map(|id| bundle.agents().get(id).map(AsRef::as_ref))
}

/// Returns the built-in tool that a tool reference leads to.
fn builtin<'b>(bundle: &'b Bundle, used: &ToolUse) -> Option<&'b str> {
    match &bundle.tools().get(&used.tool)?.spec.entry {
        ToolEntry::Builtin(name) => Some(name),
        _ => None,
    }
}

/// Returns the used exports of a tool reference.
fn used_exports<'b>(bundle: &'b Bundle, used: &'b ToolUse) -> impl Iterator<Item = &'b str> {
    let tool = bundle.tools().get(&used.tool);
    let exports = tool.into_iter().flat_map(|tool| tool.spec.exports.iter());
    let names = exports.map(|export| export.name.as_str());
    names.filter(|name| used.selects(name))
}

/// Creates a warning about a field of a resource.
fn warning<T>(code: Code, resource: &Resource<T>, field: &str, message: String) -> Diagnostic {
    let diagnostic = Diagnostic::new(code, message).of(&resource.id).field(field);
    match &resource.origin {
        Some((file, at)) => diagnostic.in_file(file.clone()).at(*at),
        None => diagnostic,
    }
}

//! Policy for an agent's tool calls (rule S1).

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::agent::{ToolUse, record_tool_link};
use super::sandbox::{self, AgentSandboxShape, RuleSandbox, RuleSandboxShape, SandboxSettings};
use super::source_location::SourceLocation;
use super::{
    DecodeScope, ExportSpec, PATCHED_PATH_ARGUMENT, Permission, ToolEntry, qualified_name,
};
use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;
use crate::pattern;
use crate::text::{closest, excerpt, format_list};

/// Policy of an agent. The last matching rule decides, else the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Action for calls that no rule matches.
    pub default: PermissionAction,
    /// Rules in file order.
    pub rules: Vec<PermissionRule>,
    /// Sandbox for programs that the agent's tools run, and for programs of agents that it calls.
    pub sandbox: Option<SandboxSettings>,
}

/// Rule that matches a call if all stated conditions match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    /// Pattern ([`crate::pattern`]) for `resource__export`.
    pub tool: Option<String>,
    /// Permission that the export declares.
    pub permission: Option<Permission>,
    /// Patterns for arguments, by name. In a shell command line, each command is matched
    /// separately.
    pub args: BTreeMap<String, String>,
    /// Action for matching calls.
    pub action: PermissionAction,
    /// Sandbox for commands that the rule allows by a pattern.
    pub sandbox: RuleSandbox,
    /// Position of the rule.
    pub written: SourceLocation,
}

/// The action for a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Action")]
pub enum PermissionAction {
    /// The call runs.
    Allow,
    /// The call runs after a user approves it.
    Ask,
    /// The call is refused.
    Deny,
}

/// Longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 500;

const ACTIONS: [(&str, PermissionAction); 3] = [
    ("allow", PermissionAction::Allow),
    ("ask", PermissionAction::Ask),
    ("deny", PermissionAction::Deny),
];

/// Reads `permissions` of an Agent.
pub(super) fn read(
    field: &FieldReader<'_>,
    tools: &[ToolUse],
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Permissions> {
    let mut fields = field.fields(findings)?;
    let default = fields
        .optional("default")
        .map(|field| field.one_of(&ACTIONS, findings));
    let rules = fields.optional("rules").map(|field| field.list(findings));
    let sandbox_field = fields.optional("sandbox");
    let sandbox = sandbox_field
        .as_ref()
        .map(|field| sandbox::read_of_agent(field, findings));
    if let Some(field) = sandbox_field
        .as_ref()
        .filter(|_| sandbox != Some(Some(None)))
    {
        check_sandbox(field, tools, scope, findings);
    }
    fields.finish(findings);
    let items = rules.unwrap_or_else(|| Some(Vec::new()))?;
    let rules: Vec<_> = items
        .iter()
        .filter_map(|rule| read_rule(rule, tools, scope, findings))
        .collect();
    let sandbox = sandbox.unwrap_or(Some(None))?;
    Some(match default {
        Some(default) => Permissions {
            default: default?,
            rules,
            sandbox,
        },
        None => {
            let rules = default_rules().into_iter().chain(rules).collect();
            Permissions {
                default: PermissionAction::Allow,
                rules,
                sandbox,
            }
        }
    })
}

/// Reports libraries and embedded tools of a sandboxed agent. They run in their host process, which
/// no sandbox contains. A restriction that cannot be enforced is an error (rule S1b).
fn check_sandbox(
    field: &FieldReader<'_>,
    tools: &[ToolUse],
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) {
    for used in tools {
        let tool = scope.decoded_resources().tools.get(&used.tool);
        let problem = match tool.map(|tool| &tool.spec.entry) {
            Some(ToolEntry::Library(_)) => "a library",
            Some(ToolEntry::Embedded) => "part of the embedding program",
            _ => continue,
        };
        let message = format!(
            "`{}` cannot confine {}, which is {problem}.",
            field.path, used.tool
        );
        let remedy = "remove the tool or the sandbox from this agent, or make the tool a program \
            with a `tool.yaml`";
        findings.add(field.invalid_value(message).suggest(remedy));
    }
}

/// Returns the rules that come before the stated ones if `default` is absent. They match an agent
/// without permissions: read and write are allowed, execute and network need an approval.
fn default_rules() -> [PermissionRule; 2] {
    [Permission::Execute, Permission::Network].map(|permission| PermissionRule {
        tool: None,
        permission: Some(permission),
        args: BTreeMap::new(),
        action: PermissionAction::Ask,
        sandbox: RuleSandbox::Usual,
        written: SourceLocation::default(),
    })
}

/// Reads a rule with its pattern, its arguments and its decision.
fn read_rule(
    item: &FieldReader<'_>,
    tools: &[ToolUse],
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<PermissionRule> {
    let mut fields = item.fields(findings)?;
    let action = fields
        .required("action", findings)
        .and_then(|field| field.one_of(&ACTIONS, findings));
    let tool = fields.optional("tool").map(|field| {
        record_tool_link(&field, tools, findings);
        read_tool_pattern(&field, findings)
    });
    let permission = fields
        .optional("requires")
        .map(|field| Permission::read(&field, findings));
    let args_field = fields.optional("args");
    let args = args_field.as_ref().map(|field| read_args(field, findings));
    let sandbox_field = fields.optional("sandbox");
    let sandbox = sandbox_field
        .as_ref()
        .map(|field| sandbox::read_of_rule(field, findings));
    let states_nothing = tool.is_none() && permission.is_none() && args.is_none();
    fields.finish(findings);
    if states_nothing {
        let message = format!("`{}` does not state which calls it matches.", item.path);
        findings.add(
            item.invalid_value(message)
                .suggest("add `tool`, `requires` or `args`, or use `default`"),
        );
    }
    let rule = PermissionRule {
        tool: tool.map_or(Some(None), |tool| tool.map(Some))?,
        permission: permission.map_or(Some(None), |permission| permission.map(Some))?,
        args: args.unwrap_or_else(|| Some(BTreeMap::new()))?,
        action: action?,
        sandbox: sandbox.unwrap_or(Some(RuleSandbox::Usual))?,
        written: SourceLocation(Some((findings.file.clone(), item.position()))),
    };
    if let Some(field) = args_field {
        check_args(&rule, &field, tools, scope, findings);
    }
    if let Some(field) =
        sandbox_field.filter(|_| rule.action != PermissionAction::Allow || rule.args.is_empty())
    {
        let message = format!(
            "`{}` has no effect: it applies only to commands that a rule allows by a pattern.",
            field.path
        );
        let remedy = "set `action: allow` and a pattern in `args`, or confine all programs with \
            `permissions.sandbox`";
        findings.add(field.invalid_value(message).suggest(remedy));
    }
    Some(rule)
}

/// Reads the pattern for tool names.
fn read_pattern(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let text = field.text(findings)?;
    if text.len() > MAX_PATTERN_BYTES {
        findings.add(field.invalid_value(format!(
            "`{}` is longer than {MAX_PATTERN_BYTES} bytes.",
            field.path
        )));
        return None;
    }
    Some(text.to_owned())
}

/// Reads a pattern for tool names. A character that no name contains would make it match nothing. A
/// restriction that cannot be enforced is an error (rule S1b).
fn read_tool_pattern(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let text = read_pattern(field, findings)?;
    let is_pattern_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '?');
    if let Some(odd) = text.chars().find(|c| !is_pattern_char(*c)) {
        let message = format!(
            "`{}` cannot match a tool: tool names do not contain `{}`.",
            field.path,
            odd.escape_debug()
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest("write `tool__export`; `*` matches any text, `?` one character"),
        );
        return None;
    }
    Some(text)
}

/// Reads the patterns for arguments, by argument name.
fn read_args(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<BTreeMap<String, String>> {
    let mut args = BTreeMap::new();
    for entry in field.entries(findings)? {
        if let Some(pattern) = read_pattern(&entry, findings) {
            args.insert(entry.key.to_owned(), pattern);
        }
    }
    Some(args)
}

/// Reports arguments that no matching tool has: the rule would never match. A restriction that
/// cannot be enforced is an error (rule S1b).
fn check_args(
    rule: &PermissionRule,
    field: &FieldReader<'_>,
    tools: &[ToolUse],
    scope: &DecodeScope<'_>,
    findings: &mut DiagnosticSink,
) {
    let Some(known) = known_arguments(rule, tools, scope) else {
        return;
    };
    for entry in field.entries(findings).unwrap_or_default() {
        if known.iter().any(|name| name == entry.key) {
            continue;
        }
        let key_excerpt = excerpt(entry.key, 80);
        let diagnostic = entry.invalid_value(format!(
            "No tool that this rule matches has an argument `{key_excerpt}`, so the rule would never \
            apply."
        ));
        findings.add(match closest(entry.key, &known) {
            Some(near) => entry.did_you_mean_key(diagnostic, near),
            None => diagnostic.suggest(format!("use one of {}", format_list(&known, 12))),
        });
    }
}

/// Returns the arguments of the tools that `rule` matches, or `None` if they are not fully known.
fn known_arguments(
    rule: &PermissionRule,
    tools: &[ToolUse],
    scope: &DecodeScope<'_>,
) -> Option<Vec<String>> {
    let mut arguments = Vec::new();
    for used in tools {
        let exports = &scope
            .decoded_resources()
            .tools
            .get(&used.tool)?
            .spec
            .exports;
        if exports.is_empty() {
            return None;
        }
        let matches_rule = |export: &&ExportSpec| {
            let name = qualified_name(&used.tool.name, &export.name);
            rule.tool
                .as_ref()
                .is_none_or(|tool| pattern::matches(tool, &name))
                && rule.permission.is_none_or(|permission| {
                    export.permissions.contains(&permission)
                        || export.optional_permissions.contains(&permission)
                })
        };
        for export in exports.iter().filter(matches_rule) {
            let properties = export.parameters.get("properties")?.as_object()?;
            arguments.extend(properties.keys().cloned());
            if !export.marked_arguments().patches.is_empty() {
                arguments.push(PATCHED_PATH_ARGUMENT.to_owned());
            }
        }
    }
    (!arguments.is_empty()).then_some(arguments)
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Permissions")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct PermissionsShape {
    /// The action for a call that no rule matches. Without it, a call runs if it only reads or
    /// writes. It needs an approval if it executes programs or uses the network.
    default: Option<PermissionAction>,
    /// The rules, in order. The last one that matches a call decides.
    rules: Option<Vec<PermissionRuleShape>>,
    /// The sandbox for all programs that the agent's tools start, and for programs of agents that
    /// it calls: `true`, or a map with additional access. Linux only. Without it, a program runs in a sandbox only if a rule allows its
    /// command by a pattern, or the Tool sets `config.sandbox`.
    sandbox: Option<AgentSandboxShape>,
}

/// A rule for tool calls. It matches a call if all stated conditions match.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PermissionRule")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct PermissionRuleShape {
    /// A pattern for the tool's name, `tool__export`. `*` matches any text, `?` one character.
    #[schemars(length(min = 1), extend("x-goondan-names" = "tool"))]
    tool: Option<String>,
    /// The permission that the tool requires.
    permission: Option<Permission>,
    /// Patterns for arguments, by argument name. In a shell command line, each command is matched
    /// separately.
    args: Option<BTreeMap<String, String>>,
    /// The action for matching calls.
    action: PermissionAction,
    /// The access to add to the usual sandbox, for a command that this rule allows by a pattern.
    /// `false` runs the command without a sandbox.
    sandbox: Option<RuleSandboxShape>,
}

//! What the tools of an agent may do (rule S1).

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::agent::{ToolUse, note_tool};
use super::sandbox::{self, RuleSandbox, RuleSandboxShape, Sandbox};
use super::{Entry, ExportSpec, PATCHED, Permission, Scope, qualified_name};
use crate::decode::Field;
use crate::diagnostic::Position;
use crate::findings::Findings;
use crate::pattern;
use crate::text::{closest, excerpt, list};

/// The agent's policy: the last matching rule decides, else the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// What happens where no rule matches.
    pub default: Action,
    /// In file order.
    pub rules: Vec<PermissionRule>,
    /// Contains the programs that its tools run, and those of the agents that it calls.
    pub sandbox: Option<Sandbox>,
}

/// A rule matches when everything it states matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    /// A pattern ([`crate::pattern`]) over `resource__export`.
    pub tool: Option<String>,
    /// The export declares this permission.
    pub permission: Option<Permission>,
    /// Patterns over arguments, by name. An argument that is a shell command is matched command by command.
    pub args: BTreeMap<String, String>,
    /// What then happens.
    pub action: Action,
    /// What contains the commands that it allows by a pattern.
    pub sandbox: RuleSandbox,
    /// Where it is written.
    pub written: Written,
}

/// A place in a file; none for what is understood without being written. It is no part of what a rule says: two rules
/// that differ in it alone are equal.
#[derive(Debug, Clone, Default)]
pub struct Written(pub Option<(String, Position)>);

impl PartialEq for Written {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Written {}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum Action {
    /// The call runs.
    Allow,
    /// The call runs if somebody approves it.
    Ask,
    /// The call is refused.
    Deny,
}

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 500;

const ACTIONS: [(&str, Action); 3] = [
    ("allow", Action::Allow),
    ("ask", Action::Ask),
    ("deny", Action::Deny),
];

/// Reads `spec.permissions` of an agent with these tools.
pub(super) fn read(
    field: &Field<'_>,
    tools: &[ToolUse],
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Permissions> {
    let mut fields = field.fields(findings)?;
    let default = fields
        .optional("default")
        .map(|field| field.one_of(&ACTIONS, findings));
    let rules = fields.optional("rules").map(|field| field.list(findings));
    let sandbox_field = fields.optional("sandbox");
    let sandbox = sandbox_field
        .as_ref()
        .map(|field| sandbox::read(field, findings));
    if let Some(field) = &sandbox_field {
        check_sandbox(field, tools, scope, findings);
    }
    fields.finish(findings);
    let items = rules.unwrap_or_else(|| Some(Vec::new()))?;
    let rules: Vec<_> = items
        .iter()
        .filter_map(|rule| read_rule(rule, tools, scope, findings))
        .collect();
    let sandbox = sandbox.map_or(Some(None), |sandbox| sandbox.map(Some))?;
    Some(match default {
        Some(default) => Permissions {
            default: default?,
            rules,
            sandbox,
        },
        None => {
            let rules = unstated_rules().into_iter().chain(rules).collect();
            Permissions {
                default: Action::Allow,
                rules,
                sandbox,
            }
        }
    })
}

/// A library runs in the process of its host, which no sandbox contains: a restriction that cannot be enforced is an
/// error (rule S1b).
fn check_sandbox(field: &Field<'_>, tools: &[ToolUse], scope: &Scope<'_>, findings: &mut Findings) {
    for used in tools {
        let tool = scope.decoded().tools.get(&used.tool);
        if tool.is_some_and(|tool| matches!(tool.spec.entry, Entry::Library(_))) {
            let message = format!(
                "`{}` can't contain {}, which is a library.",
                field.path, used.tool
            );
            let remedy = "take the tool or the sandbox away from this agent, or make the tool a program with a `tool.yaml`";
            findings.add(field.invalid(message).suggest(remedy));
        }
    }
}

/// Without a `default`, the rules are laid over what holds for an agent that states nothing: read and write are allowed,
/// execute and network are asked for.
fn unstated_rules() -> [PermissionRule; 2] {
    [Permission::Execute, Permission::Network].map(|permission| PermissionRule {
        tool: None,
        permission: Some(permission),
        args: BTreeMap::new(),
        action: Action::Ask,
        sandbox: RuleSandbox::Usual,
        written: Written::default(),
    })
}

fn read_rule(
    item: &Field<'_>,
    tools: &[ToolUse],
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<PermissionRule> {
    let mut fields = item.fields(findings)?;
    let action = fields
        .required("action", findings)
        .and_then(|field| field.one_of(&ACTIONS, findings));
    let tool = fields.optional("tool").map(|field| {
        note_tool(&field, tools, findings);
        read_tool_pattern(&field, findings)
    });
    let permission = fields
        .optional("permission")
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
        let message = format!("`{}` does not say which calls it is about.", item.path);
        findings.add(
            item.invalid(message)
                .suggest("add `tool`, `permission` or `args`, or use `default`"),
        );
    }
    let rule = PermissionRule {
        tool: tool.map_or(Some(None), |tool| tool.map(Some))?,
        permission: permission.map_or(Some(None), |permission| permission.map(Some))?,
        args: args.unwrap_or_else(|| Some(BTreeMap::new()))?,
        action: action?,
        sandbox: sandbox.unwrap_or(Some(RuleSandbox::Usual))?,
        written: Written(Some((findings.file.clone(), item.at()))),
    };
    if let Some(field) = args_field {
        check_args(&rule, &field, tools, scope, findings);
    }
    if let Some(field) =
        sandbox_field.filter(|_| rule.action != Action::Allow || rule.args.is_empty())
    {
        let message = format!(
            "`{}` contains nothing: it is for commands that a rule allows by a pattern.",
            field.path
        );
        let remedy = "say `action: allow` and a pattern in `args`, or contain all programs with `permissions.sandbox`";
        findings.add(field.invalid(message).suggest(remedy));
    }
    Some(rule)
}

fn read_pattern(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let text = field.text(findings)?;
    if text.len() > MAX_PATTERN {
        findings.add(field.invalid(format!(
            "`{}` is longer than {MAX_PATTERN} characters.",
            field.path
        )));
        return None;
    }
    Some(text.to_owned())
}

/// A pattern over names. One with a character that no name has would never match: a restriction that cannot be enforced
/// is an error (rule S1b).
fn read_tool_pattern(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let text = read_pattern(field, findings)?;
    let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '?');
    if let Some(odd) = text.chars().find(|c| !belongs(*c)) {
        let message = format!(
            "`{}` can match no tool: no name of a tool has `{}` in it.",
            field.path,
            odd.escape_debug()
        );
        findings.add(
            field
                .invalid(message)
                .suggest("write `tool__export`; `*` stands for any text, `?` for one character"),
        );
        return None;
    }
    Some(text)
}

fn read_args(field: &Field<'_>, findings: &mut Findings) -> Option<BTreeMap<String, String>> {
    let mut args = BTreeMap::new();
    for entry in field.entries(findings)? {
        if let Some(pattern) = read_pattern(&entry, findings) {
            args.insert(entry.key.to_owned(), pattern);
        }
    }
    Some(args)
}

/// A rule about an argument that none of its tools has would never match: a restriction that cannot be enforced is an
/// error (rule S1b).
fn check_args(
    rule: &PermissionRule,
    field: &Field<'_>,
    tools: &[ToolUse],
    scope: &Scope<'_>,
    findings: &mut Findings,
) {
    let Some(known) = known_arguments(rule, tools, scope) else {
        return;
    };
    for entry in field.entries(findings).unwrap_or_default() {
        if known.iter().any(|name| name == entry.key) {
            continue;
        }
        let shown = excerpt(entry.key, 80);
        let diagnostic = entry.invalid(format!(
            "No tool that this rule is about has an argument `{shown}`, so the rule would never match."
        ));
        findings.add(match closest(entry.key, &known) {
            Some(near) => entry.did_you_mean_key(diagnostic, near),
            None => diagnostic.suggest(format!("use one of {}", list(&known, 12))),
        });
    }
}

/// The arguments of the tools that `rule` is about; `None` where that is not wholly known.
fn known_arguments(
    rule: &PermissionRule,
    tools: &[ToolUse],
    scope: &Scope<'_>,
) -> Option<Vec<String>> {
    let mut known = Vec::new();
    for used in tools {
        let exports = &scope.decoded().tools.get(&used.tool)?.spec.exports;
        if exports.is_empty() {
            return None;
        }
        let about = |export: &&ExportSpec| {
            let name = qualified_name(&used.tool.name, &export.name);
            rule.tool
                .as_ref()
                .is_none_or(|tool| pattern::matches(tool, &name))
                && rule.permission.is_none_or(|permission| {
                    export.permissions.contains(&permission)
                        || export.optional_permissions.contains(&permission)
                })
        };
        for export in exports.iter().filter(about) {
            let properties = export.parameters.get("properties")?.as_object()?;
            known.extend(properties.keys().cloned());
            if !export.marked_arguments().patches.is_empty() {
                known.push(PATCHED.to_owned());
            }
        }
    }
    (!known.is_empty()).then_some(known)
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Permissions")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct PermissionsShape {
    /// What happens to a call that no rule matches. Without it, such a call runs if it only reads or writes, and needs an
    /// approval if it executes programs or uses the network.
    default: Option<Action>,
    /// The rules, in order. The last one that matches a call decides.
    rules: Option<Vec<RuleShape>>,
    /// The sandbox for all programs that the agent's tools start, and those of the agents that it calls. Linux only.
    /// Without it, a program runs in a sandbox only where a rule allows its command by a pattern, or where the Tool's
    /// `config.sandbox` says so.
    sandbox: Option<Sandbox>,
}

/// A rule about tool calls. It matches a call when everything that it states matches.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PermissionRule")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct RuleShape {
    /// A pattern for the tool's name, `tool__export`. `*` stands for any text, `?` for one character.
    #[schemars(length(min = 1), extend("x-goondan-names" = "tool"))]
    tool: Option<String>,
    /// The permission that the tool declares.
    permission: Option<Permission>,
    /// Patterns for arguments, by the argument's name. A shell command line is matched command by command.
    args: Option<BTreeMap<String, String>>,
    /// What happens to a call that the rule matches.
    action: Action,
    /// What the usual sandbox leaves open, for a command that this rule allows by a pattern. `false` runs the command
    /// without a sandbox.
    sandbox: Option<RuleSandboxShape>,
}

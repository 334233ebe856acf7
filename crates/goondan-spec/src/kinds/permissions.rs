//! What the tools of an agent may do (rule S1).

use std::collections::BTreeMap;

use globset::Glob;
use schemars::JsonSchema;

use super::agent::ToolUse;
use super::{ExportSpec, Permission, Scope, qualified_name};
use crate::decode::Field;
use crate::diagnostic::Position;
use crate::findings::Findings;
use crate::text::{closest, excerpt, list};

/// The agent's policy: the last matching rule decides, else the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// What happens where no rule matches.
    pub default: Action,
    /// In file order.
    pub rules: Vec<PermissionRule>,
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
    /// It runs.
    Allow,
    /// Somebody is asked.
    Ask,
    /// It is refused.
    Deny,
}

/// The longest glob. Compiling one fails only by its size, and whoever compiles it later relies on that.
const MAX_GLOB: usize = 500;

const ACTIONS: [(&str, Action); 3] = [("allow", Action::Allow), ("ask", Action::Ask), ("deny", Action::Deny)];

/// Reads `spec.permissions` of an agent with these tools.
pub(super) fn read(
    field: &Field<'_>,
    tools: &[ToolUse],
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<Permissions> {
    let mut fields = field.fields(findings)?;
    let default = fields.optional("default").map(|field| field.one_of(&ACTIONS, findings));
    let rules = fields.optional("rules").map(|field| field.list(findings));
    fields.finish(findings);
    let items = rules.unwrap_or_else(|| Some(Vec::new()))?;
    let rules: Vec<_> = items.iter().filter_map(|rule| read_rule(rule, tools, scope, findings)).collect();
    Some(match default {
        Some(default) => Permissions { default: default?, rules },
        None => Permissions { default: Action::Allow, rules: unstated_rules().into_iter().chain(rules).collect() },
    })
}

/// Without a `default`, the rules are laid over what holds for an agent that states nothing: read and write are allowed,
/// execute and network are asked for.
fn unstated_rules() -> [PermissionRule; 2] {
    [Permission::Execute, Permission::Network].map(|permission| PermissionRule {
        tool: None,
        permission: Some(permission),
        args: BTreeMap::new(),
        action: Action::Ask,
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
    let action = fields.required("action", findings).and_then(|field| field.one_of(&ACTIONS, findings));
    let tool = fields.optional("tool").map(|field| read_glob(&field, findings));
    let permission = fields.optional("permission").map(|field| Permission::read(&field, findings));
    let args_field = fields.optional("args");
    let args = args_field.as_ref().map(|field| read_args(field, findings));
    let states_nothing = tool.is_none() && permission.is_none() && args.is_none();
    fields.finish(findings);
    if states_nothing {
        let message = format!("`{}` does not say which calls it is about.", item.path);
        findings.add(item.invalid(message).suggest("add `tool`, `permission` or `args`, or use `default`"));
    }
    let rule = PermissionRule {
        tool: tool.map_or(Some(None), |tool| tool.map(Some))?,
        permission: permission.map_or(Some(None), |permission| permission.map(Some))?,
        args: args.unwrap_or_else(|| Some(BTreeMap::new()))?,
        action: action?,
        written: Written(Some((findings.file.clone(), item.at()))),
    };
    if let Some(field) = args_field {
        check_args(&rule, &field, tools, scope, findings);
    }
    Some(rule)
}

fn read_glob(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let text = field.text(findings)?;
    if text.len() > MAX_GLOB {
        findings.add(field.invalid(format!("`{}` is longer than {MAX_GLOB} characters.", field.path)));
        return None;
    }
    if let Err(error) = Glob::new(text) {
        findings.add(field.invalid(format!("`{}` is no glob: {}.", field.path, error.kind())));
        return None;
    }
    Some(text.to_owned())
}

fn read_args(field: &Field<'_>, findings: &mut Findings) -> Option<BTreeMap<String, String>> {
    let mut args = BTreeMap::new();
    for entry in field.entries(findings)? {
        if let Some(glob) = read_glob(&entry, findings) {
            args.insert(entry.key.to_owned(), glob);
        }
    }
    Some(args)
}

/// A rule about an argument that none of its tools has would never match: a restriction that cannot be enforced is an
/// error (rule S1b).
fn check_args(rule: &PermissionRule, field: &Field<'_>, tools: &[ToolUse], scope: &Scope<'_>, findings: &mut Findings) {
    let Some(known) = known_arguments(rule, tools, scope) else { return };
    for entry in field.entries(findings).unwrap_or_default() {
        if known.iter().any(|name| name == entry.key) {
            continue;
        }
        let shown = excerpt(entry.key, 80);
        let diagnostic = entry.invalid(format!(
            "No tool that this rule is about has an argument `{shown}`, so the rule would never match."
        ));
        findings.add(match closest(entry.key, &known) {
            Some(near) => diagnostic.suggest(format!("did you mean `{near}`?")),
            None => diagnostic.suggest(format!("use one of {}", list(&known, 12))),
        });
    }
}

/// The arguments of the tools that `rule` is about; `None` where that is not wholly known.
fn known_arguments(rule: &PermissionRule, tools: &[ToolUse], scope: &Scope<'_>) -> Option<Vec<String>> {
    let glob = rule.tool.as_deref().map(Glob::new).transpose().ok()?.map(|glob| glob.compile_matcher());
    let mut known = Vec::new();
    for used in tools {
        let exports = &scope.decoded.tools.get(&used.tool)?.spec.exports;
        if exports.is_empty() {
            return None;
        }
        let about = |export: &&ExportSpec| {
            let name = qualified_name(&used.tool.name, &export.name);
            glob.as_ref().is_none_or(|glob| glob.is_match(&name))
                && rule.permission.is_none_or(|permission| export.permissions.contains(&permission))
        };
        for export in exports.iter().filter(about) {
            let properties = export.parameters.get("properties")?.as_object()?;
            known.extend(properties.keys().cloned());
        }
    }
    (!known.is_empty()).then_some(known)
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Permissions")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct PermissionsShape {
    /// What happens where no rule matches. Without it, read and write are allowed, execute and network asked for.
    default: Option<Action>,
    /// The last one that matches decides.
    rules: Option<Vec<RuleShape>>,
}

/// A rule matches when everything it states matches.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PermissionRule")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct RuleShape {
    /// A glob over `tool__export`.
    #[schemars(length(min = 1))]
    tool: Option<String>,
    /// The export declares this permission.
    permission: Option<Permission>,
    /// Globs over arguments, by name.
    args: Option<BTreeMap<String, String>>,
    /// What then happens.
    action: Action,
}

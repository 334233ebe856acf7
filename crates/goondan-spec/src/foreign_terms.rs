//! Fields and kinds of other programs that correspond to several of our fields, with the line to
//! write.

use crate::meta::Kind;

/// Fields of another program, and the suggestion for them.
struct ForeignField {
    kind: Kind,
    /// Map in which users write the fields.
    path: &'static str,
    /// Names without `_` and `-`, in lower case.
    names: &'static [&'static str],
    suggestion: &'static str,
}

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        kind: Kind::Agent,
        path: "spec",
        names: &["goal", "backstory"],
        suggestion: "append the text to `prompt: {system: …}`",
    },
    ForeignField {
        kind: Kind::Agent,
        path: "spec",
        names: &[
            "subagents",
            "handoffs",
            "allowdelegation",
            "delegates",
            "agents",
            "team",
        ],
        suggestion: "write `tools: [{ref: Tool/agents}]` in `spec`, and list all agents in `spec.agents` \
            of the Swarm; an agent calls the others with these tools",
    },
    ForeignField {
        kind: Kind::Agent,
        path: "spec",
        names: &["toolsets", "mcpservers", "mcp"],
        suggestion: "define each MCP server as a resource `kind: Tool` with `spec: {mcp: {command: …, \
            args: […]}}`, and write `tools: [{ref: Tool/NAME}]`",
    },
    ForeignField {
        kind: Kind::Agent,
        path: "spec",
        names: &[
            "maxiter",
            "maxiterations",
            "maxsteps",
            "maxturns",
            "maxrounds",
            "recursionlimit",
        ],
        suggestion: "write `policy: {maxStepsPerTurn: …}` in the `spec` of the Swarm",
    },
    ForeignField {
        kind: Kind::Agent,
        path: "spec",
        names: &["memory"],
        suggestion: "write `tools: [{ref: Tool/memory}]`",
    },
    ForeignField {
        kind: Kind::Agent,
        path: "spec",
        names: &["schedule", "cron", "triggers"],
        suggestion: "define a resource `kind: Connection` with `connectorRef: Connector/cron`",
    },
    ForeignField {
        kind: Kind::Agent,
        path: "spec.permissions",
        names: &["allow", "ask", "deny"],
        suggestion: "write `rules: [{tool: RESOURCE__EXPORT, action: ACTION}]` with the action \
            `allow`, `ask` or `deny`",
    },
    ForeignField {
        kind: Kind::Model,
        path: "spec",
        names: &[
            "temperature",
            "topp",
            "topk",
            "maxtokens",
            "maxoutputtokens",
            "seed",
            "stop",
        ],
        suggestion: "write it in the Agent: `modelConfig: {params: {…}}`",
    },
    ForeignField {
        kind: Kind::Tool,
        path: "spec",
        names: &["mcpservers", "toolsets"],
        suggestion: "write one resource `kind: Tool` for each server, with `spec: {mcp: {command: …, \
            args: […]}}`; `gdn mcp import FILE` does this for the JSON file of another program",
    },
    ForeignField {
        kind: Kind::Tool,
        path: "spec.mcp",
        names: &["type", "transport"],
        suggestion: "remove it: `command` starts a program, and `url` connects to a server",
    },
    ForeignField {
        kind: Kind::Connection,
        path: "spec",
        names: &["schedule", "cron"],
        suggestion: "write `connectorRef: Connector/cron` and `config: {schedule: \"…\"}`",
    },
];

/// Kinds of other programs in lower case, and the suggestion for them.
const FOREIGN_KINDS: &[(&[&str], &str)] = &[
    (
        &["schedule", "cron", "cronjob", "trigger", "timer"],
        "write `kind: Connection` with `connectorRef: Connector/cron` and `config: {schedule: \"…\"}`",
    ),
    (
        &["team", "crew", "workflow", "graph", "orchestrator"],
        "write `kind: Swarm` with `entryAgent: Agent/NAME` and `agents: [{ref: Agent/NAME}]`",
    ),
    (
        &["mcpserver", "mcp", "toolset", "mcptoolset", "toolserver"],
        "write `kind: Tool` with `spec: {mcp: {command: …, args: […]}}`",
    ),
    (
        &["channel", "webhook", "bot"],
        "write `kind: Connection` with `connectorRef: Connector/NAME`",
    ),
    (&["llm", "provider", "modelprovider"], "write `kind: Model`"),
    (&["function", "mcptool"], "write `kind: Tool`"),
];

/// Returns the suggestion for a field of another program in the map at `path`. `name` is the
/// normalized name of the field.
pub(crate) fn suggestion(kind: Kind, path: &str, name: &str) -> Option<&'static str> {
    let mut fields = FOREIGN_FIELDS.iter();
    let foreign_field = fields
        .find(|field| field.kind == kind && field.path == path && field.names.contains(&name));
    foreign_field.map(|field| field.suggestion)
}

/// Returns the suggestion for a kind of another program.
pub(crate) fn kind_suggestion(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let mut kinds = FOREIGN_KINDS.iter();
    let foreign_kind = kinds.find(|(names, _)| names.contains(&name.as_str()));
    foreign_kind.map(|(_, suggestion)| *suggestion)
}

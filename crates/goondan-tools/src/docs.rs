//! Generates the reference page of the built-in tools from their declarations.

use std::fmt::Write as _;

use goondan_spec::kinds::{ExportSpec, ToolManifest};
use serde_json::Value;

use crate::builtin_table::BUILTINS;
use crate::builtin_tool::BuiltinTool;
use crate::command_inventories::INVENTORIES;

const TOOLS_PAGE_INTRODUCTION: &str = "\
# Built-in tools

<!-- Generated from the tool declarations: do not edit. `UPDATE_DOCS=1 cargo test -p goondan-tools` \
    rewrites it. -->

Each of these tools is a resource of the built-in package `@goondan/base`. An agent can use one \
    directly:

```yaml
tools: [{ref: Tool/bash}]
```

An agent can also use it through a Tool of your own, with a `config` and a selection of exports:

```yaml
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: fetch}
spec:
  entry: builtin:http-fetch
  config: {allowHosts: [wiki.internal]}
  exports: [{name: get}]
```

A tool of your own is a [file in JavaScript, TypeScript or Python](hosts.md), a \
    [library](native-tools.md), a program, or an
[MCP server](mcp.md).

Each field of an item in `exports` replaces the tool's own value: `description` or \
    `descriptionFile` (a file of the
project, in which `${workspace}`, `${directory}` and `${cwd}` are filled in), `parameters`, \
    `permissions`,
`optionalPermissions`, `readOnly` and `idempotent`. A reference can also select exports:
`{ref: Tool/fs, exports: [read, grep]}`. The [reference](reference.md#tool) lists all fields of a \
    Tool.

The model sees each export as `resource__export`. File tools work inside the agent's working \
    directory. A path that leads out of it,
including through symbolic links, fails with `E_TOOL_PATH_ESCAPE`. A parameter in \
    **bold** is required.

Calls of one answer that use the same files run one after another, in the order of the answer. \
    Only one call at a time changes
a file, across all agents and conversations of the process. A write fails with `E_TOOL_STALE` if \
    another conversation has
changed the file since this one read it (`staleWrites` in the config of `fs` and `file-system`). \
    An append succeeds, and its result
shows the change. Edits follow links; deleting removes the link itself. A file is replaced as a \
    whole, except a file with several hard
links, which is written in place.

After an exceeded rate limit of Slack, Telegram, Discord or GitHub, a call waits and repeats its request. If the wait is \
    longer than 30 s
or than the rest of `timeoutMs`, the call fails, and its error contains the wait.

[Limits](limits.md#tool-calls) lists sizes and counts beyond the parameters here. The model reads the output \
    of commands and the answers of agents
[as plain text](models.md#tool-results).

A Rust program that embeds `goondan` can register tools and run them without a swarm: [the \
    tool registry](tool-registry.md).
";

/// Returns the page `docs/tools.md`.
pub fn markdown() -> String {
    let mut page = TOOLS_PAGE_INTRODUCTION.to_owned();
    for (builtin, manifest) in BUILTINS.iter().zip(crate::base_tools()) {
        write_resource(&mut page, builtin, &manifest).expect("writing to a string does not fail");
    }
    write_inventories(&mut page).expect("writing to a string does not fail");
    page
}

/// Writes the table of tool names in other programs.
fn write_inventories(page: &mut String) -> std::fmt::Result {
    page.push_str(
        "\n## Names in other programs\n\nPrompts written for the tools of these programs also \
        work with the gdn tools in this table. Parameters, defaults and limits are the same. \
        The test cases are in\n`tests/conformance`.\n\n",
    );
    page.push_str("| program | tool | tool in gdn | test case |\n|---|---|---|---|\n");
    let listed_tools = INVENTORIES
        .iter()
        .flat_map(|(name, tools)| tools.iter().map(move |tool| (name, tool)));
    listed_tools
        .into_iter()
        .try_for_each(|(name, (theirs, ours, case))| {
            writeln!(page, "| {name} | `{theirs}` | `{ours}` | {case} |")
        })
}

/// Writes the section of a built-in tool.
fn write_resource(
    page: &mut String,
    builtin: &BuiltinTool,
    manifest: &ToolManifest,
) -> std::fmt::Result {
    write!(page, "\n## {}\n\n{}", manifest.name, builtin.about)?;
    if let Some(limit) = manifest.timeout_ms {
        write!(page, " Time limit: {} s.", limit / 1000)?;
    }
    if let Some(limit) = manifest.error_message_limit {
        write!(page, " Error messages: {limit} characters.")?;
    }
    if let Some(limit) = manifest.output_limit {
        write!(page, " Output: {limit} characters.")?;
    }
    page.push('\n');
    if !builtin.config.is_empty() {
        page.push_str("\n`config`:\n\n");
        for (key, meaning) in builtin.config {
            writeln!(page, "- `{key}`: {meaning}")?;
        }
    }
    manifest
        .exports
        .iter()
        .try_for_each(|export| self::write_export(page, &manifest.name, export))
}

/// Writes the section of an export: description, parameters and permissions.
fn write_export(page: &mut String, resource: &str, export: &ExportSpec) -> std::fmt::Result {
    writeln!(
        page,
        "\n### `{resource}__{}`\n\n{}{}",
        export.name,
        export.description,
        describe_traits(export)
    )?;
    let Some(Value::Object(properties)) = export
        .parameters
        .get("properties")
        .filter(|all| *all != &Value::default())
    else {
        return Ok(());
    };
    if properties.is_empty() {
        return Ok(());
    }
    page.push_str("\n| parameter | type | default | meaning |\n|---|---|---|---|\n");
    let required = export.parameters["required"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (name, schema) in properties {
        let bold = if required.iter().any(|required| required == name) {
            "**"
        } else {
            ""
        };
        let default = schema
            .get("default")
            .map(|default| format!("`{default}`"))
            .unwrap_or_default();
        let text = schema["description"]
            .as_str()
            .unwrap_or_default()
            .replace('|', "\\|");
        writeln!(
            page,
            "| {bold}`{name}`{bold} | {} | {default} | {text} |",
            kind(schema)
        )?;
    }
    Ok(())
}

/// Returns the permissions and properties of the export, as a sentence in italics.
fn describe_traits(export: &ExportSpec) -> String {
    let permissions = export
        .permissions
        .iter()
        .map(|permission| format!("{permission:?}").to_lowercase());
    let mut words: Vec<String> = permissions
        .map(|permission| format!("needs {permission}"))
        .collect();
    let optional = export
        .optional_permissions
        .iter()
        .map(|permission| format!("{permission:?}").to_lowercase());
    words.extend(optional.map(|permission| format!("uses {permission} if allowed")));
    words.extend(export.read_only.then(|| "changes nothing".to_owned()));
    words.extend(export.idempotent.then(|| "safe to repeat".to_owned()));
    if words.is_empty() {
        String::new()
    } else {
        format!(" *({})*", words.join("; "))
    }
}

/// Returns a short name of a parameter's type.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .map(|value| format!("`{value}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let name = match &schema["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        _ => "any".to_owned(),
    };
    let items = if name == "array" {
        format!(" of {}", kind(&schema["items"]))
    } else {
        String::new()
    };
    let range = match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(low), Value::Number(high)) => format!(" {low} to {high}"),
        _ => String::new(),
    };
    format!("{name}{items}{range}")
}

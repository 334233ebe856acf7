//! Imports servers from files of other programs: `.mcp.json`, `mcp.json` of editors, settings with
//! `mcpServers`.
//!
//! The result never contains a value that is a secret or resembles one. Such a value becomes the
//! name of a variable.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::tool_names::MAX_TOOL_NAME_LENGTH;

/// Keys of the server lists in such files.
const SERVER_KEYS: [&str; 3] = ["mcpServers", "servers", "context_servers"];
/// Parts of names that indicate a secret.
const SECRET_WORDS: [&str; 7] = [
    "token",
    "key",
    "secret",
    "password",
    "passwd",
    "auth",
    "credential",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedServer {
    /// Name in the file.
    pub own: String,
    /// Name of the Tool.
    pub name: String,
    /// The Tool as YAML.
    pub yaml: String,
    /// Environment variables that must be set.
    pub variables: Vec<String>,
    /// Sentences about settings that could not be converted.
    pub notes: Vec<String>,
}

/// The contents of a file of another program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportedServers {
    pub servers: Vec<ImportedServer>,
    /// Names of skipped servers, with the reason.
    pub left_out: Vec<(String, &'static str)>,
}

/// Reads the servers from a file of another program.
///
/// # Errors
///
/// Fails with a part of a sentence if the file has another format.
pub fn import(text: &str) -> Result<ImportedServers, String> {
    let file: Value = serde_json::from_str(&without_comments(text))
        .map_err(|error| format!("the file is not JSON: {error}"))?;
    let nested = file.pointer("/mcp");
    let found = [Some(&file), nested]
        .into_iter()
        .flatten()
        .find_map(|place| {
            SERVER_KEYS
                .iter()
                .find_map(|key| place.get(key).and_then(Value::as_object))
        });
    let servers = found.ok_or_else(|| {
        format!(
            "the file has none of {}",
            SERVER_KEYS.map(|key| format!("`{key}`")).join(", ")
        )
    })?;
    let (mut taken, mut listed) = (Vec::new(), ImportedServers::default());
    for (own, server) in servers {
        match server
            .as_object()
            .map(|server| one(own, server, &mut taken))
        {
            Some(Some(found)) => listed.servers.push(found),
            Some(None) => listed
                .left_out
                .push((own.clone(), "the server has neither `command` nor `url`")),
            None => listed.left_out.push((
                own.clone(),
                "the server is not an object with `command` or `url`",
            )),
        }
    }
    Ok(listed)
}

fn one(own: &str, server: &Map<String, Value>, taken: &mut Vec<String>) -> Option<ImportedServer> {
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let url = text("url")
        .or_else(|| text("serverUrl"))
        .or_else(|| text("httpUrl"));
    text("command").or(url)?;
    let name = tool_name(own, taken);
    // A difference only in case needs no note.
    let is_renamed = !own.eq_ignore_ascii_case(&name);
    let notes = is_renamed.then(|| {
        format!(
            "The Tool is named `{name}`, because names may contain only letters, digits and \
            hyphens."
        )
    });
    let mut found = ImportedServer {
        own: own.to_owned(),
        name,
        yaml: String::new(),
        variables: Vec::new(),
        notes: notes.into_iter().collect(),
    };
    let mut body = String::new();
    if let Some(command) = text("command") {
        line(&mut body, "command", &Value::from(command));
        if let Some(args) = server
            .get("args")
            .filter(|args| args.as_array().is_some_and(|args| !args.is_empty()))
        {
            line(&mut body, "args", args);
        }
        values(&mut body, "env", server.get("env"), &mut found);
        if let Some(cwd) = text("cwd") {
            found.notes.push(format!(
                "The file sets the working directory `{cwd}`; to use it, set `cwd` to a directory \
                of the project."
            ));
        }
    } else if let Some(url) = url {
        if text("type") == Some("sse") || url.ends_with("/sse") {
            found.notes.push(
                "The server may support only the HTTP+SSE transport of 2024, which gdn does not \
                support."
                    .to_owned(),
            );
        }
        line(&mut body, "url", &Value::from(url));
        values(&mut body, "headers", server.get("headers"), &mut found);
    }
    if server.get("disabled") == Some(&Value::Bool(true)) {
        found
            .notes
            .push("The server is disabled in the file.".to_owned());
    }
    if !taken_over(server).is_empty() {
        found
            .notes
            .push(format!("Not imported: {}.", taken_over(server).join(", ")));
    }
    let name = Value::from(found.name.as_str());
    found.yaml = format!(
        "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec:\n  mcp:\n{body}"
    );
    Some(found)
}

/// Returns notes about unsupported settings.
fn taken_over(server: &Map<String, Value>) -> Vec<String> {
    const KNOWN: [&str; 11] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "serverUrl",
        "httpUrl",
        "headers",
        "type",
        "transport",
        "disabled",
    ];
    server
        .keys()
        .filter(|key| !KNOWN.contains(&key.as_str()))
        .map(|key| format!("`{key}`"))
        .collect()
}

fn line(body: &mut String, key: &str, value: &Value) {
    // JSON is valid YAML. Writing to a String cannot fail.
    let _ = writeln!(body, "    {key}: {value}");
}

fn values(body: &mut String, key: &str, values: Option<&Value>, found: &mut ImportedServer) {
    let Some(values) = values
        .and_then(Value::as_object)
        .filter(|values| !values.is_empty())
    else {
        return;
    };
    let _ = writeln!(body, "    {key}:");
    for (name, value) in values {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let shown = Value::from(name.as_str());
        match variable(&found.name, name, &text) {
            Some(variable) => {
                let _ = writeln!(body, "      {shown}: {{valueFrom: {{env: {variable}}}}}");
                if variable_reference(&text).is_none() {
                    found.notes.push(format!(
                        "Set {variable} to the whole value of `{name}` from the file."
                    ));
                }
                found.variables.push(variable);
            }
            None => {
                let _ = writeln!(body, "      {shown}: {}", Value::from(text));
            }
        }
    }
}

/// Returns the variable of a value: the one it refers to, or a new one for a secret.
fn variable(server: &str, name: &str, text: &str) -> Option<String> {
    if let Some(variable) = variable_reference(text) {
        return Some(variable);
    }
    let lower = name.to_lowercase();
    let is_secret = SECRET_WORDS.iter().any(|part| lower.contains(part)) || text.contains("${");
    is_secret.then(|| {
        match name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        {
            true => name.to_owned(),
            false => format!("{}_{}", constant(server), constant(name)),
        }
    })
}

/// Returns the name in `${NAME}`, `${env:NAME}` or `${input:name}`, if that is the whole value.
fn variable_reference(text: &str) -> Option<String> {
    let inner = text.strip_prefix("${")?.strip_suffix('}')?;
    let name = inner
        .strip_prefix("env:")
        .or_else(|| inner.strip_prefix("input:"))
        .unwrap_or(inner);
    let name = name.split(":-").next().unwrap_or(name);
    let is_plain = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    is_plain.then(|| {
        if inner.starts_with("input:") {
            constant(name)
        } else {
            name.to_owned()
        }
    })
}

fn constant(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

fn tool_name(own: &str, taken: &mut Vec<String>) -> String {
    let plain: String = own
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    let mut name = parts.join("-");
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.insert_str(0, "mcp-");
    }
    name.truncate(MAX_TOOL_NAME_LENGTH - 3);
    let name = name.trim_end_matches('-').to_owned();
    let free = (2..).map(|number| format!("{name}-{number}"));
    let name = std::iter::once(name.clone())
        .chain(free)
        .find(|name| !taken.contains(name))
        .unwrap_or(name);
    taken.push(name.clone());
    name
}

fn without_comments(text: &str) -> String {
    let (mut plain, mut chars, mut in_text) = (
        String::with_capacity(text.len()),
        text.chars().peekable(),
        false,
    );
    while let Some(c) = chars.next() {
        match (in_text, c, chars.peek()) {
            (true, '\\', Some(_)) => {
                plain.push(c);
                plain.extend(chars.next());
            }
            (_, '"', _) => {
                in_text = !in_text;
                plain.push(c);
            }
            (false, '/', Some('/')) => {
                chars.by_ref().find(|c| *c == '\n');
                plain.push('\n');
            }
            (false, '/', Some('*')) => {
                let mut last = ' ';
                chars
                    .by_ref()
                    .find(|c| std::mem::replace(&mut last, *c) == '*' && *c == '/');
            }
            _ => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_other_programs_become_tools() {
        let text = r#"{
            // as editors write it
            "mcpServers": {
                "GitHub Server": {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer abc", "X-Team": "a"}},
                "files": {"command": "npx", "args": ["-y", "files", "/*"], "env": {"ROOT": "${HOME}", "DEBUG": 1}}
            }
        }"#;
        let found = import(text).expect("servers").servers;
        assert_eq!(
            found[0].yaml,
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: \"github-server\"}\nspec:\n  \
            mcp:\n    url: \"https://x.example/mcp\"\n    headers:\n      \"Authorization\": \
            {valueFrom: {env: GITHUB_SERVER_AUTHORIZATION}}\n      \"X-Team\": \"a\"\n"
        );
        assert!(
            found[1].yaml.contains(
                "    args: [\"-y\",\"files\",\"/*\"]\n    env:\n      \
            \"ROOT\": {valueFrom: {env: HOME}}\n      \"DEBUG\": \"1\"\n"
            ),
            "{}",
            found[1].yaml
        );
        assert!(found.iter().all(|one| !one.yaml.contains("abc")));
    }

    #[test]
    fn names_are_those_of_resources_and_unique() {
        let text = r#"{"servers": {"a b": {"command": "x"}, "A_B": {"command": "x"}, "1": {"command": "x"}, "none": {}}}"#;
        let listed = import(text).expect("servers");
        let names: Vec<&str> = listed.servers.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a-b", "a-b-2", "mcp-1"]);
        assert!(
            listed
                .servers
                .iter()
                .all(|one| one.notes[0].contains(&format!("named `{}`", one.name)))
        );
        assert_eq!(
            listed.left_out,
            [(
                "none".to_owned(),
                "the server has neither `command` nor `url`"
            )]
        );
        assert!(import("{}").is_err() && import("x").is_err());
    }
}

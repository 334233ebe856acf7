//! Imports servers from files of other programs: `.mcp.json`, `mcp.json` of editors, settings with
//! `mcpServers`.
//!
//! The result never contains a value that is a secret or resembles one. Such a value becomes the
//! name of a variable, or is left out of the arguments and the URL.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::tool_names::MAX_TOOL_NAME_LENGTH;

/// Keys of the server lists in such files.
const SERVER_KEYS: [&str; 3] = ["mcpServers", "servers", "context_servers"];
/// Parts of names that indicate a secret.
const SECRET_WORDS: [&str; 8] = [
    "cookie",
    "token",
    "key",
    "secret",
    "password",
    "passwd",
    "auth",
    "credential",
];

/// Beginnings of values that are secrets: keys of providers, and signed tokens.
const SECRET_PREFIXES: [&str; 16] = [
    "AIza",
    "AKIA",
    "Basic ",
    "Bearer ",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "hf_",
    "npm_",
    "pk_",
    "sk-",
    "sk_",
    "xox",
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
    let server_list = [Some(&file), nested]
        .into_iter()
        .flatten()
        .find_map(|object| {
            SERVER_KEYS
                .iter()
                .find_map(|key| object.get(key).and_then(Value::as_object))
        });
    let servers = server_list.ok_or_else(|| {
        format!(
            "the file has none of {}",
            SERVER_KEYS.map(|key| format!("`{key}`")).join(", ")
        )
    })?;
    let (mut used_names, mut result) = (Vec::new(), ImportedServers::default());
    for (file_name, server) in servers {
        match server
            .as_object()
            .map(|server| import_server(file_name, server, &mut used_names))
        {
            Some(Some(imported)) => result.servers.push(imported),
            Some(None) => result.left_out.push((
                file_name.clone(),
                "the server has neither `command` nor `url`",
            )),
            None => result.left_out.push((
                file_name.clone(),
                "the server is not an object with `command` or `url`",
            )),
        }
    }
    Ok(result)
}

/// Converts the server `file_name` of the file to a Tool; `None` if the server has neither a
/// command nor a URL. Adds the Tool's name to `used_names`.
fn import_server(
    file_name: &str,
    server: &Map<String, Value>,
    used_names: &mut Vec<String>,
) -> Option<ImportedServer> {
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let url = text("url")
        .or_else(|| text("serverUrl"))
        .or_else(|| text("httpUrl"));
    text("command").or(url)?;
    let name = tool_name(file_name, used_names);
    // A difference only in case needs no note.
    let is_renamed = !file_name.eq_ignore_ascii_case(&name);
    let notes = is_renamed.then(|| {
        format!(
            "The Tool is named `{name}`, because names may contain only letters, digits and \
            hyphens."
        )
    });
    let mut imported = ImportedServer {
        own: file_name.to_owned(),
        name,
        yaml: String::new(),
        variables: Vec::new(),
        notes: notes.into_iter().collect(),
    };
    let mut body = String::new();
    if let Some(command) = text("command") {
        write_setting(&mut body, "command", &Value::from(command));
        let args = server.get("args").and_then(Value::as_array);
        if let Some(args) = args.filter(|args| !args.is_empty()) {
            let args = without_secret_arguments(args, &mut imported);
            write_setting(&mut body, "args", &Value::from(args));
        }
        write_map(&mut body, "env", server.get("env"), &mut imported);
        if let Some(cwd) = text("cwd") {
            imported.notes.push(format!(
                "The file sets the working directory `{cwd}`; to use it, set `cwd` to a directory \
                of the project."
            ));
        }
    } else if let Some(url) = url {
        if text("type") == Some("sse") || url.ends_with("/sse") {
            imported.notes.push(
                "The server may support only the HTTP+SSE transport of 2024, which gdn does not \
                support."
                    .to_owned(),
            );
        }
        let url = remove_url_secrets(url, &mut imported);
        write_setting(&mut body, "url", &Value::from(url));
        write_map(&mut body, "headers", server.get("headers"), &mut imported);
    }
    if server.get("disabled") == Some(&Value::Bool(true)) {
        imported
            .notes
            .push("The server is disabled in the file.".to_owned());
    }
    let unsupported = unsupported_keys(server);
    if !unsupported.is_empty() {
        imported
            .notes
            .push(format!("Not imported: {}.", unsupported.join(", ")));
    }
    let name = Value::from(imported.name.as_str());
    imported.yaml = format!(
        "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec:\n  mcp:\n{body}"
    );
    Some(imported)
}

/// Returns the keys of settings that cannot be imported, each in backticks.
fn unsupported_keys(server: &Map<String, Value>) -> Vec<String> {
    const SUPPORTED: [&str; 11] = [
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
        .filter(|key| !SUPPORTED.contains(&key.as_str()))
        .map(|key| format!("`{key}`"))
        .collect()
}

/// Appends the setting `key: value` to the YAML of `spec.mcp`.
fn write_setting(body: &mut String, key: &str, value: &Value) {
    // JSON is valid YAML. Writing to a String cannot fail.
    let _ = writeln!(body, "    {key}: {value}");
}

/// Appends a map of environment variables or headers to the YAML of `spec.mcp`. Secrets become
/// references to variables, which are added to `imported`.
fn write_map(body: &mut String, key: &str, values: Option<&Value>, imported: &mut ImportedServer) {
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
        let quoted_name = Value::from(name.as_str());
        match variable_for_value(&imported.name, name, &text) {
            Some(variable) => {
                let _ = writeln!(
                    body,
                    "      {quoted_name}: {{valueFrom: {{env: {variable}}}}}"
                );
                if referenced_variable(&text).is_none() {
                    imported.notes.push(format!(
                        "Set {variable} to the whole value of `{name}` from the file."
                    ));
                }
                imported.variables.push(variable);
            }
            None => {
                let _ = writeln!(body, "      {quoted_name}: {}", Value::from(text));
            }
        }
    }
}

/// Returns the environment variable for a value: the variable to which the value refers, or a new
/// name for a secret. Returns `None` for a value that is neither.
fn variable_for_value(server: &str, name: &str, text: &str) -> Option<String> {
    if let Some(variable) = referenced_variable(text) {
        return Some(variable);
    }
    let is_secret = is_secret_setting(name) || is_secret_value(text) || text.contains("${");
    is_secret.then(|| {
        match name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        {
            true => name.to_owned(),
            false => format!("{}_{}", to_constant_case(server), to_constant_case(name)),
        }
    })
}

/// Returns true if the name of a setting indicates a secret.
fn is_secret_setting(name: &str) -> bool {
    let lower = name.to_lowercase();
    SECRET_WORDS.iter().any(|part| lower.contains(part))
}

/// Returns true if a value is a secret: a key of a known form, or a URL with a password or a secret
/// parameter.
fn is_secret_value(text: &str) -> bool {
    let is_key = SECRET_PREFIXES.iter().any(|start| text.starts_with(start));
    is_key || (text.contains("://") && public_url(text) != text)
}

/// Returns true if an option takes the path of a file, such as `--key-file`.
fn names_file(option: &str) -> bool {
    ["file", "path", "dir"]
        .iter()
        .any(|end| option.ends_with(end))
}

/// Returns the arguments of a program without secrets. An argument cannot refer to a variable.
fn without_secret_arguments(args: &[Value], imported: &mut ImportedServer) -> Vec<Value> {
    let mut kept = Vec::new();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        let Some(text) = arg.as_str() else {
            kept.push(arg.clone());
            continue;
        };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) if !name.contains("://") => (name, Some(value)),
            _ => (text, None),
        };
        let is_option = name.starts_with('-');
        let has_secret = match value {
            Some(value) => (is_secret_setting(name) && !names_file(name)) || is_secret_value(value),
            None if is_option && is_secret_setting(name) && !names_file(name) => {
                let is_value =
                    |next: &&Value| next.as_str().is_some_and(|next| !next.starts_with('-'));
                rest.next_if(is_value).is_some()
            }
            None => is_secret_value(text),
        };
        if !has_secret {
            kept.push(arg.clone());
            continue;
        }
        let shown = if value.is_some() || is_option {
            name
        } else {
            "…"
        };
        imported.notes.push(format!(
            "The argument `{shown}` contains a secret, so its value is not imported. Pass the value \
            in a variable of `env`."
        ));
        // `docker run -e NAME` passes the variable of this name.
        if value.is_some() && !is_option {
            kept.push(Value::from(name));
        }
    }
    kept
}

/// Returns the URL of a server without secrets. Adds a note to `imported` if there was a secret.
fn remove_url_secrets(url: &str, imported: &mut ImportedServer) -> String {
    let public = public_url(url);
    if public != url {
        imported.notes.push(
            "The URL contains a secret, which is not imported. Pass it in `headers` with \
            `valueFrom`."
                .to_owned(),
        );
    }
    public
}

/// Returns a URL without its password and without parameters that are secrets.
fn public_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') || is_secret_value(user) => host,
        _ => authority,
    };
    let is_public = |parameter: &&str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        !is_secret_setting(name) && !is_secret_value(value)
    };
    let Some((path, query)) = path.split_once('?') else {
        return format!("{scheme}://{authority}{path}");
    };
    let parameters: Vec<&str> = query.split('&').filter(is_public).collect();
    let separator = if parameters.is_empty() { "" } else { "?" };
    format!(
        "{scheme}://{authority}{path}{separator}{}",
        parameters.join("&")
    )
}

/// Returns the environment variable to which a value refers: `NAME` for `${NAME}` and
/// `${env:NAME}`, and `API_KEY` for `${input:api-key}`, for which the editor asks the user. Ignores
/// a default value after `:-`. Returns `None` if the value contains anything else.
fn referenced_variable(value: &str) -> Option<String> {
    let reference = value.strip_prefix("${")?.strip_suffix('}')?;
    let (is_input, name) = match reference.strip_prefix("input:") {
        Some(name) => (true, name),
        None => (false, reference.strip_prefix("env:").unwrap_or(reference)),
    };
    let name = match name.split_once(":-") {
        Some((name, _default)) => name,
        None => name,
    };
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || !name.chars().all(is_name_char) {
        return None;
    }
    Some(if is_input {
        to_constant_case(name)
    } else {
        name.to_owned()
    })
}

/// Converts a name to upper case with `_` between words, such as `X-Key` to `X_KEY`.
fn to_constant_case(text: &str) -> String {
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

/// Returns a valid, unused Tool name that resembles `file_name`, and adds the name to `used_names`.
fn tool_name(file_name: &str, used_names: &mut Vec<String>) -> String {
    let plain: String = file_name
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
    // Leaves space for a number such as `-12`.
    name.truncate(MAX_TOOL_NAME_LENGTH - 3);
    let name = name.trim_end_matches('-').to_owned();
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let name = std::iter::once(name.clone())
        .chain(numbered)
        .find(|name| !used_names.contains(name))
        .unwrap_or(name);
    used_names.push(name.clone());
    name
}

/// Removes `//` and `/* */` comments from JSON text, except in strings.
fn without_comments(text: &str) -> String {
    let (mut plain, mut chars, mut in_string) = (
        String::with_capacity(text.len()),
        text.chars().peekable(),
        false,
    );
    while let Some(c) = chars.next() {
        match (in_string, c, chars.peek()) {
            // An escaped character, for example `\"`, does not end the string.
            (true, '\\', Some(_)) => {
                plain.push(c);
                plain.extend(chars.next());
            }
            (_, '"', _) => {
                in_string = !in_string;
                plain.push(c);
            }
            (false, '/', Some('/')) => {
                chars.by_ref().find(|c| *c == '\n');
                plain.push('\n');
            }
            (false, '/', Some('*')) => {
                // The opening `*` must not also end the comment, as in `/*/`.
                chars.next();
                let mut previous = ' ';
                chars
                    .by_ref()
                    .find(|c| std::mem::replace(&mut previous, *c) == '*' && *c == '/');
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
    fn server_configurations_of_other_clients_become_tools() {
        let text = r#"{
            // as editors write it
            "mcpServers": {
                "GitHub Server": {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer abc", "X-Team": "a"}},
                "files": {"command": "npx", "args": ["-y", "files", "/*"], "env": {"ROOT": "${HOME}", "DEBUG": 1}}
            }
        }"#;
        let imported = import(text).expect("servers").servers;
        assert_eq!(
            imported[0].yaml,
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: \"github-server\"}\nspec:\n  \
            mcp:\n    url: \"https://x.example/mcp\"\n    headers:\n      \"Authorization\": \
            {valueFrom: {env: GITHUB_SERVER_AUTHORIZATION}}\n      \"X-Team\": \"a\"\n"
        );
        assert!(
            imported[1].yaml.contains(
                "    args: [\"-y\",\"files\",\"/*\"]\n    env:\n      \
            \"ROOT\": {valueFrom: {env: HOME}}\n      \"DEBUG\": \"1\"\n"
            ),
            "{}",
            imported[1].yaml
        );
        assert!(imported.iter().all(|server| !server.yaml.contains("abc")));
    }

    #[test]
    fn secrets_are_not_imported_from_arguments_and_urls() {
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "args": ["--api-key", "hidden1", "--token=hidden2", "-e", "DB_PASSWORD=hidden3",
                "--verbose", "postgres://u:hidden4@db/p", "ghp_hidden5", "--key-file", "a.pem", "--out=a"],
                "env": {"DATABASE_URL": "postgres://u:hidden6@db/p", "HOME_PAGE": "https://x.example/a?b=c"}},
            "b": {"url": "https://u:hidden7@x.example/mcp?team=1&api_key=hidden8", "headers": {"Cookie": "hidden9"}}
        }}"#;
        let imported = import(text).expect("servers").servers;
        let all = format!("{imported:?}");
        assert!(!all.contains("hidden"), "{all}");
        assert!(
            imported[0].yaml.contains(
                "    args: [\"-e\",\"DB_PASSWORD\",\"--verbose\",\"--key-file\",\"a.pem\",\"--out=a\"]\n    env:\n      \
                \"DATABASE_URL\": {valueFrom: {env: DATABASE_URL}}\n      \"HOME_PAGE\": \"https://x.example/a?b=c\"\n"
            ),
            "{}",
            imported[0].yaml
        );
        assert_eq!(imported[0].notes.len(), 6, "{:?}", imported[0].notes);
        let expected = "    url: \"https://x.example/mcp?team=1\"\n    headers:\n      \"Cookie\": \
            {valueFrom: {env: B_COOKIE}}\n";
        assert!(imported[1].yaml.contains(expected), "{}", imported[1].yaml);
    }

    #[test]
    fn json_comments_are_removed() {
        for (text, plain) in [
            ("1/*/2*/3", "13"),
            ("1/**/2/***/3", "123"),
            ("1/* a * / b */2", "12"),
            ("1// a /*\n2", "1\n2"),
            (r#"["/*", "\"//", 1]"#, r#"["/*", "\"//", 1]"#),
            ("1/*/", "1"),
        ] {
            assert_eq!(without_comments(text), plain, "{text}");
        }
    }

    #[test]
    fn imported_tool_names_are_valid_and_unique() {
        let text = r#"{"servers": {"a b": {"command": "x"}, "A_B": {"command": "x"}, "1": {"command": "x"}, "none": {}}}"#;
        let listed = import(text).expect("servers");
        let names: Vec<&str> = listed
            .servers
            .iter()
            .map(|server| server.name.as_str())
            .collect();
        assert_eq!(names, ["a-b", "a-b-2", "mcp-1"]);
        assert!(
            listed
                .servers
                .iter()
                .all(|server| server.notes[0].contains(&format!("named `{}`", server.name)))
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

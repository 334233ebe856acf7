//! Reads value sources: literals, environment variables and secrets (rule L8).

use schemars::JsonSchema;

use crate::decode::FieldReader;
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::{DiagnosticSink, ValueOrigin};
use crate::fix::Fix;
use crate::node::{NodeContent, YamlNode};
use crate::value::{Secret, TextOrSource, ValueSource};

/// Value: literal, or looked up when the swarm starts.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ValueSource")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum ValueSourceShape {
    /// Literal value in the file.
    Value(LiteralValueShape),
    /// Value that is looked up when the swarm starts.
    ValueFrom(LookedUpShape),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WrittenValue")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct LiteralValueShape {
    /// Literal value. Treated as a secret.
    value: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LookedUpValue")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct LookedUpShape {
    /// Source of the value.
    value_from: ValueFromKindShape,
}

/// Source of a value.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ValueFrom")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum ValueFromKindShape {
    /// Environment variable.
    Env(FromEnvShape),
    /// Secret.
    SecretRef(FromSecretShape),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ValueFromEnv")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct FromEnvShape {
    /// Name of the environment variable.
    #[schemars(extend("x-goondan-names" = "variable"))]
    env: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ValueFromSecret")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct FromSecretShape {
    /// Secret that contains the value.
    secret_ref: SecretRefShape,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SecretRef")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct SecretRefShape {
    /// Secret, written `Secret/name`.
    #[schemars(regex(pattern = "^Secret/[^/]+$"))]
    r#ref: String,
    /// Key inside the secret. Default: the name of the field.
    key: Option<String>,
}

/// Literal string, or a value that is looked up.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TextOrSource")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum TextOrSourceShape {
    /// Literal that is not a secret.
    Plain(ScalarShape),
    /// Secret value.
    Source(ValueSourceShape),
}

/// String, or a value that is converted to one.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Scalar")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum ScalarShape {
    /// String.
    Text(String),
    /// Number.
    Number(f64),
    /// `true` or `false`.
    Bool(bool),
}

/// Reads a map of strings and value sources, such as headers.
pub(crate) fn read_texts(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<(String, TextOrSource)>> {
    let entries = field.entries(findings)?;
    let values: Vec<_> = entries
        .iter()
        .map(|entry| Some((entry.key.to_owned(), read_text(entry, findings)?)))
        .collect();
    values.into_iter().collect()
}

/// Reads a plain string, number or boolean, or a map with a value source.
fn read_text(entry: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<TextOrSource> {
    match &entry.node.content {
        NodeContent::Map(_) => read(entry, findings).map(TextOrSource::Source),
        NodeContent::Number(number) => Some(TextOrSource::Plain(number.to_string())),
        NodeContent::Bool(truth) => Some(TextOrSource::Plain(truth.to_string())),
        _ => entry
            .text(findings)
            .map(|text| TextOrSource::Plain(text.to_owned())),
    }
}

/// Reads the value source at `field` and records its position. Never quotes a value in a
/// diagnostic.
pub(crate) fn read(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ValueSource> {
    redact_in_diagnostics(field.node, findings);
    let source = read_source(field, findings)?;
    Some(record_position(source, field, findings))
}

/// Reads a setting that is no secret: plain text, a number or a boolean, or a value source.
/// Diagnostics show the value if the setting is `known`.
pub(crate) fn read_setting(
    field: &FieldReader<'_>,
    known: bool,
    findings: &mut DiagnosticSink,
) -> Option<ValueSource> {
    if !known {
        redact_in_diagnostics(field.node, findings);
    }
    let plain = match &field.node.content {
        NodeContent::Text(text) => Some(text.to_string()),
        NodeContent::Number(number) => Some(number.to_string()),
        NodeContent::Bool(truth) => Some(truth.to_string()),
        NodeContent::Map(_) | NodeContent::List(_) | NodeContent::Null => None,
    };
    let source = match plain.filter(|text| variable_in(text).is_none()) {
        Some(text) => ValueSource::Value(Secret::new(&text)),
        None => read_source(field, findings)?,
    };
    Some(record_position(source, field, findings))
}

/// Records the value sources in a free-form `config`, at every depth: the tool or extension decides
/// which fields accept one. A literal `{value: …}` counts only with `literals`, because code of the
/// project may use such a map for other data.
pub(crate) fn record_in_config(
    field: &FieldReader<'_>,
    literals: bool,
    findings: &mut DiagnosticSink,
) {
    let source = value_source_of_map(field.node).or_else(|| {
        let literal = literals.then(|| literal_of_map(field.node)).flatten()?;
        redact_in_diagnostics(field.node, findings);
        Some(ValueSource::Value(Secret::new(literal)))
    });
    if let Some(source) = source {
        record_position(source, field, findings);
    }
    let children = match &field.node.content {
        NodeContent::Map(_) => field.entries(findings),
        NodeContent::List(_) => field.list(findings),
        _ => None,
    };
    for child in children.iter().flatten() {
        record_in_config(child, literals, findings);
    }
}

/// Returns the variable or secret that the `valueFrom` of a free-form map names.
fn value_source_of_map(node: &YamlNode) -> Option<ValueSource> {
    let from = &node.entry("valueFrom")?.value;
    if let Some(name) = from.entry("env").and_then(|env| env.value.text()) {
        return Some(ValueSource::Env(name.to_owned()));
    }
    let secret = &from.entry("secretRef")?.value;
    let name = secret.entry("ref")?.value.text()?.strip_prefix("Secret/")?;
    let key = secret.entry("key").and_then(|key| key.value.text());
    Some(ValueSource::SecretRef {
        name: name.to_owned(),
        key: key.map(str::to_owned),
    })
}

/// Returns the text of a free-form map whose only entry is `value`.
fn literal_of_map(node: &YamlNode) -> Option<&str> {
    match node.entries()? {
        [only] if only.key == "value" => only.value.text(),
        _ => None,
    }
}

/// Records the position of a value source.
fn record_position(
    source: ValueSource,
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> ValueSource {
    if let Some(resource) = findings.resource.clone() {
        findings.values.push(ValueOrigin {
            resource,
            file: findings.file.clone(),
            at: field.position(),
            field: field.path.clone(),
            key: field.key.to_owned(),
            source: source.clone(),
        });
    }
    source
}

/// Returns the variable of text such as `${NAME}`, `$NAME` or `{{ env.NAME }}`, which other programs
/// replace.
fn variable_in(text: &str) -> Option<&str> {
    let text = text.trim();
    let name = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .or_else(|| text.strip_prefix('$'))
        .or_else(|| text.strip_prefix("{{")?.strip_suffix("}}"))?;
    let name = name
        .trim()
        .trim_start_matches("env.")
        .trim_start_matches("env:");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_number = name.starts_with(|c: char| c.is_ascii_digit());
    (!name.is_empty() && !is_number && name.chars().all(is_name)).then_some(name)
}

/// Marks all values below `node` as secrets, so that no diagnostic shows them: a misplaced value
/// may also be a secret. Only the fields that state a source stay visible.
fn redact_in_diagnostics(node: &YamlNode, findings: &mut DiagnosticSink) {
    match &node.content {
        NodeContent::Map(entries) => {
            for entry in entries.iter().filter(|entry| entry.key != "valueFrom") {
                redact_in_diagnostics(&entry.value, findings);
            }
        }
        NodeContent::List(items) => items
            .iter()
            .for_each(|item| redact_in_diagnostics(item, findings)),
        NodeContent::Text(_) | NodeContent::Number(_) => {
            findings.secrets.push(node.at.start..node.at.end)
        }
        NodeContent::Null | NodeContent::Bool(_) => {}
    }
}

/// Reads `{value: …}` or `{valueFrom: …}`.
fn read_source(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ValueSource> {
    if field.node.entries().is_none() {
        let message = format!(
            "`{}` must be a map with the source of its value, but is {}.",
            field.path,
            field.node.type_phrase()
        );
        let diagnostic = invalid_source_error(field, message);
        findings.add(match field.node.text().and_then(variable_in) {
            Some(name) => {
                let source = format!("{{valueFrom: {{env: {name}}}}}");
                diagnostic
                    .suggest(format!("write `{source}`"))
                    .fix(Fix::replace_raw(field.node.at, &source))
            }
            None => diagnostic
                .suggest("write `{valueFrom: {env: NAME}}`, or `{value: …}` if it is not a secret"),
        });
        return None;
    }
    let mut fields = field.fields(findings)?;
    let value = fields.optional("value");
    let from = fields.optional("valueFrom");
    fields.finish(findings);
    match (value, from) {
        (Some(value), None) => read_value(&value, findings),
        (None, Some(from)) => read_from(&from, findings),
        (Some(_), Some(_)) => {
            let message = format!("`{}` has both `value` and `valueFrom`.", field.path);
            findings.add(invalid_source_error(field, message).suggest("keep one of the two"));
            None
        }
        (None, None) => {
            let message = format!("`{}` has neither `value` nor `valueFrom`.", field.path);
            findings.add(
                invalid_source_error(field, message).suggest("write `{valueFrom: {env: NAME}}`"),
            );
            None
        }
    }
}

/// Reads a literal value.
fn read_value(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ValueSource> {
    let Some(text) = field.node.text() else {
        let message = format!(
            "`{}` must be a string, but is {}.",
            field.path,
            field.node.type_phrase()
        );
        findings.add(invalid_source_error(field, message).suggest("put it in quotes"));
        return None;
    };
    Some(ValueSource::Value(Secret::new(text)))
}

/// Reads `valueFrom` with `env` or `secretRef`.
fn read_from(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ValueSource> {
    if field.node.entries().is_none() {
        let message = format!(
            "`{}` must be a map, but is {}.",
            field.path,
            field.node.type_phrase()
        );
        findings
            .add(invalid_source_error(field, message).suggest("write `valueFrom: {env: NAME}`"));
        return None;
    }
    let mut fields = field.fields(findings)?;
    let env = fields.optional("env");
    let secret = fields.optional("secretRef");
    fields.finish(findings);
    match (env, secret) {
        (Some(env), None) => read_env(&env, findings),
        (None, Some(secret)) => read_secret_ref(&secret, findings),
        (Some(_), Some(_)) => {
            let message = format!("`{}` has both `env` and `secretRef`.", field.path);
            findings.add(invalid_source_error(field, message).suggest("keep one of the two"));
            None
        }
        (None, None) => {
            let message = format!("`{}` has neither `env` nor `secretRef`.", field.path);
            findings.add(
                invalid_source_error(field, message).suggest("write `valueFrom: {env: NAME}`"),
            );
            None
        }
    }
}

/// Reads the name of an environment variable.
fn read_env(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ValueSource> {
    match field.node.text() {
        Some(name)
            if !name.is_empty()
                && !name.contains(['=', '\0'])
                && !name.contains(char::is_whitespace) =>
        {
            Some(ValueSource::Env(name.to_owned()))
        }
        _ => {
            let message = format!(
                "`{}` must be the name of an environment variable.",
                field.path
            );
            findings.add(
                invalid_source_error(field, message)
                    .suggest("write a name such as `OPENAI_API_KEY`, without `$`"),
            );
            None
        }
    }
}

/// Reads a reference to a secret and its key.
fn read_secret_ref(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ValueSource> {
    if field.node.entries().is_none() {
        let message = format!(
            "`{}` must be a map, but is {}.",
            field.path,
            field.node.type_phrase()
        );
        findings.add(
            invalid_source_error(field, message)
                .suggest("write `secretRef: {ref: Secret/name, key: key}`"),
        );
        return None;
    }
    let mut fields = field.fields(findings)?;
    let reference = fields.required("ref", findings);
    let key = fields.optional("key").and_then(|key| key.text(findings));
    fields.finish(findings);
    let reference = reference?;
    let name = reference
        .node
        .text()
        .and_then(|text| text.strip_prefix("Secret/"));
    let Some(name) = name.filter(|name| !name.is_empty() && !name.contains('/')) else {
        let message = format!("`{}` must have the form `Secret/name`.", reference.path);
        findings.add(invalid_source_error(&reference, message).suggest("write `ref: Secret/name`"));
        return None;
    };
    Some(ValueSource::SecretRef {
        name: name.to_owned(),
        key: key.map(str::to_owned),
    })
}

/// Creates the error for an invalid value source.
fn invalid_source_error(field: &FieldReader<'_>, message: String) -> Diagnostic {
    field.diagnostic(Code::INVALID_VALUE_SOURCE, message)
}

//! Reading value sources (rule L8).

use schemars::JsonSchema;

use crate::decode::Field;
use crate::diagnostic::{Code, Diagnostic};
use crate::findings::{Findings, ValueOrigin};
use crate::node::{Content, Node};
use crate::value::{Secret, TextOrSource, ValueSource};

/// A value: written in the file, or looked up when the swarm starts.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ValueSource")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) enum ValueSourceShape {
    /// A value that is written in the file.
    Value(ValueShape),
    /// A value that is looked up when the swarm starts.
    ValueFrom(LookedUpShape),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WrittenValue")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ValueShape {
    /// The value itself. It is treated as a secret.
    value: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "LookedUpValue")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct LookedUpShape {
    /// Where the value is looked up.
    value_from: ValueFromKindShape,
}

/// Where a value is looked up.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ValueFrom")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) enum ValueFromKindShape {
    /// In the environment.
    Env(FromEnvShape),
    /// In a secret.
    SecretRef(FromSecretShape),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ValueFromEnv")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct FromEnvShape {
    /// The name of the environment variable that holds the value.
    #[schemars(extend("x-goondan-names" = "variable"))]
    env: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ValueFromSecret")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct FromSecretShape {
    /// The secret that holds the value.
    secret_ref: SecretRefShape,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SecretRef")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct SecretRefShape {
    /// The secret, written `Secret/name`.
    #[schemars(regex(pattern = "^Secret/[^/]+$"))]
    r#ref: String,
    /// The key inside the secret. Without it, the name of the field.
    key: Option<String>,
}

/// A string that is written in the file, or a value that is looked up.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TextOrSource")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) enum TextOrSourceShape {
    /// No secret.
    Plain(ScalarShape),
    /// A secret.
    Source(ValueSourceShape),
}

/// A string, or a value that is written like one.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Scalar")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) enum ScalarShape {
    /// Text.
    Text(String),
    /// A number.
    Number(f64),
    /// `true` or `false`.
    Bool(bool),
}

/// Reads a map of strings and value sources, such as headers.
pub(crate) fn read_texts(
    field: &Field<'_>,
    findings: &mut Findings,
) -> Option<Vec<(String, TextOrSource)>> {
    let entries = field.entries(findings)?;
    let values: Vec<_> = entries
        .iter()
        .map(|entry| Some((entry.key.to_owned(), read_text(entry, findings)?)))
        .collect();
    values.into_iter().collect()
}

fn read_text(entry: &Field<'_>, findings: &mut Findings) -> Option<TextOrSource> {
    match &entry.node.content {
        Content::Map(_) => read(entry, findings).map(TextOrSource::Source),
        Content::Number(number) => Some(TextOrSource::Plain(number.to_string())),
        Content::Bool(truth) => Some(TextOrSource::Plain(truth.to_string())),
        _ => entry
            .text(findings)
            .map(|text| TextOrSource::Plain(text.to_owned())),
    }
}

/// Reads the value source at `field` and notes where it is written. Nothing that it holds is ever quoted.
pub(crate) fn read(field: &Field<'_>, findings: &mut Findings) -> Option<ValueSource> {
    hide(field.node, findings);
    let source = read_source(field, findings)?;
    if let Some(resource) = findings.resource.clone() {
        findings.values.push(ValueOrigin {
            resource,
            file: findings.file.clone(),
            at: field.at(),
            field: field.path.clone(),
            key: field.key.to_owned(),
            source: source.clone(),
        });
    }
    Some(source)
}

/// Whatever is written here may be a secret, rightly or wrongly placed; only what says where to look is none.
fn hide(node: &Node, findings: &mut Findings) {
    match &node.content {
        Content::Map(entries) => {
            entries
                .iter()
                .filter(|entry| entry.key != "valueFrom")
                .for_each(|entry| hide(&entry.value, findings));
        }
        Content::List(items) => items.iter().for_each(|item| hide(item, findings)),
        Content::Text(_) | Content::Number(_) => findings.secrets.push(node.at.start..node.at.end),
        Content::Null | Content::Bool(_) => {}
    }
}

fn read_source(field: &Field<'_>, findings: &mut Findings) -> Option<ValueSource> {
    if field.node.entries().is_none() {
        let message = format!(
            "`{}` must say where its value comes from, but is {}.",
            field.path,
            field.node.what()
        );
        findings.add(
            wrong(field, message).suggest(
                "write `{valueFrom: {env: NAME}}`, or `{value: …}` for what is not a secret",
            ),
        );
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
            findings.add(wrong(field, message).suggest("keep one of the two"));
            None
        }
        (None, None) => {
            let message = format!("`{}` has neither `value` nor `valueFrom`.", field.path);
            findings.add(wrong(field, message).suggest("write `{valueFrom: {env: NAME}}`"));
            None
        }
    }
}

fn read_value(field: &Field<'_>, findings: &mut Findings) -> Option<ValueSource> {
    let Some(text) = field.node.text() else {
        let message = format!(
            "`{}` must be text, but is {}.",
            field.path,
            field.node.what()
        );
        findings.add(wrong(field, message).suggest("put it in quotes"));
        return None;
    };
    Some(ValueSource::Value(Secret::new(text)))
}

fn read_from(field: &Field<'_>, findings: &mut Findings) -> Option<ValueSource> {
    if field.node.entries().is_none() {
        let message = format!(
            "`{}` must be a map, but is {}.",
            field.path,
            field.node.what()
        );
        findings.add(wrong(field, message).suggest("write `valueFrom: {env: NAME}`"));
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
            findings.add(wrong(field, message).suggest("keep one of the two"));
            None
        }
        (None, None) => {
            let message = format!("`{}` has neither `env` nor `secretRef`.", field.path);
            findings.add(wrong(field, message).suggest("write `valueFrom: {env: NAME}`"));
            None
        }
    }
}

fn read_env(field: &Field<'_>, findings: &mut Findings) -> Option<ValueSource> {
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
                wrong(field, message).suggest("write a name such as `OPENAI_API_KEY`, without `$`"),
            );
            None
        }
    }
}

fn read_secret_ref(field: &Field<'_>, findings: &mut Findings) -> Option<ValueSource> {
    if field.node.entries().is_none() {
        let message = format!(
            "`{}` must be a map, but is {}.",
            field.path,
            field.node.what()
        );
        findings
            .add(wrong(field, message).suggest("write `secretRef: {ref: Secret/name, key: key}`"));
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
        findings.add(wrong(&reference, message).suggest("write `ref: Secret/name`"));
        return None;
    };
    Some(ValueSource::SecretRef {
        name: name.to_owned(),
        key: key.map(str::to_owned),
    })
}

fn wrong(field: &Field<'_>, message: String) -> Diagnostic {
    field.problem(Code::INVALID_VALUE_SOURCE, message)
}

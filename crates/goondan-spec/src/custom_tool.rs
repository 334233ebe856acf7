//! Executable custom tools: a directory with a `tool.yaml` and a program that accepts `--key=value`
//! arguments.

use serde::Serialize;
use serde_json::{Value, json};

use crate::decode::{FieldReader, MapReader};
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::DiagnosticSink;
use crate::kinds::{ExportSpec, Permission};
use crate::node::NodeContent;
use crate::yaml;

/// Manifest of an executable custom tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomTool {
    /// Name of the tool's only export: lower-case letters, digits, hyphens and underscores.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// Version, for people.
    pub version: Option<String>,
    /// Program, relative to the tool's directory and inside it.
    pub entrypoint: String,
    /// Usage notes for the model, appended to the description.
    pub usage: Option<String>,
    /// Arguments of the program.
    pub parameters: Vec<CustomParameter>,
}

/// Argument of an executable custom tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomParameter {
    /// Name, as in `--name=value`.
    pub name: String,
    /// Type: `string`, `number`, `integer` or `boolean`.
    pub r#type: ParameterType,
    /// Set if a call without the argument is rejected.
    pub required: bool,
    /// Description for the model.
    pub description: Option<String>,
}

/// Type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// String.
    String,
    /// Number.
    Number,
    /// Integer.
    Integer,
    /// Boolean.
    Boolean,
}

const PARAMETER_TYPES: [(&str, ParameterType); 4] = [
    ("string", ParameterType::String),
    ("number", ParameterType::Number),
    ("integer", ParameterType::Integer),
    ("boolean", ParameterType::Boolean),
];

impl CustomTool {
    /// Parses a `tool.yaml`. `file` is its name in diagnostics. Does not check whether the program
    /// exists.
    ///
    /// # Errors
    /// Returns all errors in the file.
    pub fn parse(text: &str, file: &str) -> Result<CustomTool, Vec<Diagnostic>> {
        let mut findings = DiagnosticSink::for_file(file);
        let tool = read(text, &mut findings);
        tool.filter(|_| findings.is_clean())
            .ok_or(findings.diagnostics)
    }

    /// Returns the tool's only export, as the model sees it.
    pub fn export(&self) -> ExportSpec {
        let description = match &self.usage {
            Some(usage) => format!("{}\n\n{}", self.description, usage.trim()),
            None => self.description.clone(),
        };
        ExportSpec {
            name: self.name.clone(),
            description,
            parameters: self.schema(),
            permissions: [Permission::Execute].into(),
            ..ExportSpec::default()
        }
    }

    /// Returns the JSON Schema of the arguments, which allows no additional properties.
    pub fn schema(&self) -> Value {
        let mut properties = serde_json::Map::new();
        for parameter in &self.parameters {
            let mut property = json!({ "type": parameter.r#type });
            if let Some(description) = &parameter.description {
                property["description"] = json!(description);
            }
            properties.insert(parameter.name.clone(), property);
        }
        let required: Vec<&str> = self
            .parameters
            .iter()
            .filter(|parameter| parameter.required)
            .map(|parameter| parameter.name.as_str())
            .collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }
}

/// Reads `tool.yaml`; `None` if it is invalid.
fn read(text: &str, findings: &mut DiagnosticSink) -> Option<CustomTool> {
    let root = match yaml::parse(text) {
        Ok(Some(root)) => root,
        Ok(None) => {
            let message = format!("`{}` is empty.", findings.file);
            findings.add(
                Diagnostic::new(Code::SCHEMA_INVALID, message)
                    .suggest("give it `name`, `description` and `entrypoint`"),
            );
            return None;
        }
        Err((error, at)) => {
            let diagnostic = Diagnostic::new(Code::PARSE_ERROR, error.message).at(at);
            findings.add(match error.suggestion {
                Some(suggestion) => diagnostic.suggest(suggestion),
                None => diagnostic,
            });
            return None;
        }
    };
    let root = FieldReader::root(&root);
    if !matches!(root.node.content, NodeContent::Map(_)) {
        findings.add(root.invalid_value(format!(
            "`{}` must be a map, but is {}.",
            findings.file,
            root.node.type_phrase()
        )));
        return None;
    }
    let mut fields = root.fields(findings)?;
    let tool = read_fields(&mut fields, findings);
    fields.finish(findings);
    tool
}

/// Reads the fields of `tool.yaml`; `None` if a required field is missing or invalid.
fn read_fields(fields: &mut MapReader<'_>, findings: &mut DiagnosticSink) -> Option<CustomTool> {
    let name = fields
        .required("name", findings)
        .and_then(|field| read_name(&field, findings));
    let description = fields
        .required("description", findings)
        .and_then(|field| field.text(findings));
    let version = fields
        .optional("version")
        .and_then(|field| read_version(&field, findings));
    let entrypoint = fields
        .required("entrypoint", findings)
        .and_then(|field| read_entrypoint(&field, findings));
    let usage = fields
        .optional("usage")
        .and_then(|field| field.text(findings));
    let parameters = fields
        .optional("parameters")
        .and_then(|field| read_parameters(&field, findings));
    Some(CustomTool {
        name: name?,
        description: description?.to_owned(),
        version,
        entrypoint: entrypoint?,
        usage: usage.map(str::to_owned),
        parameters: parameters.unwrap_or_default(),
    })
}

/// `version: 1.0` is a number in YAML, but is meant as a string.
fn read_version(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    match &field.node.content {
        NodeContent::Number(number) => Some(number.to_string()),
        _ => field.text(findings).map(str::to_owned),
    }
}

/// Reads the name of the tool.
fn read_name(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let name = field.text(findings)?;
    let plain = name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_'))
        && !name.contains("__");
    if !plain {
        let message = "A custom tool's name begins with a letter and contains at most 63 \
            lower-case letters, digits, hyphens and single underscores.";
        findings.add(field.diagnostic(Code::INVALID_NAME, message));
    }
    plain.then(|| name.to_owned())
}

/// Reads the path of the program; `None` if it leads out of the directory of the tool.
fn read_entrypoint(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let path = field.text(findings)?;
    let leaves = path.starts_with(['/', '\\'])
        || path.split(['/', '\\']).any(|part| part == "..")
        || path.contains(':');
    if leaves {
        let message = "`entrypoint` must be a program in the tool's own directory.";
        findings.add(
            field
                .diagnostic(Code::PATH_ESCAPE, message)
                .suggest("put the program next to `tool.yaml` and write its file name"),
        );
    }
    (!leaves).then(|| path.trim_start_matches("./").to_owned())
}

/// Reads the parameters; reports names that occur twice.
fn read_parameters(
    field: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Vec<CustomParameter>> {
    let mut parameters: Vec<CustomParameter> = Vec::new();
    for item in field.list(findings)? {
        let Some(parameter) = read_parameter(&item, findings) else {
            continue;
        };
        if parameters.iter().any(|other| other.name == parameter.name) {
            findings.add(item.invalid_value(format!(
                "The parameter `{}` is declared twice.",
                parameter.name
            )));
        }
        parameters.push(parameter);
    }
    Some(parameters)
}

/// Reads a parameter; `None` if its name or type is invalid.
fn read_parameter(
    item: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<CustomParameter> {
    let mut fields = item.fields(findings)?;
    let name = fields
        .required("name", findings)
        .and_then(|field| read_parameter_name(&field, findings));
    let kind = match fields.optional("type") {
        Some(field) => field.one_of(&PARAMETER_TYPES, findings),
        None => Some(ParameterType::String),
    };
    let required = fields
        .optional("required")
        .and_then(|field| field.boolean(findings));
    let description = fields
        .optional("description")
        .and_then(|field| field.text(findings));
    fields.finish(findings);
    Some(CustomParameter {
        name: name?,
        r#type: kind?,
        required: required.unwrap_or(false),
        description: description.map(str::to_owned),
    })
}

/// The name becomes a flag, so it must not contain characters that end or begin another flag.
fn read_parameter_name(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let name = field.text(findings)?;
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !plain {
        let message = "A parameter's name begins with a letter and contains only letters, \
            digits, `-`, `_` and `.`.";
        findings.add(field.invalid_value(message));
    }
    plain.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_manifest_becomes_an_export() {
        let text = "name: greet\ndescription: Greets\nversion: 1.0.0\nentrypoint: ./greet\nusage: \
            |\n  Say whom.\nparameters:\n  - {name: who, type: string, required: true, \
            description: whom}\n  - {name: times, type: number}\n";
        let tool = CustomTool::parse(text, "tool.yaml").unwrap();
        assert_eq!(tool.entrypoint, "greet");
        assert_eq!(
            tool.export().parameters,
            json!({
                "type": "object",
                "properties": {"who": {"type": "string", "description": "whom"}, "times": {"type": "number"}},
                "required": ["who"],
                "additionalProperties": false
            })
        );
    }

    #[test]
    fn all_errors_of_a_custom_tool_manifest_are_reported() {
        let text = "name: Bad\nentrypoint: ../../bin/sh\nparameters:\n  - {name: '--x', type: \
            text}\nextra: 1\n";
        let codes: Vec<_> = CustomTool::parse(text, "t")
            .unwrap_err()
            .iter()
            .map(|problem| (problem.code, problem.position.unwrap().line))
            .collect();
        assert_eq!(
            codes,
            [
                (Code::INVALID_NAME, 1),
                (Code::SCHEMA_INVALID, 1),
                (Code::PATH_ESCAPE, 2),
                (Code::SCHEMA_INVALID, 4),
                (Code::SCHEMA_INVALID, 4),
                (Code::SCHEMA_INVALID, 5)
            ]
        );
    }
}

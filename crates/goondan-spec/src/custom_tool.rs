//! Executable custom tools: a folder with a `tool.yaml` and a program that takes `--key=value` arguments.

use serde::Serialize;
use serde_json::{Value, json};

use crate::decode::{Field, Fields};
use crate::diagnostic::{Code, Diagnostic};
use crate::findings::Findings;
use crate::kinds::{ExportSpec, Permission};
use crate::node::Content;
use crate::yaml;

/// The manifest of an executable custom tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomTool {
    /// Lower-case letters, digits, hyphens and underscores; the name of the tool's only export.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// For people.
    pub version: Option<String>,
    /// The program, relative to the folder; it never leaves it by `..` or an absolute path.
    pub entrypoint: String,
    /// How to use it, for the model; appended to the description.
    pub usage: Option<String>,
    /// The arguments that it takes.
    pub parameters: Vec<CustomParameter>,
}

/// An argument of an executable custom tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomParameter {
    /// As in `--name=value`.
    pub name: String,
    /// `string`, `number` or `boolean`.
    pub r#type: ParameterType,
    /// Whether a call without it is refused.
    pub required: bool,
    /// For the model.
    pub description: Option<String>,
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Text.
    String,
    /// Any number.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
}

const TYPES: [(&str, ParameterType); 4] = [
    ("string", ParameterType::String),
    ("number", ParameterType::Number),
    ("integer", ParameterType::Integer),
    ("boolean", ParameterType::Boolean),
];

impl CustomTool {
    /// Reads a `tool.yaml`. `file` is what diagnostics call it. Whether the program exists is not looked at.
    ///
    /// # Errors
    /// Every mistake in it at once.
    pub fn parse(text: &str, file: &str) -> Result<CustomTool, Vec<Diagnostic>> {
        let mut findings = Findings::about(file);
        let tool = read(text, &mut findings);
        tool.filter(|_| findings.is_clean())
            .ok_or(findings.diagnostics)
    }

    /// The tool's only export, as the model sees it.
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

    /// The arguments as a JSON Schema of type object that allows no others.
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

fn read(text: &str, findings: &mut Findings) -> Option<CustomTool> {
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
    let root = Field::root(&root);
    if !matches!(root.node.content, Content::Map(_)) {
        findings.add(root.invalid(format!(
            "`{}` must be a map, but is {}.",
            findings.file,
            root.node.what()
        )));
        return None;
    }
    let mut fields = root.fields(findings)?;
    let tool = read_fields(&mut fields, findings);
    fields.finish(findings);
    tool
}

fn read_fields(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<CustomTool> {
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

/// `version: 1.0` is a number in YAML, and nobody means one.
fn read_version(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    match &field.node.content {
        Content::Number(number) => Some(number.to_string()),
        _ => field.text(findings).map(str::to_owned),
    }
}

fn read_name(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let name = field.text(findings)?;
    let plain = name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_'))
        && !name.contains("__");
    if !plain {
        let message = "A custom tool's name begins with a letter and holds lower-case letters, digits, hyphens and single underscores, at most 63.";
        findings.add(field.problem(Code::INVALID_NAME, message));
    }
    plain.then(|| name.to_owned())
}

fn read_entrypoint(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let path = field.text(findings)?;
    let leaves = path.starts_with(['/', '\\'])
        || path.split(['/', '\\']).any(|part| part == "..")
        || path.contains(':');
    if leaves {
        let message = "`entrypoint` must be a program inside the tool's own folder.";
        findings.add(
            field
                .problem(Code::PATH_ESCAPE, message)
                .suggest("put the program beside `tool.yaml` and write its name"),
        );
    }
    (!leaves).then(|| path.trim_start_matches("./").to_owned())
}

fn read_parameters(field: &Field<'_>, findings: &mut Findings) -> Option<Vec<CustomParameter>> {
    let mut parameters: Vec<CustomParameter> = Vec::new();
    for item in field.list(findings)? {
        let Some(parameter) = read_parameter(&item, findings) else {
            continue;
        };
        if parameters.iter().any(|other| other.name == parameter.name) {
            findings.add(item.invalid(format!(
                "The parameter `{}` is declared twice.",
                parameter.name
            )));
        }
        parameters.push(parameter);
    }
    Some(parameters)
}

fn read_parameter(item: &Field<'_>, findings: &mut Findings) -> Option<CustomParameter> {
    let mut fields = item.fields(findings)?;
    let name = fields
        .required("name", findings)
        .and_then(|field| read_parameter_name(&field, findings));
    let kind = match fields.optional("type") {
        Some(field) => field.one_of(&TYPES, findings),
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

/// It becomes a flag, so it holds nothing that could end or begin another one.
fn read_parameter_name(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let name = field.text(findings)?;
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !plain {
        let message = "A parameter's name begins with a letter and holds letters, digits, `-`, `_` and `.` only.";
        findings.add(field.invalid(message));
    }
    plain.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_manifest_becomes_an_export() {
        let text = "name: greet\ndescription: Greets\nversion: 1.0.0\nentrypoint: ./greet\nusage: |\n  Say whom.\nparameters:\n  - {name: who, type: string, required: true, description: whom}\n  - {name: times, type: number}\n";
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
    fn every_mistake_is_found() {
        let text = "name: Bad\nentrypoint: ../../bin/sh\nparameters:\n  - {name: '--x', type: text}\nextra: 1\n";
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

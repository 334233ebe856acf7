//! Fields around `spec` in every document: `apiVersion`, `kind` and `metadata` (rules L4, L6).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ResourceId;
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic::{Code, Diagnostic, SourcePosition};
use crate::diagnostic_sink::DiagnosticSink;
use crate::fix::Fix;
use crate::foreign_terms;
use crate::meta::{API_VERSION, Kind};
use crate::node::{NodeContent, YamlNode};
use crate::text::{closest, excerpt};

/// Maximum length of a `metadata.name`, and of each part of a scoped Package name.
pub(crate) const MAX_NAME_CHARS: usize = 63;

#[derive(Debug)]
pub(crate) struct DocumentEnvelope<'n> {
    /// Everything except `spec`.
    pub(crate) head: Arc<EnvelopeHead>,
    /// `None` if `spec` is missing or must not be decoded.
    pub(crate) spec: Option<FieldReader<'n>>,
}

/// Identity and metadata of a document.
#[derive(Debug)]
pub(crate) struct EnvelopeHead {
    /// The name is empty if it is missing.
    pub(crate) id: ResourceId,
    /// Position of `metadata.name`, or of the place for it.
    pub(crate) name_at: SourcePosition,
    pub(crate) labels: StringMap,
    pub(crate) annotations: StringMap,
}

impl<'n> DocumentEnvelope<'n> {
    /// Rebuilds the envelope of a document without diagnostics from its cached head.
    pub(crate) fn from_head(head: Arc<EnvelopeHead>, root: &'n YamlNode) -> Self {
        DocumentEnvelope {
            head,
            spec: FieldReader::root(root).child("spec"),
        }
    }

    /// Creates an envelope whose `spec` is not decoded.
    fn without_spec(id: ResourceId, name_at: SourcePosition) -> Self {
        let head = EnvelopeHead {
            id,
            name_at,
            labels: StringMap::new(),
            annotations: StringMap::new(),
        };
        DocumentEnvelope {
            head: Arc::new(head),
            spec: None,
        }
    }
}

/// Reads the envelope of a document of `package`. Returns `None` if it cannot become a resource.
pub(crate) fn read<'n>(
    root: &'n YamlNode,
    package: Option<&str>,
    findings: &mut DiagnosticSink,
) -> Option<DocumentEnvelope<'n>> {
    let root = FieldReader::root(root);
    if root.node.entries().is_none() {
        findings.add(not_a_map_error(&root));
        return None;
    }
    let mut fields = root.fields(findings)?;
    let version = fields.optional("apiVersion");
    let kind_field = fields.optional("kind");
    let metadata = fields.optional("metadata");
    let kind = kind_field
        .as_ref()
        .and_then(|field| Kind::parse(field.node.text()?));
    let name_field = metadata.as_ref().and_then(|field| field.node.entry("name"));
    let name = name_field
        .and_then(|entry| entry.value.text())
        .unwrap_or_default();
    let id = kind.map(|kind| ResourceId {
        package: package.map(str::to_owned),
        kind,
        name: name.to_owned(),
    });
    findings.resource = id.clone().filter(|id| !id.name.is_empty());
    let name_at = name_field.map_or(fields.at, |entry| entry.value.at);
    if !check_version(version.as_ref(), &fields, findings) {
        // The name is still registered, so that references to it are not reported as well.
        return Some(DocumentEnvelope::without_spec(id?, name_at));
    }
    check_kind(kind_field.as_ref(), kind, &fields, findings);
    let id = id?;
    let spec = fields.optional("spec");
    let (labels, annotations) = read_metadata(metadata.as_ref(), id.kind, &fields, findings);
    if spec.is_none() && id.kind != Kind::Package {
        findings.add(
            fields
                .missing_field("spec")
                .suggest("add `spec:` with the fields of the resource"),
        );
    }
    fields.finish(findings);
    Some(DocumentEnvelope {
        head: Arc::new(EnvelopeHead {
            id,
            name_at,
            labels,
            annotations,
        }),
        spec,
    })
}

/// Creates the error for a document that is not a map.
fn not_a_map_error(root: &FieldReader<'_>) -> Diagnostic {
    let message = format!(
        "A document must be a map with `apiVersion`, `kind`, `metadata` and `spec`, but is {}.",
        root.node.type_phrase()
    );
    Diagnostic::new(Code::SCHEMA_INVALID, message)
        .at(root.position())
        .suggest(
            "begin it with `apiVersion: goondan.ai/v1`; several documents are separated by `---`",
        )
}

/// Returns true if the rest of the document can be interpreted.
fn check_version(
    version: Option<&FieldReader<'_>>,
    fields: &MapReader<'_>,
    findings: &mut DiagnosticSink,
) -> bool {
    let suggestion = format!("write `apiVersion: {API_VERSION}`");
    let Some(version) = version else {
        let missing_error = fields.missing_field("apiVersion").suggest(suggestion);
        findings.add(match fields.add("apiVersion", API_VERSION) {
            Some(fix) => missing_error.fix(fix.mark_certain()),
            None => missing_error,
        });
        return true;
    };
    if version.node.text() == Some(API_VERSION) {
        return true;
    }
    let stated_version = version.node.text().map_or_else(
        || version.node.type_phrase().to_owned(),
        |text| format!("`{}`", excerpt(text, 60)),
    );
    let message = format!("`apiVersion` must be `{API_VERSION}`, but is {stated_version}.");
    let problem = version
        .diagnostic(Code::UNSUPPORTED_API_VERSION, message)
        .suggest(suggestion);
    findings.add(match version.node.content {
        NodeContent::Text(_) => {
            problem.fix(Fix::replace(version.node.at, API_VERSION).mark_uncertain())
        }
        _ => problem,
    });
    false
}

/// Reports a missing or unknown `kind`. `kind` is the parsed value, if it is known.
fn check_kind(
    field: Option<&FieldReader<'_>>,
    kind: Option<Kind>,
    fields: &MapReader<'_>,
    findings: &mut DiagnosticSink,
) {
    let kinds = Kind::ALL.map(Kind::as_str);
    let Some(field) = field else {
        let suggestion = format!("add `kind:` with one of {}", kinds.join(", "));
        findings.add(fields.with_add_fix(
            fields.missing_field("kind").suggest(suggestion),
            "kind",
            "",
        ));
        return;
    };
    if kind.is_some() {
        return;
    }
    let Some(text) = field.text(findings) else {
        return;
    };
    let message = format!("There is no kind `{}`.", excerpt(text, 60));
    let problem = field.diagnostic(Code::UNKNOWN_KIND, message);
    findings.add(
        match (foreign_terms::kind_suggestion(text), closest(text, &kinds)) {
            (Some(suggestion), _) => problem.suggest(suggestion),
            (None, Some(near)) => field.did_you_mean(problem, near),
            (None, None) => problem.suggest(format!("use one of {}", kinds.join(", "))),
        },
    );
}

type StringMap = BTreeMap<String, String>;

/// Reads `metadata` and returns the labels and the annotations; reports an invalid name.
fn read_metadata(
    metadata: Option<&FieldReader<'_>>,
    kind: Kind,
    document: &MapReader<'_>,
    findings: &mut DiagnosticSink,
) -> (StringMap, StringMap) {
    let Some(metadata) = metadata else {
        let missing_error = document
            .missing_field("metadata")
            .suggest("add `metadata: {name: …}`");
        findings.add(document.with_add_fix(missing_error, "metadata", "{name: my-name}"));
        return Default::default();
    };
    let Some(mut fields) = metadata.fields(findings) else {
        return Default::default();
    };
    if let Some(name) = fields.required("name", findings) {
        read_name(&name, kind, findings);
    }
    let labels = fields
        .optional("labels")
        .and_then(|labels| text_map(&labels, findings));
    let annotations = fields
        .optional("annotations")
        .and_then(|annotations| text_map(&annotations, findings));
    fields.finish(findings);
    (labels.unwrap_or_default(), annotations.unwrap_or_default())
}

/// Reads a map of strings; reports and skips other values.
fn text_map(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<StringMap> {
    let mut map = BTreeMap::new();
    for entry in field.entries(findings)? {
        match entry.node.text() {
            Some(text) => drop(map.insert(entry.key.to_owned(), text.to_owned())),
            None => drop(entry.text(findings)),
        }
    }
    Some(map)
}

/// Checks rule L6. An invalid name still counts, so that references find the resource.
fn read_name(field: &FieldReader<'_>, kind: Kind, findings: &mut DiagnosticSink) {
    let Some(name) = field.node.text() else {
        let message = format!(
            "A name must be a string, but is {}.",
            field.node.type_phrase()
        );
        let suggestion = match field.node.to_json() {
            serde_json::Value::Number(number) => {
                format!(
                    "begin it with a letter, such as `{}-{number}`",
                    kind.as_str().to_lowercase()
                )
            }
            serde_json::Value::Bool(value) => format!("put it in quotes: \"{value}\""),
            _ => "write `name: my-name`".to_owned(),
        };
        findings.add(
            field
                .diagnostic(Code::INVALID_NAME, message)
                .suggest(suggestion),
        );
        return;
    };
    if let Err(why) = check_name(name, kind) {
        let name_excerpt = excerpt(name, 80);
        let diagnostic = field.diagnostic(
            Code::INVALID_NAME,
            format!("`{name_excerpt}` is not a valid {kind} name: {why}."),
        );
        let fixed = nearest_valid_name(name);
        findings.add(if fixed.is_empty() {
            diagnostic.suggest("write `name: my-name`")
        } else {
            diagnostic.suggest(format!("write `name: {fixed}`"))
        });
    }
}

/// Checks the name of a resource of `kind` (rule L6).
///
/// # Errors
/// Returns the reason in words that follow a colon.
pub fn check_name(name: &str, kind: Kind) -> Result<(), String> {
    let scoped = name.strip_prefix('@').filter(|_| kind == Kind::Package);
    match scoped {
        Some(rest) => match rest.split_once('/') {
            Some((scope, name)) => check_plain_name(scope).and_then(|()| check_plain_name(name)),
            None => Err("it needs a `/` and a name after `@scope`".to_owned()),
        },
        None => check_plain_name(name),
    }
}

/// Returns why the name is not valid, as the end of a sentence.
fn check_plain_name(name: &str) -> Result<(), String> {
    let wrong = name
        .chars()
        .find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-'));
    if name.is_empty() {
        Err("it is empty".to_owned())
    } else if let Some(wrong) = wrong {
        Err(format!(
            "it may contain only lower-case letters, digits and hyphens, but contains `{}`",
            wrong.escape_debug()
        ))
    } else if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        Err("it must begin with a letter".to_owned())
    } else if name.len() > MAX_NAME_CHARS {
        Err(format!(
            "it is {} characters long, more than {MAX_NAME_CHARS}",
            name.len()
        ))
    } else {
        Ok(())
    }
}

/// Returns the nearest name that rule L6 allows. Empty if nothing is left.
pub(crate) fn nearest_valid_name(name: &str) -> String {
    let mut fixed = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' => fixed.push(c),
            _ if fixed.ends_with('-') => {}
            _ => fixed.push('-'),
        }
    }
    let fixed = fixed.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    fixed
        .chars()
        .take(MAX_NAME_CHARS)
        .collect::<String>()
        .trim_end_matches('-')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_names_are_validated() {
        for good in ["a", "json-query", "a1", &"a".repeat(63)] {
            assert_eq!(check_name(good, Kind::Tool), Ok(()), "{good}");
        }
        for bad in ["", "A", "1a", "-a", "a_b", "ä", "@x/y", &"a".repeat(64)] {
            assert!(check_name(bad, Kind::Tool).is_err(), "{bad}");
        }
        assert_eq!(check_name("@goondan/base", Kind::Package), Ok(()));
        assert!(check_name("@goondan", Kind::Package).is_err());
    }

    #[test]
    fn a_valid_name_is_suggested_for_an_invalid_name() {
        assert_eq!(nearest_valid_name("Bad_Name"), "bad-name");
        assert_eq!(nearest_valid_name("1 My  Agent!"), "my-agent");
        assert_eq!(nearest_valid_name("😀"), "");
    }
}

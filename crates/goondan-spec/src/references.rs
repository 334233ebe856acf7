//! Reads references and resolves them immediately (rule L7).

use std::borrow::Cow;

use schemars::JsonSchema;

use crate::decode::{FieldReader, MapReader};
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::DiagnosticSink;
use crate::envelope::{check_name, nearest_valid_name};
use crate::index::{ResourceIndex, UnresolvedReference};
use crate::meta::{API_VERSION, Kind, ObjectRef, ResourceId};
use crate::text::{closest, excerpt, format_alternatives, format_list};

/// Maximum number of names that a suggestion lists if none is similar.
const MAX_LISTED_NAMES: usize = 24;

/// Returns the resource that a reference selects; `None`, with an error, if it does not exist or
/// has another kind. `from` is the package of the reference.
pub(crate) fn resolve(
    field: &FieldReader<'_>,
    expected: Kind,
    index: &ResourceIndex,
    from: Option<&str>,
    findings: &mut DiagnosticSink,
) -> Option<ResourceId> {
    // `{ref: Kind/name}`, as in lists of references.
    if let (Some(inner), None) = (field.child("ref"), field.child("kind")) {
        let mut fields = field.fields(findings)?;
        fields.optional("ref");
        fields.finish(findings);
        return resolve(&inner, expected, index, from, findings);
    }
    let reference = read(field, expected, findings)?;
    match index.resolve(&reference, from) {
        Ok(id) => {
            record_link(field, &reference, &id, findings);
            Some(id)
        }
        // The missing package is reported where its dependency is declared.
        Err(UnresolvedReference::Absent) => None,
        Err(miss) => {
            report_unresolved(field, &reference, &miss, index, findings);
            None
        }
    }
}

/// Records the byte range that names `id`.
fn record_link(
    field: &FieldReader<'_>,
    reference: &ObjectRef,
    id: &ResourceId,
    findings: &mut DiagnosticSink,
) {
    match field.child("name") {
        Some(name) => findings.record_link(&name, 0, id),
        None => {
            let is_bare = field.node.text() == Some(reference.name.as_str());
            let prefix = reference.kind.as_str().len() + 1;
            findings.record_link(field, if is_bare { 0 } else { prefix }, id);
        }
    }
}

/// Reads an item of a reference list: a reference as text, or `{ref: …}`. Returns the reference,
/// and a reader for the further fields of the item.
pub(crate) fn read_item<'n>(
    field: &FieldReader<'n>,
    findings: &mut DiagnosticSink,
) -> Option<(MapReader<'n>, FieldReader<'n>)> {
    if field.node.text().is_some() {
        return Some((MapReader::empty(field), field.clone()));
    }
    let mut fields = field.fields(findings)?;
    let reference = fields.optional("ref");
    if reference.is_none() {
        let missing_error = fields.missing_field("ref");
        findings.add(match (field.node.entry("kind"), field.node.entry("name")) {
            (Some(_), Some(_)) => {
                missing_error.suggest("put it under `ref`: `- ref: {kind: …, name: …}`")
            }
            _ => fields.with_add_fix(missing_error.suggest("write `- ref: Kind/name`"), "ref", ""),
        });
    }
    Some((fields, reference?))
}

/// Reads a reference and checks its kind.
fn read(
    field: &FieldReader<'_>,
    expected: Kind,
    findings: &mut DiagnosticSink,
) -> Option<ObjectRef> {
    let (package, kind, name) = match field.node.text() {
        Some(text) => split(field, text, expected, findings)?,
        None if field.node.entries().is_some() => read_map(field, findings)?,
        None => {
            let message = format!(
                "`{}` must be a reference, but is {}.",
                field.path,
                field.node.type_phrase()
            );
            findings.add(
                field
                    .diagnostic(Code::INVALID_REF, message)
                    .suggest(format!("write `{expected}/name`")),
            );
            return None;
        }
    };
    let Some(found) = Kind::parse(&kind) else {
        let message = format!(
            "`{}` names the kind `{}`, which does not exist.",
            field.path,
            excerpt(&kind, 60)
        );
        let kinds = Kind::ALL.map(Kind::as_str);
        let problem = field.diagnostic(Code::INVALID_REF, message);
        findings.add(match closest(&kind, &kinds) {
            Some(near) => suggest_reference(field, problem, near, &name),
            None => problem.suggest(format!("write `{expected}/{}`", excerpt(&name, 100))),
        });
        return None;
    };
    if found != expected {
        let message = format!(
            "`{}` must name a resource of kind {expected}, but names the {found} `{}`.",
            field.path,
            excerpt(&name, 100)
        );
        let suggestion = match (expected, found) {
            (Kind::Tool, Kind::Agent) => {
                "to let this agent call other agents, write `Tool/agents`, and list all agents in \
                    `spec.agents` of the Swarm"
                    .to_owned()
            }
            _ => format!("write `{expected}/…`"),
        };
        findings.add(
            field
                .diagnostic(Code::INVALID_REF, message)
                .suggest(suggestion),
        );
        return None;
    }
    Some(ObjectRef {
        package,
        kind: found,
        name,
    })
}

type ReferenceParts = (Option<String>, String, String);

/// Splits `Kind/name`; `None`, with an error, if the text has another form.
fn split(
    field: &FieldReader<'_>,
    text: &str,
    expected: Kind,
    findings: &mut DiagnosticSink,
) -> Option<ReferenceParts> {
    match text.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
            Some((None, kind.to_owned(), name.to_owned()))
        }
        // Each field expects one kind, so the name is sufficient.
        None if !text.trim().is_empty() => {
            Some((None, expected.as_str().to_owned(), text.to_owned()))
        }
        _ => {
            let excerpt = excerpt(text, 100);
            let message = format!(
                "`{}` is `{excerpt}`, but a reference has the form `Kind/name`.",
                field.path
            );
            let problem = field.diagnostic(Code::INVALID_REF, message);
            findings.add(problem.suggest(format!("write `{expected}/name`")));
            None
        }
    }
}

/// Reads a reference that is written as a map.
fn read_map(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<ReferenceParts> {
    let mut fields = field.fields(findings)?;
    let kind = fields
        .required("kind", findings)
        .and_then(|kind| kind.text(findings));
    let name = fields
        .required("name", findings)
        .and_then(|name| name.text(findings));
    let package = fields
        .optional("package")
        .and_then(|package| package.text(findings));
    if let Some(version) = fields.optional("apiVersion")
        && version.node.text() != Some(API_VERSION)
    {
        let message = format!("A reference can only be to `apiVersion: {API_VERSION}`.");
        findings.add(
            version
                .diagnostic(Code::UNSUPPORTED_API_VERSION, message)
                .suggest("leave it out"),
        );
    }
    fields.finish(findings);
    Some((
        package.map(str::to_owned),
        kind?.to_owned(),
        name?.to_owned(),
    ))
}

/// Reports a reference that does not resolve, with a suggestion.
fn report_unresolved(
    field: &FieldReader<'_>,
    reference: &ObjectRef,
    miss: &UnresolvedReference,
    index: &ResourceIndex,
    findings: &mut DiagnosticSink,
) {
    let shown_reference = format!("{}/{}", reference.kind, excerpt(&reference.name, 100));
    findings.add(match miss {
        UnresolvedReference::Absent => return,
        UnresolvedReference::NotFound if index.may_be_unread(reference) => return,
        UnresolvedReference::NotFound => {
            let package_suffix = reference
                .package
                .as_ref()
                .map(|package| format!(" in package `{package}`"))
                .unwrap_or_default();
            let problem = field.diagnostic(
                Code::REF_NOT_FOUND,
                format!(
                    "There is no `{shown_reference}`{package_suffix}.{}",
                    unread_files(reference, index)
                ),
            );
            match index.closest_name(reference) {
                Some(near) => suggest_reference(field, problem, reference.kind.as_str(), &near),
                None => problem.suggest(suggestion_for(reference, index)),
            }
        }
        UnresolvedReference::NoSuchPackage => {
            let package = excerpt(reference.package.as_deref().unwrap_or_default(), 100);
            field
                .diagnostic(
                    Code::REF_NOT_FOUND,
                    format!(
                        "`{shown_reference}` refers to the package `{package}`, which is not a dependency \
                        of this package."
                    ),
                )
                .suggest(format!(
                    "run `gdn package add {package}`, or use one of {}; leave `package` out to \
                    search all",
                    format_alternatives(&index.packages())
                ))
        }
        UnresolvedReference::Ambiguous(packages) => field
            .diagnostic(
                Code::REF_AMBIGUOUS,
                format!(
                    "`{shown_reference}` is ambiguous: it exists in {}.",
                    format_list(packages, 8)
                ),
            )
            .suggest("name the package: `{kind: …, name: …, package: …}`"),
    });
}

/// Maximum number of unread files in a message.
const MAX_LISTED_FILES: usize = 3;

/// Returns a sentence about files that seem to define the resource but are not read; empty if there
/// are none.
fn unread_files(reference: &ObjectRef, index: &ResourceIndex) -> String {
    let files = match reference.package {
        None => index.unread_files_for(reference),
        Some(_) => Vec::new(),
    };
    if files.is_empty() {
        return String::new();
    }
    let verb = if files.len() == 1 { "is" } else { "are" };
    format!(
        " {} {verb} not read: gdn reads resource files only directly in a directory such as `{}s`.",
        format_list(&files, MAX_LISTED_FILES),
        reference.kind.as_str().to_ascii_lowercase()
    )
}

/// Adds to `problem` the suggestion of another reference, with the fix that writes it.
fn suggest_reference(
    field: &FieldReader<'_>,
    problem: Diagnostic,
    kind: &str,
    name: &str,
) -> Diagnostic {
    let problem = problem.suggest(format!("did you mean `{kind}/{name}`?"));
    match (field.child("kind"), field.child("name")) {
        (Some(kind_field), Some(name_field)) => {
            if kind_field.node.text() == Some(kind) {
                name_field.with_replace_fix(problem, name)
            } else {
                kind_field.with_replace_fix(problem, kind)
            }
        }
        _ => field.with_replace_fix(problem, &format!("{kind}/{name}")),
    }
}

/// Suggests what to write in place of a reference that does not exist.
fn suggestion_for(reference: &ObjectRef, index: &ResourceIndex) -> String {
    let kind = reference.kind;
    if let Some(other) = index.other_kind(reference) {
        return format!(
            "there is `{other}/{}`, but a {kind} is needed here",
            reference.name
        );
    }
    let (names, count) = index.names(kind, reference.package.as_deref(), MAX_LISTED_NAMES);
    match count {
        0 => format!("define it; the project has no {kind} yet"),
        count if count > MAX_LISTED_NAMES => {
            format!("define it, or use one of the {count} that exist")
        }
        _ => {
            let candidates: Vec<String> = names
                .iter()
                .map(|name| format!("{kind}/{}", repaired_name(name, kind)))
                .collect();
            format!("define it, or use {}", format_alternatives(&candidates))
        }
    }
}

/// Returns the resource's name after its own error is fixed, so that the suggestion stays valid.
fn repaired_name(name: &str, kind: Kind) -> Cow<'_, str> {
    match check_name(name, kind) {
        Ok(()) => name.into(),
        Err(_) => Some(nearest_valid_name(name))
            .filter(|name| !name.is_empty())
            .map_or(name.into(), Cow::Owned),
    }
}

/// Reference to a resource.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ObjectRef")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum RefShape {
    /// Short form, `Kind/name` or `name`.
    Short(#[schemars(regex(pattern = "^([A-Z][A-Za-z]*/)?[^/]+$"))] String),
    /// Long form, which can name a package.
    Full(FullRefShape),
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "FullObjectRef")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct FullRefShape {
    /// Kind of the resource.
    kind: Kind,
    /// `metadata.name` of the resource.
    name: String,
    /// Package to search. Default: the project, then `@goondan/base`, then all other packages.
    package: Option<String>,
    /// `apiVersion` of the resource. Optional.
    api_version: Option<String>,
}

/// Item of a list of references.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ObjectRefItem")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum RefItemShape {
    /// Short form, `Kind/name` or `name`.
    Short(#[schemars(regex(pattern = "^([A-Z][A-Za-z]*/)?[^/]+$"))] String),
    /// Map with the reference.
    Item(RefFieldShape),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ObjectRefField")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct RefFieldShape {
    /// The resource.
    r#ref: RefShape,
}

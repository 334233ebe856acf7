//! Reading references and resolving them on the spot (rule L7).

use std::borrow::Cow;

use schemars::JsonSchema;

use crate::decode::{Field, Fields};
use crate::diagnostic::{Code, Diagnostic};
use crate::envelope::{check_name, repaired};
use crate::findings::Findings;
use crate::fix::Fix;
use crate::index::{Index, Miss};
use crate::meta::{API_VERSION, Kind, ObjectRef, ResourceId};
use crate::text::{alternatives, closest, excerpt, list};

/// How many names are listed where none is close.
const LISTED: usize = 24;

/// Reads a reference to a resource of kind `expected` and resolves it as seen from package `from`.
pub(crate) fn resolve(
    field: &Field<'_>,
    expected: Kind,
    index: &Index,
    from: Option<&str>,
    findings: &mut Findings,
) -> Option<ResourceId> {
    let reference = read(field, expected, findings)?;
    match index.resolve(&reference, from) {
        Ok(id) => {
            note(field, &reference, &id, findings);
            Some(id)
        }
        // Why the package is not there is told where it is asked for.
        Err(Miss::Absent) => None,
        Err(miss) => {
            report(field, &reference, &miss, index, findings);
            None
        }
    }
}

/// Notes which bytes name `id`.
fn note(field: &Field<'_>, reference: &ObjectRef, id: &ResourceId, findings: &mut Findings) {
    match field.child("name") {
        Some(name) => findings.note_link(&name, 0, id),
        None => findings.note_link(field, reference.kind.as_str().len() + 1, id),
    }
}

/// Reads an item of an array of references: `{ref: …}` with, where the caller asks for them, further fields.
pub(crate) fn item<'n>(
    field: &Field<'n>,
    findings: &mut Findings,
) -> Option<(Fields<'n>, Field<'n>)> {
    if let Some(text) = field.node.text() {
        let message = format!("`{}` must be a map with `ref`, but is text.", field.path);
        let suggestion = format!("write `- ref: {}`", excerpt(text, 100));
        findings.add(
            field
                .problem(Code::INVALID_REF, message)
                .suggest(suggestion)
                .fix(Fix::before(field.node.at, "ref: ")),
        );
        return None;
    }
    let mut fields = field.fields(findings)?;
    let reference = fields.optional("ref");
    if reference.is_none() {
        let missing = fields.missing("ref");
        findings.add(match (field.node.entry("kind"), field.node.entry("name")) {
            (Some(_), Some(_)) => {
                missing.suggest("put it under `ref`: `- ref: {kind: …, name: …}`")
            }
            _ => fields.to_be_added(missing.suggest("write `- ref: Kind/name`"), "ref", ""),
        });
    }
    Some((fields, reference?))
}

/// Reads `Kind/name` or `{kind, name, package?}`.
fn read(field: &Field<'_>, expected: Kind, findings: &mut Findings) -> Option<ObjectRef> {
    let (package, kind, name) = match field.node.text() {
        Some(text) => split(field, text, expected, findings)?,
        None if field.node.entries().is_some() => read_map(field, findings)?,
        None => {
            let message = format!(
                "`{}` must be a reference, but is {}.",
                field.path,
                field.node.what()
            );
            findings.add(
                field
                    .problem(Code::INVALID_REF, message)
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
        let known = Kind::ALL.map(Kind::as_str);
        let problem = field.problem(Code::INVALID_REF, message);
        findings.add(match closest(&kind, &known) {
            Some(near) => suggest(field, problem, near, &name),
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
        findings.add(
            field
                .problem(Code::INVALID_REF, message)
                .suggest(format!("write `{expected}/…`")),
        );
        return None;
    }
    Some(ObjectRef {
        package,
        kind: found,
        name,
    })
}

type Parts = (Option<String>, String, String);

fn split(field: &Field<'_>, text: &str, expected: Kind, findings: &mut Findings) -> Option<Parts> {
    match text.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
            Some((None, kind.to_owned(), name.to_owned()))
        }
        _ => {
            let shown = excerpt(text, 100);
            let message = format!(
                "`{}` is `{shown}`, but a reference has the form `Kind/name`.",
                field.path
            );
            let suggestion = match text.contains('/') || text.is_empty() {
                true => format!("write `{expected}/name`"),
                false => format!("write `{expected}/{shown}`"),
            };
            let problem = field
                .problem(Code::INVALID_REF, message)
                .suggest(suggestion);
            findings.add(match text.contains('/') || text.is_empty() {
                true => problem,
                false => field.instead(problem, &format!("{expected}/{text}")),
            });
            None
        }
    }
}

fn read_map(field: &Field<'_>, findings: &mut Findings) -> Option<Parts> {
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
                .problem(Code::UNSUPPORTED_API_VERSION, message)
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

fn report(
    field: &Field<'_>,
    reference: &ObjectRef,
    miss: &Miss,
    index: &Index,
    findings: &mut Findings,
) {
    let shown = format!("{}/{}", reference.kind, excerpt(&reference.name, 100));
    findings.add(match miss {
        Miss::Absent => return,
        Miss::NotFound if index.may_be_unread(reference) => return,
        Miss::NotFound => {
            let within =
                reference.package.as_ref().map(|package| format!(" in package `{package}`")).unwrap_or_default();
            let problem = field.problem(Code::REF_NOT_FOUND, format!("There is no `{shown}`{within}."));
            match index.closest(reference) {
                Some(near) => suggest(field, problem, reference.kind.as_str(), &near),
                None => problem.suggest(instead(reference, index)),
            }
        }
        Miss::NoSuchPackage => {
            let package = excerpt(reference.package.as_deref().unwrap_or_default(), 100);
            field
                .problem(
                    Code::REF_NOT_FOUND,
                    format!("`{shown}` is looked for in package `{package}`, which is no dependency of this one."),
                )
                .suggest(format!(
                    "run `gdn package add {package}`, or use one of {}; leave `package` out to search all",
                    alternatives(&index.packages())
                ))
        }
        Miss::Ambiguous(packages) => field
            .problem(Code::REF_AMBIGUOUS, format!("`{shown}` could be any of those in {}.", list(packages, 8)))
            .suggest("say which: `{kind: …, name: …, package: …}`"),
    });
}

/// `problem` with the suggestion of another reference, and the fix that writes it.
fn suggest(field: &Field<'_>, problem: Diagnostic, kind: &str, name: &str) -> Diagnostic {
    let problem = problem.suggest(format!("did you mean `{kind}/{name}`?"));
    match (field.child("kind"), field.child("name")) {
        (Some(kind_field), Some(name_field)) => match kind_field.node.text() == Some(kind) {
            true => name_field.instead(problem, name),
            false => kind_field.instead(problem, kind),
        },
        _ => field.instead(problem, &format!("{kind}/{name}")),
    }
}

fn instead(reference: &ObjectRef, index: &Index) -> String {
    let kind = reference.kind;
    if let Some(other) = index.other_kind(reference) {
        return format!(
            "there is `{other}/{}`, but a {kind} is needed here",
            reference.name
        );
    }
    let (names, count) = index.names(kind, reference.package.as_deref(), LISTED);
    match count {
        0 => format!("define it; there is no {kind} yet"),
        count if count > LISTED => format!("define it, or use one of the {count} that there are"),
        _ => {
            let known: Vec<String> = names
                .iter()
                .map(|name| format!("{kind}/{}", valid(name, kind)))
                .collect();
            format!("define it, or use {}", alternatives(&known))
        }
    }
}

/// The name that a resource will have once its own mistake is mended.
fn valid(name: &str, kind: Kind) -> Cow<'_, str> {
    match check_name(name, kind) {
        Ok(()) => name.into(),
        Err(_) => Some(repaired(name))
            .filter(|name| !name.is_empty())
            .map_or(name.into(), Cow::Owned),
    }
}

/// A reference to a resource.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ObjectRef")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) enum RefShape {
    /// The short form, `Kind/name`.
    Short(#[schemars(regex(pattern = "^[A-Z][A-Za-z]*/[^/]+$"))] String),
    /// The long form, for when a package has to be named.
    Full(FullRefShape),
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "FullObjectRef")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct FullRefShape {
    /// The kind of the resource.
    kind: Kind,
    /// The `metadata.name` of the resource.
    name: String,
    /// The package to search. Without it, the project, then `@goondan/base`, then all other packages are searched.
    package: Option<String>,
    /// The `apiVersion` of the resource. It may be left out.
    api_version: Option<String>,
}

/// A reference as an item of an array.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ObjectRefItem")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ItemShape {
    /// The resource.
    r#ref: RefShape,
}

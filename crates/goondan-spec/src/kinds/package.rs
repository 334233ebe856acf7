//! `kind: Package`: reads and checks the spec of a package.

use schemars::JsonSchema;

use crate::decode::FieldReader;
use crate::diagnostic::Code;
use crate::diagnostic_sink::DiagnosticSink;
use crate::envelope::check_name;
use crate::meta::Kind;
use crate::text::excerpt;

const PUBLIC_ACCESS: &str = "public";

const SOURCE_PREFIXES: [&str; 6] = [
    "oci://",
    "file:",
    "git+https://",
    "git+ssh://",
    "git+file://",
    "registry+",
];

/// Version and dependencies of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Semantic version, required for publishing.
    pub version: Option<String>,
    /// Description for people.
    pub description: Option<String>,
    /// `false` for access `public` (default), `true` for `restricted`.
    pub restricted: bool,
    /// Packages that this one depends on.
    pub dependencies: Vec<PackageDependency>,
    /// Registry URL. `None` for the default registry.
    pub registry: Option<String>,
}

/// Package that this one depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageDependency {
    /// Name, `@scope/name` or `name`.
    pub name: String,
    /// Version range.
    pub version: String,
    /// Source URL. `None` for the registry of the project.
    pub source: Option<String>,
}

/// Decodes the Package named `own`. `spec` may be absent.
pub(crate) fn decode(
    spec: Option<&FieldReader<'_>>,
    own: &str,
    findings: &mut DiagnosticSink,
) -> Option<Package> {
    let Some(spec) = spec else {
        return Some(Package {
            version: None,
            description: None,
            restricted: false,
            dependencies: Vec::new(),
            registry: None,
        });
    };
    let mut fields = spec.fields(findings)?;
    let version = fields
        .optional("version")
        .and_then(|field| read_version(&field, findings));
    let description = fields
        .optional("description")
        .and_then(|field| field.text(findings));
    let access = fields
        .optional("access")
        .and_then(|field| field.one_of(&[(PUBLIC_ACCESS, false), ("restricted", true)], findings));
    let dependencies = fields
        .optional("dependencies")
        .and_then(|field| read_dependencies(&field, own, findings));
    let registry = fields
        .optional("registry")
        .and_then(|field| read_registry(&field, findings));
    fields.finish(findings);
    Some(Package {
        version,
        description: description.map(str::to_owned),
        restricted: access.unwrap_or(false),
        dependencies: dependencies.unwrap_or_default(),
        registry,
    })
}

/// Reads the version; `None`, with an error, if it is not a semantic version.
fn read_version(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let text = field.text(findings)?;
    if semver::Version::parse(text).is_err() {
        let message = format!(
            "`{}` must be a semantic version, but is `{}`.",
            field.path,
            excerpt(text, 60)
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest("write three numbers, such as `1.0.0`"),
        );
        return None;
    }
    Some(text.to_owned())
}

/// Reads the URL of the registry.
fn read_registry(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let mut fields = field.fields(findings)?;
    let url = fields
        .required("url", findings)
        .and_then(|field| field.text(findings));
    fields.finish(findings);
    url.map(str::to_owned)
}

/// Reads the dependencies. `own` is the name of this package, which cannot depend on itself.
fn read_dependencies(
    field: &FieldReader<'_>,
    own: &str,
    findings: &mut DiagnosticSink,
) -> Option<Vec<PackageDependency>> {
    let mut dependencies: Vec<PackageDependency> = Vec::new();
    for item in field.list(findings)? {
        let Some(mut fields) = item.fields(findings) else {
            continue;
        };
        let name_field = fields.required("name", findings);
        let version = fields
            .required("version", findings)
            .and_then(|field| read_range(&field, findings));
        let source = fields
            .optional("source")
            .map(|field| read_source(&field, findings));
        fields.finish(findings);
        let Some(name) = name_field
            .as_ref()
            .and_then(|name| read_dependency_name(name, own, findings))
        else {
            continue;
        };
        if dependencies.iter().any(|other| other.name == name) {
            findings.add(item.invalid_value(format!("The dependency `{name}` is declared twice.")));
        } else if let (Some(version), Some(source)) =
            (version, source.map_or(Some(None), |read| read.map(Some)))
        {
            dependencies.push(PackageDependency {
                name,
                version,
                source,
            });
        }
    }
    Some(dependencies)
}

/// Reads a version range.
fn read_range(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let text = field.text(findings)?;
    if semver::VersionReq::parse(text).is_err() {
        let message = format!(
            "`{}` must be a version range, but is `{}`.",
            field.path,
            excerpt(text, 60)
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest("write a range such as `^1.0.0`"),
        );
        return None;
    }
    Some(text.to_owned())
}

/// Reads the source of a dependency.
fn read_source(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let text = field.text(findings)?;
    if !SOURCE_PREFIXES.iter().any(|scheme| {
        text.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty())
    }) {
        let message = format!(
            "`{}` must be the source of a package, but is `{}`.",
            field.path,
            excerpt(text, 100)
        );
        let instead =
            "write `oci://host/name`, `file:../folder` or `git+https://host/repository#tag`";
        findings.add(field.invalid_value(message).suggest(instead));
        return None;
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        findings.add(field.invalid_value(format!("`{}` must not contain spaces.", field.path)));
        return None;
    }
    Some(text.to_owned())
}

/// Reads the name of a dependency; reports the name of this package.
fn read_dependency_name(
    field: &FieldReader<'_>,
    own: &str,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let name = field.text(findings)?;
    if let Err(why) = check_name(name, Kind::Package) {
        findings.add(field.diagnostic(
            Code::INVALID_NAME,
            format!(
                "`{}` is not a valid package name: {why}.",
                excerpt(name, 80)
            ),
        ));
        return None;
    }
    if name == own {
        let message = format!("The package `{own}` depends on itself.");
        findings.add(
            field
                .diagnostic(Code::CYCLE, message)
                .suggest("remove the dependency"),
        );
        return None;
    }
    Some(name.to_owned())
}

/// The name, version and dependencies of a project.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Package")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct PackageSpec {
    /// The semantic version of the package. Publishing requires it.
    version: Option<String>,
    /// A description for people.
    description: Option<String>,
    /// The users who may install the package.
    #[schemars(extend("default" = PUBLIC_ACCESS))]
    access: Option<AccessShape>,
    /// The packages that this one depends on. `gdn package install` installs them. `@goondan/base`
    /// is always available and need not be listed.
    dependencies: Option<Vec<DependencyShape>>,
    /// The registry of the package. Without it, the default registry.
    registry: Option<RegistryShape>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Access")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) enum AccessShape {
    /// All users.
    Public,
    /// Only users that the registry authorizes.
    Restricted,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Dependency")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct DependencyShape {
    /// The name of the package, `name` or `@scope/name`.
    name: String,
    /// The range of accepted versions, such as `^1.0.0`.
    version: String,
    /// The source of the package: `oci://host/name`, `file:../folder`, or
    /// `git+https://host/repository#tag`. Without it, the registry.
    source: Option<String>,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Registry")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct RegistryShape {
    /// The URL of the registry.
    url: String,
}

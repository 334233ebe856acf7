//! The original Goondan registry: package metadata as JSON, and archives.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_spec::Code;
use reqwest::{RequestBuilder, StatusCode};
use semver::Version;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{CandidateVersion, ExactLocation, FetchSettings, FetchedArchive};
use crate::archive::MAX_ARCHIVE_BYTES;
use crate::credentials::RegistryCredentials;
use crate::error::{PackageError, Result};
use crate::{http, integrity};

#[derive(Deserialize)]
struct RegistryMetadata {
    #[serde(default)]
    versions: BTreeMap<String, VersionMetadata>,
}

#[derive(Deserialize)]
struct VersionMetadata {
    dist: VersionArchive,
}

#[derive(Deserialize)]
struct VersionArchive {
    tarball: String,
    integrity: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishRequest<'p> {
    name: &'p str,
    version: String,
    description: &'p str,
    access: &'p str,
    dependencies: BTreeMap<&'p str, &'p str>,
    #[serde(rename = "dist-tags")]
    dist_tags: BTreeMap<&'p str, String>,
    #[serde(rename = "_attachments")]
    attachments: BTreeMap<String, PublishedArchive>,
}

#[derive(Serialize)]
struct PublishedArchive {
    data: String,
    #[serde(rename = "contentType")]
    content_type: &'static str,
    length: usize,
}

/// The description of a published package.
#[derive(Debug, Clone, Copy)]
pub struct PackageDescription<'a> {
    pub name: &'a str,
    pub version: &'a Version,
    pub description: &'a str,
    /// True if only users permitted by the registry may install the package.
    pub restricted: bool,
    /// The tag that will refer to this version.
    pub tag: &'a str,
}

/// Returns the versions of a package in a registry. Ignores versions with an invalid number or URL.
pub(super) async fn candidates(
    registry: &Url,
    name: &str,
    credentials: &RegistryCredentials,
) -> Result<Vec<CandidateVersion>> {
    let address = address_of(registry, name)?;
    let client = http::client().await?;
    let request = with_token(client.get(address.clone()), registry, credentials);
    let answer = http::send(request, registry.as_str()).await?;
    let body = successful_body(answer, name, registry).await?;
    let metadata: RegistryMetadata = serde_json::from_slice(&body).map_err(|error| {
        PackageError::source(format!(
            "{registry} does not answer like a Goondan registry: {error}."
        ))
    })?;
    let mut candidates = Vec::new();
    for (version, metadata) in metadata.versions {
        let tarball = address
            .join(&metadata.dist.tarball)
            .ok()
            .filter(http::is_allowed);
        if let (Ok(version), Some(tarball)) = (Version::parse(&version), tarball) {
            let pin = ExactLocation::Archive(tarball, Some(metadata.dist.integrity));
            candidates.push(CandidateVersion {
                version: Some(version),
                pin,
            });
        }
    }
    Ok(candidates)
}

/// Downloads an archive, and checks it against the `stated` integrity hash if there is one. Only
/// the configured registry gets its token.
pub(super) async fn fetch(
    url: &Url,
    stated: Option<&str>,
    settings: &FetchSettings,
) -> Result<FetchedArchive> {
    let client = http::client().await?;
    let own_registry = Url::parse(&settings.registry)
        .ok()
        .filter(|registry| registry.origin() == url.origin());
    let request = match &own_registry {
        Some(registry) => with_token(client.get(url.clone()), registry, &settings.credentials),
        None => client.get(url.clone()),
    };
    let answer = http::send(request, url.as_str()).await?;
    if !answer.status().is_success() {
        return Err(status_error(answer.status(), url.as_str(), url));
    }
    let archive = http::body(answer, MAX_ARCHIVE_BYTES, url.as_str()).await?;
    if let Some(stated) = stated {
        integrity::check_archive(&archive, stated, url.as_str())?;
    }
    Ok(FetchedArchive {
        archive,
        resolved: url.to_string(),
        is_archive: true,
    })
}

/// Publishes a package.
///
/// # Errors
///
/// Fails if the registry refuses it.
pub async fn publish(
    registry: &str,
    about: PackageDescription<'_>,
    dependencies: &[crate::manifest::ManifestDependency],
    archive: &[u8],
    credentials: &RegistryCredentials,
) -> Result<()> {
    let registry = http::parse(registry)?;
    let file = format!(
        "{}-{}.tgz",
        about.name.rsplit('/').next().unwrap_or(about.name),
        about.version
    );
    let attachment = PublishedArchive {
        data: STANDARD.encode(archive),
        content_type: "application/gzip",
        length: archive.len(),
    };
    let publication = PublishRequest {
        name: about.name,
        version: about.version.to_string(),
        description: about.description,
        access: if about.restricted {
            "restricted"
        } else {
            "public"
        },
        dependencies: dependencies
            .iter()
            .map(|dependency| (dependency.name.as_str(), dependency.range.as_str()))
            .collect(),
        dist_tags: BTreeMap::from([(about.tag, about.version.to_string())]),
        attachments: BTreeMap::from([(file, attachment)]),
    };
    let client = http::client().await?;
    let request = client
        .put(address_of(&registry, about.name)?)
        .json(&publication);
    let answer = http::send(
        with_token(request, &registry, credentials),
        registry.as_str(),
    )
    .await?;
    if answer.status() == StatusCode::CONFLICT {
        let message = format!(
            "{registry} already has version {} of `{}`.",
            about.version, about.name
        );
        return Err(PackageError::source(message)
            .suggest("increase `spec.version`; published versions cannot be changed"));
    }
    successful_body(answer, about.name, &registry)
        .await
        .map(drop)
}

/// Returns the metadata URL of a package.
fn address_of(registry: &Url, name: &str) -> Result<Url> {
    let base = registry.as_str().trim_end_matches('/');
    let name: Vec<String> = name.split('/').map(escape).collect();
    http::parse(&format!("{base}/{}", name.join("/")))
}

/// Percent-encodes a part of a package name.
fn escape(part: &str) -> String {
    url::form_urlencoded::byte_serialize(part.as_bytes()).collect()
}

/// Adds the token of the registry, if any.
fn with_token(
    request: RequestBuilder,
    registry: &Url,
    credentials: &RegistryCredentials,
) -> RequestBuilder {
    match credentials.token_of(registry.as_str()) {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// Returns the response body. Fails if the status is not a success.
async fn successful_body(answer: reqwest::Response, name: &str, registry: &Url) -> Result<Vec<u8>> {
    match answer.status() {
        status if status.is_success() => {
            http::body(answer, http::MAX_TEXT_RESPONSE_BYTES, registry.as_str()).await
        }
        status => Err(status_error(status, name, registry)),
    }
}

/// Creates the error for a response with an error status.
fn status_error(status: StatusCode, what: &str, registry: &Url) -> PackageError {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => PackageError::new(
            Code::PACKAGE_AUTH,
            format!("{registry} requires a login for `{what}`."),
        )
        .suggest(
            "set GOONDAN_REGISTRY to the URL of the registry, and GOONDAN_REGISTRY_TOKEN to its \
            token",
        ),
        StatusCode::NOT_FOUND => {
            PackageError::source(format!("{registry} does not have `{what}`."))
                .suggest("check the name, or set another `source`")
        }
        status => PackageError::source(format!(
            "{registry} answered {status} to the request for `{what}`."
        )),
    }
}

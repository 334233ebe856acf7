//! Packages in OCI registries, stored like images: a manifest with a specific type and one layer,
//! the archive.

mod client;
mod reference;

use std::collections::BTreeMap;

use goondan_spec::Code;
use goondan_spec::content_hash::hex;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LINK, LOCATION};
use reqwest::{Method, StatusCode};
use semver::Version;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::registry::PackageDescription;
use super::{CandidateVersion, ExactLocation, FetchedArchive};
use crate::archive::MAX_ARCHIVE_BYTES;
use crate::credentials::RegistryCredentials;
use crate::error::{PackageError, Result};
use crate::http::{self, MAX_TEXT_RESPONSE_BYTES};

use self::client::{OciClient, Pull, Push};
pub use self::reference::OciReference;

/// Artifact type of package manifests.
pub const ARTIFACT_TYPE: &str = "application/vnd.goondan.package.v1";
/// Media type of archives.
const LAYER_MEDIA_TYPE: &str = "application/vnd.goondan.package.v1.tar+gzip";
const MANIFEST_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const EMPTY_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";
/// The config of an artifact without one.
const EMPTY_CONFIG: &[u8] = b"{}";
/// Maximum number of pages of tags.
const MAX_TAG_PAGES: usize = 100;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciManifest {
    schema_version: u32,
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: OciDescriptor,
    #[serde(default)]
    layers: Vec<OciDescriptor>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciDescriptor {
    media_type: String,
    digest: String,
    size: u64,
}

#[derive(Deserialize)]
struct OciTagList {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

impl OciDescriptor {
    /// Describes content by its media type, digest and size.
    fn for_content(media_type: &str, content: &[u8]) -> Self {
        OciDescriptor {
            media_type: media_type.to_owned(),
            digest: digest(content),
            size: content.len() as u64,
        }
    }
}

/// Returns a digest in the form `sha256:…`.
fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(content)))
}

/// Returns the tag of a version. Tags must not contain `+`.
fn tag_of(version: &Version) -> String {
    version.to_string().replace('+', "_")
}

/// Parses the version in a tag; `None` for other tags, such as `latest`.
fn version_of(tag: &str) -> Option<Version> {
    let text = tag.replacen('_', "+", 1);
    Version::parse(text.strip_prefix('v').unwrap_or(&text)).ok()
}

/// Returns the versions in the tags, or only the stated tag or digest.
pub(super) async fn candidates(
    reference: &OciReference,
    credentials: &RegistryCredentials,
) -> Result<Vec<CandidateVersion>> {
    if reference.is_exact() {
        return Ok(vec![CandidateVersion {
            version: None,
            pin: ExactLocation::Oci(reference.clone()),
        }]);
    }
    let client = OciClient::new(reference, credentials, Pull).await?;
    let mut next = Some(client.address("tags/list?n=1000")?);
    let mut candidates = Vec::new();
    let mut pages = 0;
    while let Some(address) = next.filter(|_| pages < MAX_TAG_PAGES) {
        pages += 1;
        let answer = client
            .send_checked(Method::GET, address.clone(), |request| request)
            .await?;
        let link = answer
            .headers()
            .get(LINK)
            .and_then(|link| link.to_str().ok())
            .and_then(next_page);
        // Follow only pages of the same registry.
        next = link
            .and_then(|link| address.join(&link).ok())
            .filter(|url| url.origin() == address.origin());
        let body = http::body(answer, MAX_TEXT_RESPONSE_BYTES, client.host()).await?;
        let tags: OciTagList = serde_json::from_slice(&body)
            .map_err(|error| client.protocol_error(&error.to_string()))?;
        for tag in tags.tags.unwrap_or_default() {
            if let Some(version) = version_of(&tag) {
                candidates.push(CandidateVersion {
                    version: Some(version),
                    pin: ExactLocation::Oci(reference.with_tag(&tag)?),
                });
            }
        }
    }
    Ok(candidates)
}

/// Returns the URL in `<…>; rel="next"`.
fn next_page(link: &str) -> Option<String> {
    let (address, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then(|| address.to_owned())
}

/// Downloads the package layer of an artifact. Fails if a digest does not match, or if it is
/// another kind of artifact.
pub(super) async fn fetch(
    reference: &OciReference,
    credentials: &RegistryCredentials,
) -> Result<FetchedArchive> {
    let client = OciClient::new(reference, credentials, Pull).await?;
    let address = client.address(&format!("manifests/{}", reference.tag_or_digest()))?;
    let answer = client
        .send_checked(Method::GET, address, |request| {
            request.header(ACCEPT, MANIFEST_MEDIA_TYPE)
        })
        .await?;
    let body = http::body(answer, MAX_TEXT_RESPONSE_BYTES, client.host()).await?;
    let actual_digest = digest(&body);
    if let Some(pinned_digest) = reference
        .digest()
        .filter(|pinned_digest| **pinned_digest != actual_digest)
    {
        return Err(digest_mismatch(reference, pinned_digest, &actual_digest));
    }
    let manifest: OciManifest =
        serde_json::from_slice(&body).map_err(|error| client.protocol_error(&error.to_string()))?;
    let layer = manifest
        .layers
        .iter()
        .find(|layer| layer.media_type == LAYER_MEDIA_TYPE);
    let ours = manifest
        .artifact_type
        .as_deref()
        .is_none_or(|kind| kind == ARTIFACT_TYPE);
    let Some(layer) = layer.filter(|_| ours) else {
        let kind = manifest.artifact_type.as_deref().unwrap_or("an image");
        return Err(PackageError::source(format!(
            "`oci://{reference}` is not a package, but {kind}."
        ))
        .suggest("publish a package with `gdn package publish oci://host/name`"));
    };
    if layer.size > MAX_ARCHIVE_BYTES as u64 {
        let message = format!(
            "The archive of `oci://{reference}` is larger than {} MiB.",
            MAX_ARCHIVE_BYTES / 1024 / 1024
        );
        return Err(PackageError::archive(message));
    }
    let blob = client.address(&format!(
        "blobs/{}",
        reference::checked_digest(&layer.digest)?
    ))?;
    let answer = client
        .send_checked(Method::GET, blob, |request| request)
        .await?;
    let archive = http::body(
        answer,
        usize::try_from(layer.size).unwrap_or(MAX_ARCHIVE_BYTES),
        client.host(),
    )
    .await?;
    if digest(&archive) != layer.digest {
        return Err(digest_mismatch(reference, &layer.digest, &digest(&archive)));
    }
    Ok(FetchedArchive {
        archive,
        resolved: format!("oci://{}", reference.with_digest(&actual_digest)),
        is_archive: true,
    })
}

/// Publishes an archive under its version and further tags. Returns the URL with the digest.
///
/// # Errors
///
/// Fails if the registry refuses it, or already has other contents for the version.
pub async fn publish(
    reference: &OciReference,
    about: PackageDescription<'_>,
    archive: &[u8],
    credentials: &RegistryCredentials,
) -> Result<String> {
    let client = OciClient::new(reference, credentials, Push).await?;
    let annotations = [
        ("org.opencontainers.image.title", about.name.to_owned()),
        (
            "org.opencontainers.image.version",
            about.version.to_string(),
        ),
        (
            "org.opencontainers.image.description",
            about.description.to_owned(),
        ),
    ];
    let manifest = OciManifest {
        schema_version: 2,
        media_type: Some(MANIFEST_MEDIA_TYPE.to_owned()),
        artifact_type: Some(ARTIFACT_TYPE.to_owned()),
        config: OciDescriptor::for_content(EMPTY_MEDIA_TYPE, EMPTY_CONFIG),
        layers: vec![OciDescriptor::for_content(LAYER_MEDIA_TYPE, archive)],
        annotations: annotations
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    };
    let bytes =
        serde_json::to_vec(&manifest).map_err(|error| client.protocol_error(&error.to_string()))?;
    let version_tag = tag_of(about.version);
    let mut tags = vec![version_tag.as_str()];
    for tag in [Some(about.tag), reference.tag()].into_iter().flatten() {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    for tag in tags.iter().filter(|tag| version_of(tag).is_some()) {
        refuse_other(&client, reference, tag, &digest(&bytes)).await?;
    }
    for blob in [EMPTY_CONFIG, archive] {
        upload(&client, blob).await?;
    }
    for tag in tags {
        let address = client.address(&format!(
            "manifests/{}",
            reference.with_tag(tag)?.tag_or_digest()
        ))?;
        let put = |request: reqwest::RequestBuilder| {
            request
                .header(CONTENT_TYPE, MANIFEST_MEDIA_TYPE)
                .body(bytes.clone())
        };
        client.send_checked(Method::PUT, address, put).await?;
    }
    Ok(format!("oci://{}", reference.with_digest(&digest(&bytes))))
}

/// Fails if the version was already published with other contents. Only 404 means that the registry
/// does not have it; any other refusal leaves that open.
async fn refuse_other(
    client: &OciClient,
    reference: &OciReference,
    tag: &str,
    mine: &str,
) -> Result<()> {
    let address = client.address(&format!(
        "manifests/{}",
        reference.with_tag(tag)?.tag_or_digest()
    ))?;
    let answer = client
        .send(Method::GET, address, |request| {
            request.header(ACCEPT, MANIFEST_MEDIA_TYPE)
        })
        .await?;
    if answer.status() == StatusCode::NOT_FOUND {
        return Ok(());
    }
    let answer = client.check_status(answer).await?;
    let digest_in_registry =
        digest(&http::body(answer, MAX_TEXT_RESPONSE_BYTES, client.host()).await?);
    if digest_in_registry == mine {
        Ok(())
    } else {
        Err(PackageError::source(format!(
            "`oci://{}` already exists with different content.",
            reference.with_tag(tag)?
        ))
        .suggest("increase `spec.version`; published versions cannot be changed"))
    }
}

/// Uploads a blob unless it exists.
async fn upload(client: &OciClient, blob: &[u8]) -> Result<()> {
    let digest = digest(blob);
    let existing = client
        .send(
            Method::HEAD,
            client.address(&format!("blobs/{digest}"))?,
            |request| request,
        )
        .await?;
    if existing.status().is_success() {
        return Ok(());
    }
    let begin = client.address("blobs/uploads/")?;
    let session = client
        .send_checked(Method::POST, begin.clone(), |request| {
            request.header("Content-Length", "0")
        })
        .await?;
    let location = session
        .headers()
        .get(LOCATION)
        .and_then(|location| location.to_str().ok());
    let mut location = location
        .and_then(|location| begin.join(location).ok())
        // Credentials are sent only to the registry.
        .filter(|location| location.origin() == begin.origin())
        .ok_or_else(|| client.protocol_error("its answer has no upload URL"))?;
    location.query_pairs_mut().append_pair("digest", &digest);
    let body = blob.to_vec();
    let put = |request: reqwest::RequestBuilder| {
        request
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(body.clone())
    };
    client
        .send_checked(Method::PUT, location, put)
        .await
        .map(drop)
}

/// Creates the error for content whose digest differs from the pinned digest.
fn digest_mismatch(reference: &OciReference, expected: &str, actual: &str) -> PackageError {
    let message = format!("`oci://{reference}` delivered {actual} instead of {expected}.");
    PackageError::new(Code::PACKAGE_INTEGRITY, message)
        .suggest("ask the operator of the registry; nothing was installed")
}

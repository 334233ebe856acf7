//! References to packages in OCI registries.

use std::fmt;

use url::Url;

use crate::error::{PackageError, Result};
use crate::http;

/// A reference `host/name` with an optional tag or digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciReference {
    host: String,
    name: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl OciReference {
    /// Parses `host/name`, `host/name:tag` or `host/name@sha256:…`.
    pub(crate) fn parse(text: &str) -> Result<OciReference> {
        let invalid_reference_error = || {
            PackageError::source(format!("`oci://{text}` is not the URL of a package."))
                .suggest("write `oci://host/name:tag`, such as `oci://ghcr.io/acme/tools:1.0.0`")
        };
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(checked_digest(digest)?.to_owned())),
            None => (text, None),
        };
        let (host, path) = rest.split_once('/').ok_or_else(invalid_reference_error)?;
        let (name, tag) = path
            .rsplit_once(':')
            .map_or((path, None), |(name, tag)| (name, Some(tag)));
        let is_host = !host.is_empty()
            && host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".-:[]".contains(c));
        let is_part = |part: &str| {
            let is_inner_char =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
            part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(is_inner_char)
        };
        if !is_host || name.len() > 255 || !name.split('/').all(is_part) || !tag.is_none_or(is_tag)
        {
            return Err(invalid_reference_error());
        }
        let reference = OciReference {
            host: host.to_lowercase(),
            name: name.into(),
            tag: tag.map(str::to_owned),
            digest,
        };
        reference
            .base_url()
            .map_err(|_| invalid_reference_error())?;
        Ok(reference)
    }

    /// Returns the registry host with its port, if any.
    pub(crate) fn host(&self) -> &str {
        match self.host.as_str() {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            host => host,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns `https://host/v2/name/`; local registries may use HTTP.
    pub(super) fn base_url(&self) -> Result<Url> {
        let plain = Url::parse(&format!("http://{}/v2/{}/", self.host(), self.name))
            .map_err(|error| PackageError::source(error.to_string()))?;
        if http::is_local(&plain) {
            Ok(plain)
        } else {
            http::parse(&format!("https://{}/v2/{}/", self.host(), self.name))
        }
    }

    /// Returns true if the registry is on this machine or in a private network.
    pub(crate) fn is_internal(&self) -> bool {
        self.base_url().is_ok_and(|url| http::is_internal(&url))
    }

    /// Returns true if the reference selects one package and not all versions.
    pub(super) fn is_exact(&self) -> bool {
        self.tag.is_some() || self.digest.is_some()
    }

    pub(super) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub(super) fn digest(&self) -> Option<&String> {
        self.digest.as_ref()
    }

    /// Returns the digest, else the tag, else `latest`: the URL segment after `manifests/`.
    pub(super) fn tag_or_digest(&self) -> &str {
        self.digest
            .as_deref()
            .or(self.tag.as_deref())
            .unwrap_or("latest")
    }

    /// Returns the reference with another tag and no digest. Fails if the tag is not valid.
    pub(super) fn with_tag(&self, tag: &str) -> Result<OciReference> {
        if is_tag(tag) {
            Ok(OciReference {
                tag: Some(tag.to_owned()),
                digest: None,
                ..self.clone()
            })
        } else {
            Err(PackageError::source(format!("`{tag}` is not a tag."))
                .suggest("a tag has at most 128 letters, digits, dots, dashes and underscores"))
        }
    }

    /// Returns the reference with a digest and no tag.
    pub(super) fn with_digest(&self, digest: &str) -> OciReference {
        OciReference {
            tag: None,
            digest: Some(digest.to_owned()),
            ..self.clone()
        }
    }

    /// Returns the reference to all versions of the package.
    #[must_use]
    pub fn without_tag(&self) -> OciReference {
        OciReference {
            tag: None,
            digest: None,
            ..self.clone()
        }
    }
}

/// Returns true if the text is a valid OCI tag.
fn is_tag(tag: &str) -> bool {
    let is_inner_char = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=128).contains(&tag.len()) && !tag.starts_with(['.', '-']) && tag.chars().all(is_inner_char)
}

/// Checks a digest: `sha256:` with 64 hexadecimal digits. Required because it becomes a part of a
/// URL.
pub(super) fn checked_digest(digest: &str) -> Result<&str> {
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let is_sha256 = digest
        .strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.chars().all(is_hex));
    if is_sha256 {
        Ok(digest)
    } else {
        Err(PackageError::source(format!(
            "`{digest}` is not a SHA-256 digest."
        )))
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.name)?;
        self.tag.iter().try_for_each(|tag| write!(f, ":{tag}"))?;
        self.digest
            .iter()
            .try_for_each(|digest| write!(f, "@{digest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oci_references_are_parsed_and_printed_unchanged() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let exact = format!("h/n@{digest}");
        for good in [
            "ghcr.io/acme/tools",
            "localhost:5000/a/b/c:1.0.0",
            "[::1]:5000/a:x",
            "docker.io/a/b",
            &exact,
        ] {
            assert_eq!(OciReference::parse(good).unwrap().to_string(), good);
        }
        let secure = |text: &str| {
            OciReference::parse(text)
                .unwrap()
                .base_url()
                .unwrap()
                .to_string()
        };
        assert_eq!(
            secure("docker.io/a/b"),
            "https://registry-1.docker.io/v2/a/b/"
        );
        assert_eq!(secure("127.0.0.1:5000/a"), "http://127.0.0.1:5000/v2/a/");
        assert_eq!(
            secure("localhost.evil.example/a"),
            "https://localhost.evil.example/v2/a/"
        );
    }

    #[test]
    fn ambiguous_oci_references_are_rejected() {
        for bad in [
            "host",
            "/a",
            "host/",
            "host/A",
            "host/a/../b",
            "host/a//b",
            "host/a:",
            "host/a:-x",
            "host/a?x=1",
            "host/a#b",
            "user@host/a",
            "host/a@sha256:zz",
            "host/a@md5:00",
            "host\\evil/a",
            "ho st/a",
            "host/a%2f",
            "host/.a",
            "[/a",
        ] {
            assert!(OciReference::parse(bad).is_err(), "{bad}");
        }
    }
}

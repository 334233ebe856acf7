//! TLS settings for all connections: rustls with ring's cryptography and the system's certificates.
//!
//! The crate is independent of the protocol above TLS, such as HTTP or a database protocol.

use std::sync::{Arc, Once};

use rustls::crypto::ring;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Returns settings that trust the system's certificates. Blocks, because reading the certificates
/// is slow.
///
/// On a system without certificates, every TLS connection fails. Connections without TLS still
/// work.
pub fn with_system_certificates() -> ClientConfig {
    match builder().with_platform_verifier() {
        Ok(builder) => builder.with_no_client_auth(),
        Err(_) => without_certificates(),
    }
}

/// Returns settings without trusted certificates, for unencrypted connections.
pub fn without_certificates() -> ClientConfig {
    builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

/// Adds HTTP/2, which is used if the server supports it.
#[must_use]
pub fn with_http2(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// Makes ring the default cryptography of libraries that take no settings.
pub fn be_default() {
    static ONCE: Once = Once::new();
    // A program that embeds this crate may have chosen a default already.
    ONCE.call_once(|| drop(ring::default_provider().install_default()));
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
}

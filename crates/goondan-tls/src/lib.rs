//! How this program encrypts its connections, and whom it trusts: rustls with the cryptography of ring, and the certificates of the
//! system.
//!
//! It deliberately does not know what is said over a connection: HTTP, a database, or anything else.

use std::sync::{Arc, Once};

use rustls::crypto::ring;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Settings that trust the certificates of the system. Reading them takes a while: this blocks.
///
/// On a system without any, they trust nobody; such a system can still speak without TLS.
pub fn with_system_certificates() -> ClientConfig {
    match builder().with_platform_verifier() {
        Ok(builder) => builder.with_no_client_auth(),
        Err(_) => without_certificates(),
    }
}

/// Settings that trust nobody, for connections that are not encrypted.
pub fn without_certificates() -> ClientConfig {
    builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

/// The same settings, and HTTP/2 where the server speaks it.
#[must_use]
pub fn with_http2(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// Makes ring the cryptography of libraries that ask for no settings.
pub fn be_default() {
    static ONCE: Once = Once::new();
    // Somebody who embeds us may have chosen already.
    ONCE.call_once(|| drop(ring::default_provider().install_default()));
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
}

//! Checks of the settings and secrets of connectors.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// Rejects a blank value.
pub(super) fn not_empty(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        Err("must not be empty".to_owned())
    } else {
        Ok(())
    }
}

/// Rejects short keys, because they can be guessed.
pub(super) fn signing_key(text: &str) -> Result<(), String> {
    if text.len() < 16 {
        Err("must have at least 16 characters: try `openssl rand -hex 32`".to_owned())
    } else {
        Ok(())
    }
}

/// Accepts what the decoders of most senders accept: missing padding, and unused bits at the end.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Prefix of a base64-encoded webhook key.
const WEBHOOK_KEY_PREFIX: &str = "whsec_";

/// Returns the key in the signing secret of a webhook; `None` for base64 that cannot be decoded.
pub fn webhook_key(secret: &str) -> Option<Vec<u8>> {
    match secret.trim().strip_prefix(WEBHOOK_KEY_PREFIX) {
        Some(encoded) => LENIENT_BASE64.decode(encoded).ok(),
        None => Some(secret.as_bytes().to_owned()),
    }
}

/// Rejects base64 that cannot be decoded, because no signature would match, and short keys.
pub(super) fn webhook_secret(text: &str) -> Result<(), String> {
    signing_key(text)?;
    let key = webhook_key(text).ok_or(
        "begins with `whsec_`, but the rest is not base64: copy the secret of the sender again",
    )?;
    match key.len() {
        0..16 => Err("must have at least 16 bytes after `whsec_`, in base64".to_owned()),
        _ => Ok(()),
    }
}

/// Files need an explicit setting: not every model accepts files, and tool results may not be for
/// everyone.
pub(super) fn files(text: &str) -> Result<(), String> {
    match text {
        "name" | "fetch" | "send" | "both" => Ok(()),
        _ => Err("must be `name`, `fetch`, `send` or `both`".to_owned()),
    }
}

/// Requires an HTTP or HTTPS URL with a host.
pub(super) fn address(text: &str) -> Result<(), String> {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host)
            if !host.is_empty()
                && !host.starts_with('/')
                && !host.contains(char::is_whitespace) =>
        {
            Ok(())
        }
        _ => Err("must be a URL that begins with `http://` or `https://`".to_owned()),
    }
}

/// Requires HTTPS for the public URL, because without TLS the secret in each request could be read
/// on the network.
pub(super) fn public_address(text: &str) -> Result<(), String> {
    match address(text) {
        Ok(()) if text.starts_with("https://") => Ok(()),
        _ => Err("must be a URL that begins with `https://`".to_owned()),
    }
}

/// Requires an app-level token, because Slack's token kinds are easily confused.
pub(super) fn app_token(text: &str) -> Result<(), String> {
    if text.trim().starts_with("xapp-") {
        Ok(())
    } else {
        Err("must be an app-level token, which begins with `xapp-`".to_owned())
    }
}

/// Requires the name of an HTTP header.
pub(super) fn header_name(text: &str) -> Result<(), String> {
    let is_name = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_name {
        Ok(())
    } else {
        Err("must be the name of a header".to_owned())
    }
}

/// Requires an integer from `min` to `max`.
pub(super) fn integer_within(text: &str, min: u64, max: u64) -> Result<(), String> {
    match text.parse::<u64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(()),
        _ => Err(format!("must be an integer from {min} to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_secret_must_be_a_sufficiently_long_key() {
        assert_eq!(webhook_secret("abcdefghijklmnop"), Ok(()));
        for secret in [
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa",
        ] {
            assert_eq!(webhook_secret(secret), Ok(()), "{secret}");
        }
        for (secret, reason) in [
            ("short", "16 characters"),
            ("whsec_not*base64*at*all", "base64"),
            ("whsec_MfKQ9r8GKYqrTwjU", "16 bytes"),
            ("whsec_MfKQ9r8GKYqrTwj UPD8ILPZIo2LaLaSw", "base64"),
        ] {
            let refusal = webhook_secret(secret).unwrap_err();
            assert!(refusal.contains(reason), "{secret}: {refusal}");
        }
    }
}

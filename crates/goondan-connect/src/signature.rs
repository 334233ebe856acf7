//! Request signatures. Comparisons are constant-time.

use std::time::Duration;

use chrono::{DateTime, Utc};
use ring::{hmac, signature};

/// Maximum clock difference of a signed request, in both directions.
pub(crate) const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(300);

/// Returns true if `signature` (hexadecimal) is the HMAC-SHA256 of the concatenated parts.
pub(crate) fn is_hmac_hex(key: &[u8], message: &[&[u8]], signature: &str) -> bool {
    decode_hex(signature).is_some_and(|signature| is_hmac(key, message, &signature))
}

/// Returns the HMAC-SHA256 of the concatenated parts in hexadecimal digits.
pub(crate) fn hmac_hex(key: &[u8], message: &[&[u8]]) -> String {
    encode_hex(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &message.concat()).as_ref())
}

/// Compares two strings in constant time.
pub(crate) fn constant_time_eq(value: &str, expected: &str) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, expected.as_bytes());
    hmac::verify(
        &key,
        value.as_bytes(),
        hmac::sign(&key, expected.as_bytes()).as_ref(),
    )
    .is_ok()
}

/// Returns true if `signature` is the HMAC-SHA256 of the concatenated parts.
pub(crate) fn is_hmac(key: &[u8], message: &[&[u8]], signature: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::verify(&key, &message.concat(), signature).is_ok()
}

/// Returns true if `signature` is the Ed25519 signature of the concatenated parts. Key and
/// signature are hexadecimal.
pub(crate) fn is_ed25519(key: &str, message: &[&[u8]], signature: &str) -> bool {
    let (Some(key), Some(signature)) = (decode_hex(key), decode_hex(signature)) else {
        return false;
    };
    signature::UnparsedPublicKey::new(&signature::ED25519, key)
        .verify(&message.concat(), &signature)
        .is_ok()
}

/// Returns true if a Unix timestamp is within [`MAX_CLOCK_DIFFERENCE`] of now.
pub(crate) fn is_fresh(timestamp: &str, now: DateTime<Utc>) -> bool {
    timestamp
        .parse::<i64>()
        .is_ok_and(|seconds| now.timestamp().abs_diff(seconds) <= MAX_CLOCK_DIFFERENCE.as_secs())
}

/// Returns the SHA-256 of the concatenated parts in hexadecimal digits.
pub(crate) fn digest(message: &[&[u8]]) -> String {
    encode_hex(ring::digest::digest(&ring::digest::SHA256, &message.concat()).as_ref())
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes bytes from hexadecimal digits. Returns `None` if the number of digits is odd or a
/// character is not a digit.
fn decode_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let mut bytes = Vec::new();
    for pair in text.as_bytes().chunks_exact(2) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slack_documentation_example_verifies() {
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let parts: [&[u8]; 2] = [b"v0:1531420618:", body];
        let given = "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        assert!(is_hmac_hex(
            b"8f742231b10e8888abcd99yyyzzz85a5",
            &parts,
            given
        ));
        assert!(!is_hmac_hex(
            b"8f742231b10e8888abcd99yyyzzz85a6",
            &parts,
            given
        ));
        assert!(!is_hmac_hex(
            b"8f742231b10e8888abcd99yyyzzz85a5",
            &parts,
            &given[2..]
        ));
    }

    #[test]
    fn the_github_documentation_example_verifies() {
        let given = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(is_hmac_hex(
            b"It's a Secret to Everybody",
            &[b"Hello, World!"],
            given
        ));
        assert!(!is_hmac_hex(
            b"It's a Secret to Everybody",
            &[b"Hello, World?"],
            given
        ));
    }

    #[test]
    fn the_second_rfc_8032_test_vector_verifies() {
        let key = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
        let given = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
        assert!(is_ed25519(key, &[b"\x72"], given));
        assert!(!is_ed25519(key, &[b"\x73"], given));
        assert!(!is_ed25519("3d40", &[b"\x72"], given));
        assert!(!is_ed25519(key, &[b"\x72"], "zz"));
    }

    #[test]
    fn a_request_is_fresh_for_five_minutes() {
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        assert!(is_fresh("999700", now) && is_fresh("1000300", now));
        for stale in [
            "999699",
            "1000301",
            "",
            "x",
            "-9223372036854775808",
            "99999999999999999999",
        ] {
            assert!(!is_fresh(stale, now), "{stale}");
        }
    }
}

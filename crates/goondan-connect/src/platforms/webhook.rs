//! `webhook`: signed requests of any program.
//!
//! They are signed as the Standard Webhooks say: HMAC-SHA256 of `id.timestamp.body`. A sender that signs the body alone, in a
//! header of its own, can be told by `signatureHeader`.

use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::connectors::Bound;
use goondan::spec::JsonObject;
use serde_json::Value;

use super::{Heard, Platform, header, senseless, unsigned};
use crate::event::{Event, plain_values};
use crate::signature::{FRESH, digest, is_fresh, is_hmac, is_hmac_hex};

/// What a key begins with that is written in base64.
const KEY_PREFIX: &str = "whsec_";
/// The conversation of an event that names none.
const KEY: &str = "webhook:default";

/// A webhook.
pub(super) struct Webhook {
    key: Vec<u8>,
    /// The header with the signature of the body alone.
    signature_header: Option<String>,
    /// The first is the one that a request is which names none.
    events: Vec<String>,
}

impl Webhook {
    pub(super) fn new(bound: &Bound) -> Self {
        let secret = bound.secret("signingSecret");
        let encoded = secret
            .strip_prefix(KEY_PREFIX)
            .and_then(|encoded| STANDARD.decode(encoded).ok());
        Webhook {
            key: encoded.unwrap_or_else(|| secret.as_bytes().to_owned()),
            signature_header: bound.setting("signatureHeader").map(str::to_owned),
            events: bound.events.clone(),
        }
    }

    /// The id of a request that is signed as it should be.
    fn signed_id(&self, headers: &HeaderMap, body: &Bytes, now: DateTime<Utc>) -> Option<String> {
        if let Some(name) = &self.signature_header {
            let given = header(headers, name);
            let given = given.strip_prefix("sha256=").unwrap_or(given);
            // The same body some minutes later is another event: there is nothing else to go by.
            let window = (now.timestamp().unsigned_abs() / FRESH.as_secs()).to_string();
            return is_hmac_hex(&self.key, &[body], given)
                .then(|| digest(&[window.as_bytes(), b".", body]));
        }
        let [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"]
            .map(|name| header(headers, name));
        let message: [&[u8]; 5] = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        let is_right = |signature: &str| {
            let given = signature
                .strip_prefix("v1,")
                .and_then(|given| STANDARD.decode(given).ok());
            given.is_some_and(|given| is_hmac(&self.key, &message, &given))
        };
        // While a key is changed, senders sign with both.
        let is_signed = !id.is_empty()
            && is_fresh(timestamp, now)
            && signatures.split(' ').take(8).any(is_right);
        is_signed.then(|| id.to_owned())
    }
}

impl Platform for Webhook {
    fn needs_server(&self) -> bool {
        true
    }

    fn hear(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        now: DateTime<Utc>,
    ) -> Result<Heard, Response> {
        let id = self.signed_id(headers, body, now).ok_or_else(unsigned)?;
        let text =
            std::str::from_utf8(body).map_err(|_| senseless("The body is not UTF-8 text."))?;
        if text.trim().is_empty() {
            return Err(senseless("The body is empty."));
        }
        Ok(Heard::Event(Box::new(event(id, text, &self.events))))
    }
}

/// An object with a `text` says what it is. Anything else is read by the agent as it is.
fn event(id: String, body: &str, events: &[String]) -> Event {
    let object: JsonObject = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| {
        object
            .get(name)
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    let name = text("event")
        .and_then(|name| events.iter().find(|known| *known == name))
        .or(events.first());
    let said = text("text");
    let properties = match object.get("properties").and_then(Value::as_object) {
        Some(properties) => plain_values(properties),
        None => plain_values(&object),
    };
    Event {
        name: name.cloned().unwrap_or_default(),
        id,
        text: said.unwrap_or(body).to_owned(),
        key: said.and(text("instanceKey")).unwrap_or(KEY).to_owned(),
        properties,
        ..Event::default()
    }
}

pub(super) fn sample(bound: &Bound) -> Event {
    event(
        "sample".to_owned(),
        r#"{"text": "Hello", "properties": {}}"#,
        &bound.events,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<String> {
        vec!["webhook_message".to_owned(), "deploy".to_owned()]
    }

    #[test]
    fn the_example_of_the_reference_libraries() {
        let webhook = Webhook {
            key: STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap(),
            signature_header: None,
            events: events(),
        };
        let body = Bytes::from_static(br#"{"test": 2432232314}"#);
        let mut headers = HeaderMap::new();
        headers.insert(
            "webhook-id",
            "msg_p5jXN8AQM9LWM0D4loKWxJek".parse().unwrap(),
        );
        headers.insert("webhook-timestamp", "1614265330".parse().unwrap());
        headers.insert(
            "webhook-signature",
            "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
                .parse()
                .unwrap(),
        );
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let id = webhook.signed_id(&headers, &body, at(1_614_265_330));
        assert_eq!(id.as_deref(), Some("msg_p5jXN8AQM9LWM0D4loKWxJek"));
        assert_eq!(
            webhook.signed_id(&headers, &body, at(1_614_265_330 + 301)),
            None
        );
        assert_eq!(
            webhook.signed_id(&headers, &body.slice(1..), at(1_614_265_330)),
            None
        );
        headers.insert("webhook-id", "another".parse().unwrap());
        assert_eq!(
            webhook.signed_id(&headers, &body, at(1_614_265_330)),
            None,
            "the id is signed, too"
        );
    }

    #[test]
    fn a_body_is_an_event_in_words_of_its_own_or_ours() {
        let ours = event(
            "1".to_owned(),
            r#"{"text": "Deployed", "event": "deploy", "instanceKey": "k", "properties": {"ok": true, "n": 1, "x": {}}}"#,
            &events(),
        );
        assert_eq!(
            (ours.name.as_str(), ours.text.as_str(), ours.key.as_str()),
            ("deploy", "Deployed", "k")
        );
        assert_eq!(ours.properties.len(), 2);
        let theirs = event(
            "1".to_owned(),
            r#"{"status": "firing", "instanceKey": "k", "event": "x"}"#,
            &events(),
        );
        assert_eq!(
            (theirs.name.as_str(), theirs.key.as_str()),
            ("webhook_message", KEY)
        );
        assert_eq!(theirs.properties["status"], "firing");
        assert!(theirs.text.starts_with("{\"status\""));
        assert_eq!(event("1".to_owned(), "plain", &events()).text, "plain");
    }
}

//! `webhook`: signed requests from any program.
//!
//! Signatures follow Standard Webhooks: HMAC-SHA256 of `id.timestamp.body`. For senders that sign
//! only the body, `signatureHeader` names the header.

use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use goondan::adapters::connectors::{BoundConnection, webhook_key};
use goondan::{json_text, received_text};
use serde_json::{Value, json};

use super::{
    ParsedRequest, PlatformConnector, bad_request, header, unauthorized_response,
    unreadable_body_response,
};
use crate::event::{PlatformEvent, plain_values, random_id};
use crate::signature::{MAX_CLOCK_DIFFERENCE, digest, is_fresh, is_hmac, is_hmac_hex};

/// Default conversation key.
const DEFAULT_INSTANCE_KEY: &str = "webhook:default";

pub(super) struct WebhookConnector {
    key: Vec<u8>,
    /// Header with a signature of the body only.
    signature_header: Option<String>,
    /// Known events; the first one is the default.
    events: Vec<String>,
}

impl WebhookConnector {
    /// Reads the settings of the connection.
    pub(super) fn new(bound: &BoundConnection) -> Self {
        WebhookConnector {
            // The secret was checked with the settings. An empty key would accept forged requests.
            key: webhook_key(bound.secret("signingSecret"))
                .unwrap_or_else(|| random_id().into_bytes()),
            signature_header: bound.setting("signatureHeader").map(str::to_owned),
            events: bound.events.clone(),
        }
    }

    /// Returns the id of a correctly signed request.
    fn signed_id(&self, headers: &HeaderMap, body: &Bytes, now: DateTime<Utc>) -> Option<String> {
        if let Some(name) = &self.signature_header {
            let sent_signature = header(headers, name);
            let sent_signature = sent_signature
                .strip_prefix("sha256=")
                .unwrap_or(sent_signature);
            // The signature covers no id or time, so the same body in another time window counts as
            // another event.
            let window =
                (now.timestamp().unsigned_abs() / MAX_CLOCK_DIFFERENCE.as_secs()).to_string();
            return is_hmac_hex(&self.key, &[body], sent_signature)
                .then(|| digest(&[window.as_bytes(), b".", body]));
        }
        let [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"]
            .map(|name| header(headers, name));
        let message: [&[u8]; 5] = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        let is_right = |signature: &str| {
            let sent_signature = signature
                .strip_prefix("v1,")
                .and_then(|sent_signature| STANDARD.decode(sent_signature).ok());
            sent_signature
                .is_some_and(|sent_signature| is_hmac(&self.key, &message, &sent_signature))
        };
        // The signed text joins id, time and body with dots. With a dot in the id, one signature
        // would fit two requests.
        // During a key rotation, senders sign with both keys.
        let is_signed = !id.is_empty()
            && !id.contains('.')
            && is_fresh(timestamp, now)
            && signatures.split(' ').take(8).any(is_right);
        is_signed.then(|| id.to_owned())
    }
}

impl PlatformConnector for WebhookConnector {
    fn needs_server(&self) -> bool {
        true
    }

    fn parse_request(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        now: DateTime<Utc>,
    ) -> Result<ParsedRequest, Response> {
        let id = self
            .signed_id(headers, body, now)
            .ok_or_else(unauthorized_response)?;
        let content_type = header(headers, "content-type");
        let text = received_text::decode(body, content_type)
            .map_err(|error| unreadable_body_response(&error))?;
        if text.trim().is_empty() {
            return Err(bad_request("The body is empty."));
        }
        let json: Result<Value, _> = json_text::parse(&text);
        // A damaged body would otherwise start a turn in the wrong conversation.
        if let Err(error) = &json
            && received_text::is_json(content_type)
        {
            return Err(bad_request(&format!("The body is not JSON: {error}.")));
        }
        let json = json.unwrap_or_default();
        let event = event(id, &text, &json, &self.events);
        Ok(ParsedRequest::Event(Box::new(event)))
    }
}

/// Parses a body: an object with `text` sets the event's fields; any other body becomes the text.
fn event(id: String, body: &str, json: &Value, events: &[String]) -> PlatformEvent {
    let object = json.as_object().cloned().unwrap_or_default();
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
    let text_field = text("text");
    let properties = match object.get("properties").and_then(Value::as_object) {
        Some(properties) => plain_values(properties),
        None => plain_values(&object),
    };
    PlatformEvent {
        name: name.cloned().unwrap_or_default(),
        id,
        text: text_field.unwrap_or(body).to_owned(),
        key: text_field
            .and(text("instanceKey"))
            .unwrap_or(DEFAULT_INSTANCE_KEY)
            .to_owned(),
        properties,
        ..PlatformEvent::default()
    }
}

/// Returns an event for tests and documentation.
pub(super) fn sample(bound: &BoundConnection) -> PlatformEvent {
    let body = json!({"text": "Hello", "properties": {}});
    event("sample".to_owned(), "", &body, &bound.events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<String> {
        vec!["webhook_message".to_owned(), "deploy".to_owned()]
    }

    #[test]
    fn the_reference_library_example_verifies() {
        let webhook = WebhookConnector {
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
            "the signature covers the id"
        );
    }

    #[test]
    fn a_body_is_read_as_a_gdn_event_or_as_foreign_json() {
        let event = |id, body: &str, events: &[String]| {
            let json = json_text::parse(body).unwrap_or_default();
            event(id, body, &json, events)
        };
        let gdn_event = event(
            "1".to_owned(),
            r#"{"text": "Deployed", "event": "deploy", "instanceKey": "k", "properties": {"ok": true, "n": 1, "x": {}}}"#,
            &events(),
        );
        assert_eq!(
            (
                gdn_event.name.as_str(),
                gdn_event.text.as_str(),
                gdn_event.key.as_str()
            ),
            ("deploy", "Deployed", "k")
        );
        assert_eq!(gdn_event.properties.len(), 2);
        let foreign_event = event(
            "1".to_owned(),
            r#"{"status": "firing", "instanceKey": "k", "event": "x"}"#,
            &events(),
        );
        assert_eq!(
            (foreign_event.name.as_str(), foreign_event.key.as_str()),
            ("webhook_message", DEFAULT_INSTANCE_KEY)
        );
        assert_eq!(foreign_event.properties["status"], "firing");
        assert!(foreign_event.text.starts_with("{\"status\""));
        assert_eq!(event("1".to_owned(), "plain", &events()).text, "plain");
        let group = event("1".to_owned(), r#"{"mediaGroupId": "g"}"#, &events());
        assert_eq!(group.properties["mediaGroupId"], "g");
        assert_eq!(group.album_key(), None);
    }
}

//! The relevant fields of an agent card: endpoint, protocol version and streaming support.

use serde_json::Value;
use url::Url;

use super::wire::A2aProtocolVersion;

/// The endpoint and the protocol of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentCard {
    pub(super) url: String,
    pub(super) version: A2aProtocolVersion,
    pub(super) streams: bool,
    /// Selects the agent on hosts that serve many agents at one URL.
    pub(super) tenant: Option<String>,
}

impl AgentCard {
    /// Reads the card of the agent at `base`.
    ///
    /// # Errors
    ///
    /// Fails with the reason as a part of a sentence.
    pub(super) fn read(card: &Value, base: &str) -> Result<AgentCard, String> {
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).map(str::to_owned)
        };
        let streams = card.pointer("/capabilities/streaming") == Some(&Value::Bool(true));
        let mut ways = Vec::new();
        for interface in card
            .get("supportedInterfaces")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let is_rpc = text(interface, "protocolBinding").as_deref() == Some("JSONRPC");
            let version = text(interface, "protocolVersion")
                .and_then(|version| A2aProtocolVersion::from_number(&version));
            if let (true, Some(version), Some(url)) = (is_rpc, version, text(interface, "url")) {
                ways.push(AgentCard {
                    url,
                    version,
                    streams,
                    tenant: text(interface, "tenant"),
                });
            }
        }
        // The format of version 0.3.
        let is_rpc =
            text(card, "preferredTransport").is_none_or(|transport| transport == "JSONRPC");
        if let (true, Some(url)) = (is_rpc, text(card, "url")) {
            ways.push(AgentCard {
                url,
                version: A2aProtocolVersion::V03,
                streams,
                tenant: None,
            });
        }
        // Prefer the newest version, and within a version the first endpoint.
        ways.sort_by_key(|way| way.version == A2aProtocolVersion::V03);
        let Some(way) = ways.into_iter().next() else {
            return Err("the card has no URL for JSON-RPC with A2A 1.0 or 0.3".to_owned());
        };
        let origin = |address: &str| Url::parse(address).ok().map(|url| url.origin());
        if origin(&way.url).is_none_or(|there| Some(there) != origin(base)) {
            return Err(format!(
                "the card names the URL {}, which is on another host: messages and headers are \
                sent only to the host in `spec.a2a.url`",
                goondan_spec::untrusted_text::line(&way.url)
            ));
        }
        Ok(way)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_interface_with_the_newest_version_is_chosen() {
        let card = json!({
            "supportedInterfaces": [
                {"url": "https://a.example/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
                {"url": "https://a.example/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
                {"url": "https://a.example/new", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"},
            ],
            "url": "https://a.example/oldest",
            "capabilities": {"streaming": true},
        });
        let read = AgentCard::read(&card, "https://a.example/").expect("a card");
        assert_eq!(
            (&*read.url, read.version, read.streams),
            ("https://a.example/new", A2aProtocolVersion::V10, true)
        );
        assert_eq!(read.tenant.as_deref(), Some("t"));
        let old = json!({"url": "https://a.example/oldest", "capabilities": {}});
        let read = AgentCard::read(&old, "https://a.example/x.json").expect("a card");
        assert_eq!(
            (read.version, read.streams),
            (A2aProtocolVersion::V03, false)
        );
    }

    #[test]
    fn a_card_url_must_have_the_origin_of_the_card() {
        for url in [
            "https://b.example/",
            "http://a.example/",
            "https://a.example:444/",
            "file:///etc/passwd",
            "/a2a",
        ] {
            let card = json!({"url": url});
            assert!(
                AgentCard::read(&card, "https://a.example/").is_err(),
                "{url}"
            );
        }
        assert!(AgentCard::read(&json!({}), "https://a.example/").is_err());
        assert!(
            AgentCard::read(
                &json!({"url": "https://a.example/", "preferredTransport": "GRPC"}),
                "https://a.example/"
            )
            .is_err()
        );
    }
}

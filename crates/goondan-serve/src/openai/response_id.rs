//! Response ids. An id contains the event and the conversation, so it stays valid after a restart.
//! The message of the request states if the response can be retrieved.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use goondan::ids::InstanceId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResponseId {
    pub(super) event_id: String,
    pub(super) instance: InstanceId,
}

impl ResponseId {
    /// Encodes the id.
    pub(super) fn encode(&self) -> String {
        let InstanceId {
            agent,
            instance_key,
        } = &self.instance;
        let fields = (&self.event_id, agent, instance_key);
        format!(
            "resp_{}",
            URL_SAFE_NO_PAD.encode(serde_json::to_vec(&fields).unwrap_or_default())
        )
    }

    /// Decodes an id; `None` for another form. Anyone can create an id, so the conversation decides
    /// what it gives access to.
    pub(super) fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix("resp_")?).ok()?;
        let (event_id, agent, key): (String, String, String) =
            serde_json::from_slice(&bytes).ok()?;
        Some(ResponseId {
            event_id,
            instance: InstanceId::new(agent, key),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_response_id_survives_encoding_and_decoding(event_id: String, agent: String, key: String) {
            let id = ResponseId { event_id, instance: InstanceId::new(agent, key) };
            let text = id.encode();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
            prop_assert_eq!(ResponseId::decode(&text), Some(id));
        }

        #[test]
        fn invalid_response_ids_are_rejected(text: String) {
            prop_assert_eq!(ResponseId::decode(&text), None);
            prop_assert_eq!(ResponseId::decode(&format!("resp_{text}")), None);
        }
    }
}

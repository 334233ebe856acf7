//! Who may send events through a Connection.

use std::collections::BTreeSet;

use schemars::JsonSchema;

use super::connector::ConnectorManifest;
use crate::decode::{Field, Fields};
use crate::findings::Findings;

/// What stands for every sender.
const EVERYBODY: &str = "*";

/// Who may send events: where both are given, both must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    /// Ids of senders, as the platform writes them; `None` where only the channel counts.
    pub senders: Option<BTreeSet<String>>,
    /// Ids of channels; `None` for all.
    pub channels: Option<BTreeSet<String>>,
}

impl Allow {
    /// Whether everybody may send.
    pub fn lets_everybody_in(&self) -> bool {
        self.senders.as_ref().is_none_or(|senders| senders.contains(EVERYBODY))
    }
}

/// Reads `allow`.
pub(crate) fn read(field: &Field<'_>, manifest: Option<&ConnectorManifest>, findings: &mut Findings) -> Option<Allow> {
    if let Some(manifest) = manifest.filter(|manifest| !manifest.knows_senders) {
        let message = format!("The events of the connector `{}` do not say who has sent them.", manifest.name);
        findings.add(field.invalid(message).suggest("remove `allow`"));
        return None;
    }
    let mut fields = field.fields(findings)?;
    let senders = read_ids(&mut fields, "senders", findings);
    let channels = read_ids(&mut fields, "channels", findings);
    fields.finish(findings);
    let allow = Allow { senders: senders?, channels: channels? };
    if allow == Allow::default() {
        let message = format!("`{}` names nobody.", field.path);
        findings.add(field.invalid(message).suggest("add `senders: [ID]` or `channels: [ID]`, or remove it"));
        return None;
    }
    Some(allow)
}

type Ids = Option<BTreeSet<String>>;

fn read_ids(fields: &mut Fields<'_>, name: &'static str, findings: &mut Findings) -> Option<Ids> {
    let Some(field) = fields.optional(name) else { return Some(None) };
    let ids = field.texts(findings)?;
    Some(Some(ids.iter().filter_map(|id| id.text(findings)).map(str::to_owned).collect()))
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectionAllow")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct AllowShape {
    /// The ids of senders, as the platform writes them, in quotes. `"*"` is everybody.
    senders: Option<Vec<String>>,
    /// The ids of channels or chats. Where `senders` is given as well, both must fit.
    channels: Option<Vec<String>>,
}

//! Views of a loaded project: its outline for editors, and its resources with all short forms
//! written out.

use std::collections::BTreeMap;

use super::decode_stage::DecodeStage;
use super::findings::LoadFindings;
use crate::decoded_resources::DecodedResources;
use crate::expansion::{self, WrittenDocument};
use crate::outline::{BundleOutline, ResourceDefinition};

/// Returns the resources of the project as YAML documents, without those of packages.
pub(super) fn expand(stage: &DecodeStage<'_>, gathered: &LoadFindings) -> String {
    let own_documents = stage
        .documents
        .iter()
        .filter(|document| document.base.is_empty());
    let texts: Vec<String> = own_documents
        .map(|document| {
            let head = &document.envelope.head;
            let pairs = |map: &BTreeMap<String, String>| {
                let pairs = map.iter();
                pairs
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect()
            };
            let written = WrittenDocument {
                kind: head.id.kind,
                name: &head.id.name,
                metadata: vec![
                    ("labels", pairs(&head.labels)),
                    ("annotations", pairs(&head.annotations)),
                ],
                spec: document.envelope.spec.as_ref().map(|spec| spec.node),
            };
            let is_secret = |at: usize| {
                let mut secrets = gathered.secrets.iter();
                secrets.any(|(file, range)| file == document.file && range.contains(&at))
            };
            expansion::write(&written, &is_secret)
        })
        .collect();
    texts.join("---\n")
}

/// Collects the definitions and links of the project for editors.
pub(super) fn build_outline(
    stage: &DecodeStage<'_>,
    decoded: &DecodedResources,
    gathered: &mut LoadFindings,
) -> BundleOutline {
    let named_documents = stage
        .documents
        .iter()
        .filter(|document| !document.id().name.is_empty());
    let entries = named_documents.map(|document| {
        // Resources of installed packages and resources derived from a short form have no
        // origin, so that an editor does not rename them.
        let origin = (document.base.is_empty() && !document.is_derived)
            .then(|| (document.file.to_owned(), document.envelope.head.name_at));
        ResourceDefinition {
            id: document.id().clone(),
            origin,
        }
    });
    let built_in = stage.built_in;
    let base = built_in
        .tools
        .keys()
        .chain(built_in.extensions.keys())
        .chain(built_in.connectors.keys());
    BundleOutline {
        definitions: entries
            .chain(base.map(|id| ResourceDefinition {
                id: id.clone(),
                origin: None,
            }))
            .collect(),
        links: std::mem::take(&mut gathered.links),
        tools: decoded.tools.clone(),
        connectors: decoded.connectors.clone(),
        files: stage.files.iter().map(|file| file.name.clone()).collect(),
    }
}

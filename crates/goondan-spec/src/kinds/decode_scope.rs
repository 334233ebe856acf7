//! Context of a decoder that depends on resources of other kinds.

use std::ops::Deref;

use super::connector_manifest::ConnectorManifest;
use super::resource_scope::ResourceScope;
use crate::decoded_resources::DecodedResources;
use crate::meta::ResourceId;

/// Context of a decoder, with the kinds decoded before its own.
#[derive(Clone, Copy)]
pub(crate) struct DecodeScope<'s> {
    resource: ResourceScope<'s>,
    decoded: &'s DecodedResources,
}

impl<'s> DecodeScope<'s> {
    /// Creates a scope. `decoded` contains the kinds decoded before this one.
    pub(crate) fn new(resource: ResourceScope<'s>, decoded: &'s DecodedResources) -> Self {
        DecodeScope { resource, decoded }
    }

    /// Returns the kinds decoded before this one. Notes that the result depends on more than the
    /// files that were read.
    pub(crate) fn decoded_resources(&self) -> &'s DecodedResources {
        self.folder.mark_uncacheable();
        self.decoded
    }

    /// Returns the manifest of the connector `id` if it is built in.
    pub(crate) fn connector_manifest(&self, id: &ResourceId) -> Option<&'s ConnectorManifest> {
        let connector = self.decoded_resources().connectors.get(id)?;
        self.base.connector(&connector.spec)
    }
}

impl<'s> Deref for DecodeScope<'s> {
    type Target = ResourceScope<'s>;

    fn deref(&self) -> &Self::Target {
        &self.resource
    }
}

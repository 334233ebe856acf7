//! Decoding of all resources, kind by kind.

use std::sync::Arc;

use super::documents::EnvelopedDocument;
use super::findings::LoadFindings;
use crate::base_package::BasePackage;
use crate::bundle::BuiltInResources;
use crate::decode::FieldReader;
use crate::decoded_resources::DecodedResources;
use crate::diagnostic_sink::DiagnosticSink;
use crate::envelope::DocumentEnvelope;
use crate::field_advice;
use crate::index::ResourceIndex;
use crate::kinds::{self, DecodeScope, ResourceScope};
use crate::meta::Kind;
use crate::parallel;
use crate::parsed_file::ParsedFile;
use crate::paths::{BundleDirectory, PathLookups};
use crate::resource::Resource;
use crate::resource::Resources;

/// Inputs of decoding.
pub(super) struct DecodeStage<'s> {
    pub(super) folder: &'s BundleDirectory<'s>,
    pub(super) index: &'s ResourceIndex,
    pub(super) base: &'s BasePackage,
    pub(super) built_in: &'s BuiltInResources,
    pub(super) documents: &'s [EnvelopedDocument<'s>],
    pub(super) files: &'s [Arc<ParsedFile>],
}

impl DecodeStage<'_> {
    /// Decodes kind by kind, in an order in which referenced kinds come first.
    pub(super) fn decode_all(&self, gathered: &mut LoadFindings) -> DecodedResources {
        let mut done = DecodedResources::default();
        let packages = self.decode(Kind::Package, &done, gathered, |spec, scope, findings| {
            kinds::decode_package(spec, &scope.id.name, findings)
        });
        done.package = packages.into_values().next();
        done.models = self.decode_spec(Kind::Model, &done, gathered, |spec, _, findings| {
            kinds::decode_model(spec, findings)
        });
        done.extensions =
            self.decode_spec(Kind::Extension, &done, gathered, |spec, scope, findings| {
                kinds::decode_extension(spec, scope, findings)
            });
        done.extensions.extend(self.built_in.extensions.clone());
        done.connectors =
            self.decode_spec(Kind::Connector, &done, gathered, |spec, scope, findings| {
                kinds::decode_connector(spec, scope, findings)
            });
        done.connectors.extend(self.built_in.connectors.clone());
        done.tools = self.decode_spec(Kind::Tool, &done, gathered, |spec, scope, findings| {
            kinds::decode_tool(spec, scope, findings)
        });
        done.tools.extend(self.built_in.tools.clone());
        done.agents = self.decode_spec(Kind::Agent, &done, gathered, kinds::decode_agent);
        done.swarms = self.decode_spec(Kind::Swarm, &done, gathered, kinds::decode_swarm);
        done.connections =
            self.decode_spec(Kind::Connection, &done, gathered, kinds::decode_connection);
        done
    }

    /// Decodes all resources of a kind; resources without a `spec` are skipped.
    fn decode_spec<T: Send + Sync + 'static>(
        &self,
        kind: Kind,
        done: &DecodedResources,
        gathered: &mut LoadFindings,
        decode: impl Fn(&FieldReader<'_>, &DecodeScope<'_>, &mut DiagnosticSink) -> Option<T> + Sync,
    ) -> Resources<T> {
        self.decode(kind, done, gathered, |spec, scope, findings| {
            decode(spec?, scope, findings)
        })
    }

    /// Decodes all resources of a kind in parallel; invalid ones are left out.
    fn decode<T: Send + Sync + 'static>(
        &self,
        kind: Kind,
        done: &DecodedResources,
        gathered: &mut LoadFindings,
        decode: impl Fn(Option<&FieldReader<'_>>, &DecodeScope<'_>, &mut DiagnosticSink) -> Option<T>
        + Sync,
    ) -> Resources<T> {
        let documents: Vec<&EnvelopedDocument<'_>> = self
            .documents
            .iter()
            .filter(|document| document.id().kind == kind)
            .collect();
        let decoded = parallel::map(&documents, |document| {
            let DocumentEnvelope { head, spec } = &document.envelope;
            if let Some((resource, findings)) = document.kept.cached_resource(head, self.folder) {
                return (Some(resource), findings);
            }
            let mut findings = DiagnosticSink::for_file(document.file);
            findings.advisor = Some(field_advice::find_advice);
            findings.resource = Some(head.id.clone()).filter(|id| !id.name.is_empty());
            let looks = PathLookups::for_package(self.folder, document.base);
            let resource = ResourceScope {
                folder: &looks,
                base: self.base,
                id: &head.id,
                index: self.index,
            };
            let scope = DecodeScope::new(resource, done);
            let spec = decode(spec.as_ref(), &scope, &mut findings);
            let resource = spec.map(|spec| Arc::new(build_resource(document, spec)));
            if let Some(resource) = &resource {
                document.kept.put_resource(head, resource, &findings, looks);
            }
            (resource, findings)
        });
        let mut resources = Resources::new();
        for (resource, findings) in decoded {
            gathered.add(findings);
            if let Some(resource) = resource {
                resources.entry(resource.id.clone()).or_insert(resource);
            }
        }
        resources
    }
}

/// Creates a resource from its document and its decoded spec.
fn build_resource<T>(document: &EnvelopedDocument<'_>, spec: T) -> Resource<T> {
    let head = &document.envelope.head;
    Resource {
        id: head.id.clone(),
        labels: head.labels.clone(),
        annotations: head.annotations.clone(),
        origin: Some((document.file.to_owned(), head.name_at)),
        spec,
    }
}

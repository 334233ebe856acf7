//! Spans of what has happened already.

use goondan_core::event::RuntimeEvent;

use crate::otlp::{Resource, ResourceSpans, Scope, ScopeSpans, Span, TracesRequest};
use crate::resource::Identity;
use crate::settings::Settings;
use crate::spans::Assembler;

/// The spans that the events make, which are in their order, as requests of the size that the settings name. What has not
/// ended is not among them.
pub fn requests(
    events: &[RuntimeEvent],
    settings: &Settings,
    identity: &Identity,
) -> Vec<TracesRequest> {
    let mut assembler = Assembler::new(settings.content);
    let spans: Vec<Span> = events
        .iter()
        .filter_map(|event| assembler.note(event))
        .collect();
    let (resource, scope) = (identity.resource(&settings.resource), identity.scope());
    spans
        .chunks(settings.batch)
        .map(|spans| request(&resource, &scope, spans.to_vec()))
        .collect()
}

/// A request with those spans.
pub(crate) fn request(resource: &Resource, scope: &Scope, spans: Vec<Span>) -> TracesRequest {
    let scope_spans = vec![ScopeSpans {
        scope: Some(scope.clone()),
        spans,
    }];
    TracesRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans,
        }],
    }
}

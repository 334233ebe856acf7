//! Backfill: spans of stored events.

use goondan_core::event::RuntimeEvent;

use crate::otlp::{
    InstrumentationScope, OtlpResource, OtlpSpan, ResourceSpans, ScopeSpans, TracesRequest,
};
use crate::resource::ProcessIdentity;
use crate::settings::TelemetrySettings;
use crate::spans::SpanAssembler;

/// Returns the spans of the ordered `events`, in requests of the configured batch size. Excludes
/// units that have not ended.
pub fn requests(
    events: &[RuntimeEvent],
    settings: &TelemetrySettings,
    identity: &ProcessIdentity,
) -> Vec<TracesRequest> {
    let mut assembler = SpanAssembler::new(settings.content);
    let spans: Vec<OtlpSpan> = events
        .iter()
        .filter_map(|event| assembler.note(event))
        .collect();
    let (resource, scope) = (identity.resource(&settings.resource), identity.scope());
    spans
        .chunks(settings.batch)
        .map(|spans| request(&resource, &scope, spans.to_vec()))
        .collect()
}

/// Creates a request with the spans of one resource and scope.
pub(crate) fn request(
    resource: &OtlpResource,
    scope: &InstrumentationScope,
    spans: Vec<OtlpSpan>,
) -> TracesRequest {
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

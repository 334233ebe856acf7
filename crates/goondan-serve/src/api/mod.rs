//! Native API, one file per subject. Each handler has its `/openapi.json` description next to it.

mod approvals;
mod cases;
mod description;
mod error_responses;
mod events;
mod failed_events;
mod fallbacks;
mod health;
mod inputs;
mod instances;
mod model_calls;
mod openapi_document;
mod operations;
mod project_files;
mod site;
mod stored_instances;
mod swarm;
mod topology;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::{Extension, Router, middleware};
use goondan::internal::real_path;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::description::ApiDescription;
pub(crate) use self::error_responses::ErrorResponses;
use self::fallbacks::{unknown_path_error, wrong_method};
use crate::auth::{AccessPolicy, refuse_larger, replace_larger_body, require_access};
use crate::case_runner::CaseRunner;
use crate::project_editor::ProjectEditor;
use crate::recorder::CaseRecorder;
use crate::server_options::ServerOptions;
use crate::service::Service;
use crate::wire::StudioFeaturesBody;
use crate::{a2a, ag_ui, openai, received_body, studio};

#[derive(OpenApi)]
#[openapi(
    info(title = "gdn", description = "A running swarm of agents.", license(name = "MIT OR Apache-2.0")),
    security(("token" = [])),
    components(schemas(crate::wire::ProblemBody, crate::wire::ErrorBody)),
)]
struct ApiDocument;

/// Returns the routes in the OpenAPI document. All of them need the token.
fn documented_routes(studio: Option<StudioPorts>) -> OpenApiRouter<Service> {
    let routes = OpenApiRouter::with_openapi(ApiDocument::openapi())
        .routes(routes!(swarm::swarm))
        .routes(routes!(swarm::reload))
        .routes(routes!(swarm::tools))
        .routes(routes!(swarm::call))
        .routes(routes!(inputs::send))
        .routes(routes!(inputs::state, inputs::cancel))
        .routes(routes!(inputs::events))
        .routes(routes!(instances::list))
        .routes(routes!(instances::messages))
        .routes(routes!(instances::cancel))
        .routes(routes!(instances::retry))
        .routes(routes!(instances::fork))
        .routes(routes!(stored_instances::set_title))
        .routes(routes!(stored_instances::states))
        .routes(routes!(stored_instances::export))
        .routes(routes!(stored_instances::delete))
        .routes(routes!(operations::compact))
        .routes(routes!(operations::undo))
        .routes(routes!(failed_events::list))
        .routes(routes!(failed_events::discard))
        .routes(routes!(topology::topology))
        .routes(routes!(topology::schedules::schedules))
        .routes(routes!(topology::reloads))
        .routes(routes!(events::events))
        .routes(routes!(health::metrics))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::answer))
        .routes(routes!(a2a::entry_card))
        .routes(routes!(a2a::agent_card))
        .routes(routes!(a2a::call))
        .merge(a2a::former_card_routes())
        .routes(routes!(ag_ui::run));
    match studio {
        Some(ports) => with_studio(routes, ports),
        None => routes,
    }
}

/// Functions of the studio that the program around this server may provide.
#[derive(Default)]
struct StudioPorts {
    recorder: Option<Arc<dyn CaseRecorder>>,
    runner: Option<Arc<dyn CaseRunner>>,
    editor: Option<Arc<dyn ProjectEditor>>,
}

/// Adds the studio routes. The routes for test cases and project files exist only with their port.
fn with_studio(routes: OpenApiRouter<Service>, ports: StudioPorts) -> OpenApiRouter<Service> {
    let features = StudioFeaturesBody {
        cases: ports.runner.is_some(),
        edit: ports.editor.is_some(),
    };
    let mut routes = routes
        .routes(routes!(model_calls::list))
        .routes(routes!(model_calls::call))
        .routes(routes!(model_calls::http))
        .routes(routes!(studio::code))
        .routes(routes!(studio::end))
        .routes(routes!(studio::features))
        .layer(Extension(features));
    if let Some(recorder) = ports.recorder {
        routes = routes
            .routes(routes!(cases::record))
            .layer(Extension(recorder));
    }
    if let Some(runner) = ports.runner {
        routes = routes
            .routes(routes!(cases::list))
            .routes(routes!(cases::run))
            .layer(Extension(runner));
    }
    if let Some(editor) = ports.editor {
        routes = routes
            .routes(routes!(project_files::list))
            .routes(routes!(project_files::read, project_files::save))
            .routes(routes!(project_files::check))
            .layer(Extension(editor));
    }
    routes
}

/// Returns the routes of the HTTP API.
pub(crate) fn router(service: Service, offer: ServerOptions) -> Router {
    let ServerOptions {
        access,
        limits,
        site,
        studio: has_studio,
        recorder,
        runner,
        editor,
        further,
    } = offer;
    let ports = StudioPorts {
        recorder,
        runner,
        editor,
    };
    if has_studio {
        service.swarm().model_calls().switch_on();
    }
    let access = Arc::new(access);
    let (guarded, document) = documented_routes(has_studio.then_some(ports)).split_for_parts();
    let description = ApiDescription::new(document, has_studio, &service.inner.version);
    let description = Arc::new(description);
    let limit_body = middleware::from_fn_with_state(limits.body, replace_larger_body);
    let readable = middleware::from_fn_with_state(limits.body, received_body::require_readable);
    let obey = middleware::from_fn_with_state(limits.body, crate::mcp::http_rules::enforce_rules);
    let mcp = Router::new()
        .route_service("/mcp", crate::mcp::endpoint(&service, limits))
        .route_layer(obey)
        .route_layer(middleware::from_fn_with_state(limits.body, refuse_larger));
    let guarded = guarded
        .route_layer(readable)
        .route_layer(limit_body.clone())
        .merge(mcp)
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(&access),
            require_access,
        ));
    let open_routes = Router::new()
        .route("/healthz", axum::routing::get(health::alive))
        .route("/readyz", axum::routing::get(health::ready))
        .route(
            "/openapi.json",
            axum::routing::get(
                move |headers: HeaderMap| async move { description.response(&headers) },
            ),
        );
    let open_routes = if has_studio {
        open_routes.merge(studio::router(&access, limits.head))
    } else {
        open_routes
    };
    let all_routes = open_routes.merge(guarded).nest(
        "/v1",
        openai::router(Arc::clone(&access), limits).layer(limit_body),
    );
    let all_routes = match site {
        Some(folder) => {
            // Resolved once: an agent can replace the directory with a link later.
            let folder = real_path(&folder).unwrap_or(folder);
            all_routes.fallback(move |request: Request| site::file(folder, request))
        }
        None => all_routes.fallback(unknown_path_error),
    };
    all_routes
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(limits.body))
        .layer(Extension(Arc::clone(&access)))
        .layer(middleware::map_response(received_body::disable_buffering))
        .layer(cors_layer(access))
        .with_state(service)
        .merge(
            further
                .unwrap_or_default()
                .layer(DefaultBodyLimit::max(limits.body)),
        )
}

/// Allows pages of the configured origins. Browsers send a preflight request first.
fn cors_layer(access: Arc<AccessPolicy>) -> CorsLayer {
    let is_allowed = move |origin: &HeaderValue, head: &axum::http::request::Parts| {
        origin
            .to_str()
            .is_ok_and(|origin| access.allows_origin(origin, &head.headers, &head.uri))
    };
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        // OpenAI clients send many headers. The origin decides, so all headers are allowed.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(
            ["x-request-id", "x-goondan-instance", "mcp-session-id"].map(HeaderName::from_static),
        )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::openapi_document::complete_document;
    use super::*;

    /// Collects all `$ref` values of the document.
    fn add_references(value: &Value, references: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                let reference = fields.get("$ref").and_then(Value::as_str);
                references.extend(reference.map(str::to_owned));
                let values = fields.values();
                values.for_each(|value| add_references(value, references));
            }
            Value::Array(items) => items.iter().for_each(|it| add_references(it, references)),
            _ => {}
        }
    }

    #[test]
    fn every_ref_in_the_openapi_document_resolves() {
        let (_, document) = documented_routes(Some(StudioPorts::default())).split_for_parts();
        let document = complete_document(document, true, "1.0.0");
        let mut references = BTreeSet::new();
        add_references(&document, &mut references);
        assert!(!references.is_empty());
        references.retain(|reference| {
            let pointer = reference.strip_prefix('#');
            pointer.and_then(|it| document.pointer(it)).is_none()
        });
        assert_eq!(references, BTreeSet::new());
    }
}

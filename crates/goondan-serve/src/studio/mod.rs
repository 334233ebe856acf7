//! Studio: a web page to watch and control the swarm. It uses the same API as any other page.
//!
//! All clients that reach the server under an allowed host name can read the page's files, which
//! contain no data of the swarm. The headers restrict the browser: it loads only these files,
//! connects only to this server, and runs no other scripts.

mod sign_in;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use goondan::spec::Code;

pub use self::sign_in::SignIns;
use crate::api::ErrorResponses;
use crate::auth::{AccessPolicy, bearer_token, guard_place};
use crate::entity_tag::{entity_tag, is_known};
use crate::problem::{ApiProblem, JsonBody};
use crate::service::Service;
use crate::wire::{CodeBody, SessionBody, StudioFeaturesBody};

/// Path of the page.
pub const STUDIO_PATH: &str = "/studio/";

/// Largest body with a sign-in code, in bytes.
const MAX_CODE_BODY_BYTES: usize = 1_024;

/// Security headers that restrict the page.
const SECURITY_HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; object-src 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! page {
    ($($media:ident $name:literal,)*) => {
        /// All files of the page: name, media type and content.
        const FILES: &[(&str, &str, &str)] = &[$(($name, $media, include_str!(concat!("page/", $name)))),*];
    };
}

page! {
    HTML "index.html",
    CSS "style.css",
    CSS "views.css",
    SVG "icon.svg",
    SCRIPT "alignment.js",
    SCRIPT "app.js",
    SCRIPT "api.js",
    SCRIPT "attachments.js",
    SCRIPT "call.js",
    SCRIPT "composer.js",
    SCRIPT "conversation-actions.js",
    SCRIPT "conversation-list.js",
    SCRIPT "dialog.js",
    SCRIPT "diff.js",
    SCRIPT "dom.js",
    SCRIPT "edges.js",
    SCRIPT "export.js",
    SCRIPT "facts.js",
    SCRIPT "feed.js",
    SCRIPT "file-editor.js",
    SCRIPT "format.js",
    SCRIPT "graph.js",
    SCRIPT "history.js",
    SCRIPT "input-words.js",
    SCRIPT "keyed.js",
    SCRIPT "markdown.js",
    SCRIPT "menu.js",
    SCRIPT "message.js",
    SCRIPT "model-call.js",
    SCRIPT "parts.js",
    SCRIPT "question.js",
    SCRIPT "reasoning.js",
    SCRIPT "record.js",
    SCRIPT "requests.js",
    SCRIPT "save-dialog.js",
    SCRIPT "server-events.js",
    SCRIPT "shown.js",
    SCRIPT "spans.js",
    SCRIPT "state.js",
    SCRIPT "theme.js",
    SCRIPT "turn.js",
    SCRIPT "uncertain.js",
    SCRIPT "waiting-inputs.js",
    SCRIPT "views/approvals.js",
    SCRIPT "views/cases.js",
    SCRIPT "views/compare.js",
    SCRIPT "views/conversations.js",
    SCRIPT "views/events.js",
    SCRIPT "views/files.js",
    SCRIPT "views/problems.js",
    SCRIPT "views/reloads.js",
    SCRIPT "views/swarm.js",
    SCRIPT "views/traces.js",
}

/// Entity tags of the files, in the order of `FILES`.
static FILE_ETAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tags = FILES.iter().map(|(_, _, text)| entity_tag(text.as_bytes()));
    tags.collect()
});

#[derive(utoipa::OpenApi)]
#[openapi(paths(begin))]
pub(crate) struct StudioDocument;

/// Returns the routes of the page and of the sign-in, which need no token.
pub(crate) fn router(access: &Arc<AccessPolicy>, patience: Duration) -> Router<Service> {
    // Sign-in requests are anonymous, so their size and time are limited to the needs of a code.
    let begin = post(begin)
        .layer(DefaultBodyLimit::max(MAX_CODE_BODY_BYTES))
        .layer(from_fn_with_state(patience, in_time));
    Router::new()
        .route("/api/studio/sessions", begin)
        .route(
            "/studio",
            get(async || (StatusCode::PERMANENT_REDIRECT, [(LOCATION, STUDIO_PATH)])),
        )
        .route(
            STUDIO_PATH,
            get(async |headers: HeaderMap| file(&headers, "index.html")),
        )
        .route(
            "/studio/{*name}",
            get(async |Path(name): Path<String>, headers: HeaderMap| file(&headers, &name)),
        )
        .route_layer(from_fn_with_state(Arc::clone(access), guard_place))
}

/// Limits the request time. A body that never ends would otherwise occupy one of the connections.
async fn in_time(State(patience): State<Duration>, request: Request, next: Next) -> Response {
    let late =
        || ApiProblem::new(Code::SERVE_REQUEST, "The request body took too long.").into_response();
    tokio::time::timeout(patience, next.run(request))
        .await
        .unwrap_or_else(|_| late())
}

/// Returns a file of the studio, or 304 if the client has it.
fn file(headers: &HeaderMap, name: &str) -> Response {
    let Some(place) = FILES.iter().position(|(known, ..)| *known == name) else {
        return ApiProblem::new(
            Code::SERVE_NOT_FOUND,
            "The studio has no file with this name.",
        )
        .into_response();
    };
    let ((_, media, text), tag) = (FILES[place], &FILE_ETAGS[place]);
    let mut response = match is_known(headers, tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(CONTENT_TYPE, media)], text).into_response(),
    };
    let cached = [
        (ETAG.as_str(), tag.as_str()),
        (CACHE_CONTROL.as_str(), "no-cache"),
    ];
    for (name, value) in SECURITY_HEADERS.into_iter().chain(cached) {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Create a one-time code for a browser to sign in to the studio.
#[utoipa::path(post, path = "/api/studio/codes", responses((status = 201, body = CodeBody), ErrorResponses))]
pub(crate) async fn code(
    Extension(access): Extension<Arc<AccessPolicy>>,
) -> (StatusCode, Json<CodeBody>) {
    (
        StatusCode::CREATED,
        Json(CodeBody {
            code: access.sign_ins.code().expose().to_owned(),
            path: STUDIO_PATH.to_owned(),
        }),
    )
}

/// Return the features of the studio that this server offers.
#[utoipa::path(
    get,
    path = "/api/studio/features",
    responses((status = 200, body = StudioFeaturesBody), ErrorResponses),
)]
pub(crate) async fn features(
    Extension(features): Extension<StudioFeaturesBody>,
) -> Json<StudioFeaturesBody> {
    Json(features)
}

/// Start a studio session with a code. This request needs no token.
#[utoipa::path(
    post,
    path = "/api/studio/sessions",
    request_body = CodeBody,
    security(()),
    responses((status = 201, body = SessionBody), ErrorResponses),
)]
pub(crate) async fn begin(
    Extension(access): Extension<Arc<AccessPolicy>>,
    JsonBody(body): JsonBody<CodeBody>,
) -> Result<(StatusCode, Json<SessionBody>), ApiProblem> {
    let session = access.sign_ins.begin(&body.code).ok_or_else(|| {
        ApiProblem::new(
            Code::SERVE_TOKEN,
            "The sign-in code was already used or has expired.",
        )
        .suggest("Run `gdn studio` again to get a new code.")
    })?;
    Ok((
        StatusCode::CREATED,
        Json(SessionBody {
            token: session.expose().to_owned(),
        }),
    ))
}

/// End the studio session whose token the request carries.
#[utoipa::path(
    delete,
    path = "/api/studio/session",
    responses((status = 204, description = "The session token is no longer \
        valid."), ErrorResponses),
)]
pub(crate) async fn end(
    Extension(access): Extension<Arc<AccessPolicy>>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiProblem> {
    match bearer_token(&headers).is_some_and(|token| access.sign_ins.end(token)) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiProblem::new(
            Code::SERVE_CLOSED,
            "The request has no studio session token.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn names(directory: &Path, prefix: &str) -> Vec<String> {
        let entries = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap());
        let names_below = entries.flat_map(|entry| {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                names(&entry.path(), &format!("{name}/"))
            } else {
                vec![name]
            }
        });
        names_below.collect()
    }

    #[test]
    fn every_page_file_is_served() {
        let mut existing = names(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/studio/page"),
            "",
        );
        let mut served: Vec<&str> = FILES.iter().map(|(name, ..)| *name).collect();
        existing.sort();
        served.sort();
        assert_eq!(served, existing);
    }

    /// Model and tool output is treated as plain text, and the page connects to no other host.
    #[test]
    fn page_files_use_no_html_injection_and_no_other_host() {
        for (name, _, text) in FILES {
            for forbidden in [
                "innerHTML",
                "outerHTML =",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
                "https://",
                "javascript:",
                " onclick=",
                " style=",
            ] {
                assert!(!text.contains(forbidden), "{name} contains {forbidden}");
            }
            let other_hosts = text.matches("http://").count()
                - text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(
                other_hosts, 0,
                "{name} contains the address of another host"
            );
        }
    }

    /// Without this, the browser would discover the scripts one import after the other.
    #[test]
    fn the_page_preloads_all_scripts() {
        let page = include_str!("page/index.html");
        let scripts = FILES.iter().filter(|(_, media, _)| *media == SCRIPT);
        for (name, ..) in scripts {
            let link = format!("<link rel=\"modulepreload\" href=\"{name}\">");
            assert!(page.contains(&link), "{name}");
        }
    }

    #[test]
    fn page_files_have_at_most_500_lines() {
        for (name, _, text) in FILES {
            assert!(text.lines().count() <= 500, "{name}");
        }
    }
}

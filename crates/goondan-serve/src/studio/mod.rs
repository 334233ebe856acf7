//! A page in the browser where a person sees and steers the swarm. It uses the API as any other page would.
//!
//! The page is files that everybody may read who reaches the server under one of its names: they hold nothing of the swarm. The
//! headers let the browser load nothing but these files, ask nobody but this server, and run no script that is not one of them.

mod sign_in;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use goondan::spec::Code;
use sha2::{Digest, Sha256};

pub use self::sign_in::SignIns;
use crate::api::Problems;
use crate::guard::{Access, bearer, guard_place};
use crate::problem::{Body, Problem};
use crate::service::Service;
use crate::wire::{CodeBody, SessionBody};

/// Where the page is.
pub const PATH: &str = "/studio/";

/// The largest body with a code, in bytes.
const CODE_BODY: usize = 1_024;

/// What the browser may do with the page.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; \
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
        /// Every file of the page: its name, its media type and its text.
        const FILES: &[(&str, &str, &str)] = &[$(($name, $media, include_str!(concat!("page/", $name)))),*];
    };
}

page! {
    HTML "index.html",
    CSS "style.css",
    CSS "views.css",
    SVG "icon.svg",
    SCRIPT "app.js",
    SCRIPT "api.js",
    SCRIPT "dom.js",
    SCRIPT "export.js",
    SCRIPT "feed.js",
    SCRIPT "format.js",
    SCRIPT "message.js",
    SCRIPT "parts.js",
    SCRIPT "record.js",
    SCRIPT "shown.js",
    SCRIPT "spans.js",
    SCRIPT "state.js",
    SCRIPT "uncertain.js",
    SCRIPT "views/approvals.js",
    SCRIPT "views/conversations.js",
    SCRIPT "views/events.js",
    SCRIPT "views/problems.js",
    SCRIPT "views/reloads.js",
    SCRIPT "views/swarm.js",
    SCRIPT "views/traces.js",
}

/// The tags of the files, in their order.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |text: &str| {
        format!(
            "\"{}\"",
            Sha256::digest(text)
                .iter()
                .take(12)
                .map(|b| format!("{b:02x}"))
                .collect::<String>()
        )
    };
    FILES.iter().map(|(_, _, text)| tag(text)).collect()
});

/// What `/openapi.json` says of what needs no token.
#[derive(utoipa::OpenApi)]
#[openapi(paths(begin))]
pub(crate) struct Described;

/// The page, and the way into it: neither needs the token.
pub(crate) fn router(access: &Arc<Access>, patience: Duration) -> Router<Service> {
    // Nobody knows who sends a code: that takes no more room or time than a code needs.
    let begin = post(begin)
        .layer(DefaultBodyLimit::max(CODE_BODY))
        .layer(from_fn_with_state(patience, in_time));
    Router::new()
        .route("/api/studio/sessions", begin)
        .route(
            "/studio",
            get(async || (StatusCode::PERMANENT_REDIRECT, [(LOCATION, PATH)])),
        )
        .route(
            PATH,
            get(async |headers: HeaderMap| file(&headers, "index.html")),
        )
        .route(
            "/studio/{*name}",
            get(async |Path(name): Path<String>, headers: HeaderMap| file(&headers, &name)),
        )
        .route_layer(from_fn_with_state(Arc::clone(access), guard_place))
}

/// Waits no longer than that: a body that never ends would keep one of the connections that there may be.
async fn in_time(State(patience): State<Duration>, request: Request, next: Next) -> Response {
    let late = || Problem::new(Code::SERVE_REQUEST, "The body took too long.").into_response();
    tokio::time::timeout(patience, next.run(request))
        .await
        .unwrap_or_else(|_| late())
}

fn file(headers: &HeaderMap, name: &str) -> Response {
    let Some(place) = FILES.iter().position(|(known, ..)| *known == name) else {
        return Problem::new(Code::SERVE_NOT_FOUND, "The page has no such file.").into_response();
    };
    let ((_, media, text), tag) = (FILES[place], &TAGS[place]);
    let mut response = match headers
        .get(IF_NONE_MATCH)
        .is_some_and(|known| known == tag.as_str())
    {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(CONTENT_TYPE, media)], text).into_response(),
    };
    let cached = [
        (ETAG.as_str(), tag.as_str()),
        (CACHE_CONTROL.as_str(), "no-cache"),
    ];
    for (name, value) in HEADERS.into_iter().chain(cached) {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Makes a code with which a browser signs in to the studio, once.
#[utoipa::path(post, path = "/api/studio/codes", responses((status = 201, body = CodeBody), Problems))]
pub(crate) async fn code(
    Extension(access): Extension<Arc<Access>>,
) -> (StatusCode, Json<CodeBody>) {
    (
        StatusCode::CREATED,
        Json(CodeBody {
            code: access.sign_ins.code().expose().to_owned(),
            path: PATH.to_owned(),
        }),
    )
}

/// Begins a session of the studio with a code; this request needs no token.
#[utoipa::path(
    post,
    path = "/api/studio/sessions",
    request_body = CodeBody,
    security(()),
    responses((status = 201, body = SessionBody), Problems),
)]
pub(crate) async fn begin(
    Extension(access): Extension<Arc<Access>>,
    Body(body): Body<CodeBody>,
) -> Result<(StatusCode, Json<SessionBody>), Problem> {
    let session = access.sign_ins.begin(&body.code).ok_or_else(|| {
        Problem::new(
            Code::SERVE_TOKEN,
            "The code was used before, or its time is over.",
        )
        .suggest("Run `gdn studio` again: it prints another one.")
    })?;
    Ok((
        StatusCode::CREATED,
        Json(SessionBody {
            token: session.expose().to_owned(),
        }),
    ))
}

/// Ends the session of the studio whose token the request carries.
#[utoipa::path(
    delete,
    path = "/api/studio/session",
    responses((status = 204, description = "The token is worth nothing any more."), Problems),
)]
pub(crate) async fn end(
    Extension(access): Extension<Arc<Access>>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    match bearer(&headers).is_some_and(|token| access.sign_ins.end(token)) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::new(
            Code::SERVE_CLOSED,
            "The request carries no token of a session.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn names(folder: &Path, before: &str) -> Vec<String> {
        let entries = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap());
        let below = entries.flat_map(|entry| {
            let name = format!("{before}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                names(&entry.path(), &format!("{name}/"))
            } else {
                vec![name]
            }
        });
        below.collect()
    }

    #[test]
    fn every_file_of_the_page_is_delivered() {
        let mut there = names(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/studio/page"),
            "",
        );
        let mut delivered: Vec<&str> = FILES.iter().map(|(name, ..)| *name).collect();
        there.sort();
        delivered.sort();
        assert_eq!(delivered, there);
    }

    /// What models and tools wrote is text wherever it stands; the browser makes nothing else of it, and asks nobody else.
    #[test]
    fn the_page_makes_no_markup_of_text_and_names_no_other_host() {
        for (name, _, text) in FILES {
            for wrong in [
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
                assert!(!text.contains(wrong), "{name} holds {wrong}");
            }
            let others = text.matches("http://").count()
                - text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(others, 0, "{name} names another host");
        }
    }

    #[test]
    fn files_stay_short() {
        for (name, _, text) in FILES {
            assert!(text.lines().count() <= 500, "{name}");
        }
    }
}

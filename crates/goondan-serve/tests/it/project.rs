//! Routes for test cases and project files, which exist only if their port is set.

use std::future::ready;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::spec::{Code, Diagnostic};
use goondan_serve::wire::{
    CaseOutcomeBody, CaseResultBody, CaseTotalsBody, CasesBody, CheckedFileBody, EditedFileBody,
    ProjectFilesBody, ProjectTextBody, SavedFileBody, StudioFeaturesBody,
};
use goondan_serve::{CaseRunner, ProjectEditor, ServerLimits, ServerOptions};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::support::{PROJECT, TestServer};

/// Runner that passes each named test case and rejects a run of all test cases.
#[derive(Debug)]
pub(crate) struct PassingCaseRunner;

impl CaseRunner for PassingCaseRunner {
    fn list(&self) -> BoxFuture<'_, Result<CasesBody, Diagnostic>> {
        ready(Ok(CasesBody::default())).boxed()
    }

    fn run(
        &self,
        names: Vec<String>,
        results: UnboundedSender<CaseResultBody>,
    ) -> BoxFuture<'_, Result<CaseTotalsBody, Diagnostic>> {
        let passed = names.len();
        for name in names {
            let result = CaseResultBody {
                name,
                outcome: CaseOutcomeBody::Passed,
                duration_ms: 1,
                reason: None,
                failures: Vec::new(),
            };
            results.send(result).unwrap();
        }
        let end = match passed {
            0 => Err(Diagnostic::new(
                Code::PROJECT_UNTRUSTED,
                "The project is not trusted.",
            )),
            passed => Ok(CaseTotalsBody {
                passed,
                ..CaseTotalsBody::default()
            }),
        };
        ready(end).boxed()
    }
}

/// Editor with one file, whose hash is `h`.
#[derive(Debug)]
pub(crate) struct SingleFileEditor;

impl ProjectEditor for SingleFileEditor {
    fn list(&self) -> BoxFuture<'_, Result<ProjectFilesBody, Diagnostic>> {
        ready(Ok(ProjectFilesBody::default())).boxed()
    }

    fn read(&self, path: String) -> BoxFuture<'_, Result<ProjectTextBody, Diagnostic>> {
        let (text, hash) = ("text".to_owned(), "h".to_owned());
        ready(Ok(ProjectTextBody { path, text, hash })).boxed()
    }

    fn check(&self, edit: EditedFileBody) -> BoxFuture<'_, Result<CheckedFileBody, Diagnostic>> {
        let checked = CheckedFileBody {
            diff: edit.text,
            ..CheckedFileBody::default()
        };
        ready(Ok(checked)).boxed()
    }

    fn save(&self, edit: EditedFileBody) -> BoxFuture<'_, Result<SavedFileBody, Diagnostic>> {
        let saved = match edit.hash.as_str() {
            "h" => Ok(SavedFileBody {
                hash: "i".to_owned(),
            }),
            _ => Err(Diagnostic::new(Code::SERVE_FILE_CHANGED, "It has changed.")),
        };
        ready(saved).boxed()
    }
}

async fn start(
    state: &std::path::Path,
    configure: impl FnOnce(ServerOptions) -> ServerOptions,
) -> TestServer {
    let studio = |options: ServerOptions| ServerOptions {
        studio: true,
        ..configure(options)
    };
    let limits = ServerLimits::default();
    TestServer::start_with_options(state, limits, PROJECT, |builder| builder, studio).await
}

/// Sends a request with the header lines, and returns the whole response.
async fn request(server: &TestServer, line: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}Connection: close\r\n\r\n{body}"
    );
    server.raw(request.as_bytes()).await
}

fn authorization(server: &TestServer) -> String {
    format!(
        "Authorization: Bearer {}\r\n",
        server.endpoint.token.expose()
    )
}

const SAVE: &str = "PUT /api/project/file";
const RUN: &str = "POST /api/cases/run";
const EDIT: &str = r#"{"path": "goondan.yaml", "text": "x", "hash": "h"}"#;

#[tokio::test]
async fn editor_and_case_routes_are_missing_without_their_ports() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path(), |options| options).await;
    let token = authorization(&server);
    for (line, body) in [
        ("GET /api/project/files", ""),
        ("GET /api/project/file?path=goondan.yaml", ""),
        (SAVE, EDIT),
        ("POST /api/project/check", EDIT),
        ("GET /api/cases", ""),
        (RUN, "{}"),
    ] {
        let response = request(&server, line, &token, body).await;
        assert!(response.starts_with("HTTP/1.1 404"), "{line}: {response}");
    }
    let path = "/api/studio/features";
    let features: StudioFeaturesBody = server.client.get(path).await.unwrap();
    let (cases, edit) = (false, false);
    assert_eq!(features, StudioFeaturesBody { cases, edit });
    let document: Value = server.client.get("/openapi.json").await.unwrap();
    assert!(document["paths"].get("/api/project/file").is_none());
}

#[tokio::test]
async fn saving_a_file_requires_token_origin_and_hash() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path(), |options| ServerOptions {
        editor: Some(Arc::new(SingleFileEditor)),
        ..options
    })
    .await;
    let token = authorization(&server);
    let stale = EDIT.replace(r#""h""#, r#""old""#);
    let foreign = format!("{token}Origin: http://evil.example\r\n");
    for (headers, body, status) in [
        (token.as_str(), EDIT, "200"),
        ("", EDIT, "401"),
        (&foreign, EDIT, "403"),
        (&token, &stale, "412"),
        (&token, r#"{"path": "goondan.yaml", "text": "x"}"#, "400"),
    ] {
        let response = request(&server, SAVE, headers, body).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(response.starts_with(&expected), "{status}: {response}");
    }
    // CORS does not allow PUT, so pages of other origins cannot save files, even allowed origins.
    let preflight = format!("{foreign}Access-Control-Request-Method: PUT\r\n");
    let response = request(&server, "OPTIONS /api/project/file", &preflight, "").await;
    let allowed = "access-control-allow-methods: GET,POST,DELETE\r\n";
    assert!(response.contains(allowed), "{response}");
}

#[tokio::test]
async fn test_case_results_arrive_as_events() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path(), |options| ServerOptions {
        runner: Some(Arc::new(PassingCaseRunner)),
        ..options
    })
    .await;
    let token = authorization(&server);
    let response = request(&server, RUN, &token, r#"{"cases": ["a", "b"]}"#).await;
    assert!(response.contains("text/event-stream"), "{response}");
    for part in [
        r#"event: case"#,
        r#""name":"a","outcome":"passed","durationMs":1"#,
        r#""name":"b""#,
        r#"event: done"#,
        r#"{"passed":2,"failed":0,"skipped":0}"#,
    ] {
        assert!(response.contains(part), "{part}: {response}");
    }
    let refused = request(&server, RUN, &token, "{}").await;
    assert!(refused.contains("event: error"), "{refused}");
    assert!(refused.contains("The project is not trusted."), "{refused}");
    let without_token = request(&server, RUN, "", "{}").await;
    assert!(without_token.starts_with("HTTP/1.1 401"), "{without_token}");
}

//! A mock platform that records every request and answers with a closure of the test.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// Recorded request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    /// JSON body; `null` if the body is not JSON.
    pub(crate) body: Value,
    /// Raw body; empty if the body is JSON.
    pub(crate) form: String,
}

type Answer = Box<dyn Fn(&Call) -> Option<Response> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct MockPlatform {
    pub(crate) base: String,
    inner: Arc<Inner>,
}

struct Inner {
    calls: Mutex<Vec<Call>>,
    called: Notify,
    answer: Answer,
}

impl MockPlatform {
    /// Starts the server. A call for which `answer` returns `None` never ends, like a long poll.
    pub(crate) async fn start(
        answer: impl Fn(&Call) -> Option<Response> + Send + Sync + 'static,
    ) -> MockPlatform {
        let inner = Arc::new(Inner {
            calls: Mutex::default(),
            called: Notify::new(),
            answer: Box::new(answer),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .fallback(record_call)
            .with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await });
        MockPlatform { base, inner }
    }

    /// Returns the bodies of all calls so far whose path ends with `end`.
    pub(crate) fn calls(&self, end: &str) -> Vec<Value> {
        let calls = self.inner.calls.lock().unwrap();
        calls
            .iter()
            .filter(|call| call.path.ends_with(end))
            .map(|call| call.body.clone())
            .collect()
    }

    /// Returns the multipart forms of all calls so far whose path ends with `end`, as names and
    /// contents of their parts.
    pub(crate) fn forms(&self, end: &str) -> Vec<Vec<(String, String)>> {
        let calls = self.inner.calls.lock().unwrap();
        calls
            .iter()
            .filter(|call| call.path.ends_with(end))
            .map(|call| parts(&call.form))
            .collect()
    }

    /// Waits until `count` calls have a path that ends with `end`. Returns their bodies.
    pub(crate) async fn wait_for_calls(&self, end: &str, count: usize) -> Vec<Value> {
        self.wait_until(end, |calls| calls.len() >= count).await
    }

    /// Waits until the calls whose path ends with `end` fulfill a condition. Returns their bodies.
    pub(crate) async fn wait_until(
        &self,
        end: &str,
        condition: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        crate::support::with_timeout(async {
            loop {
                let called = self.inner.called.notified();
                let calls = self.calls(end);
                if condition(&calls) {
                    return calls;
                }
                called.await;
            }
        })
        .await
    }
}

async fn record_call(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let bytes: Bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let (body, form) = match serde_json::from_slice(&bytes) {
        Ok(body) => (body, String::new()),
        Err(_) => (Value::Null, String::from_utf8_lossy(&bytes).into_owned()),
    };
    let call = Call { path, body, form };
    let answer = (inner.answer)(&call);
    inner.calls.lock().unwrap().push(call);
    inner.called.notify_waiters();
    match answer {
        Some(answer) => answer,
        None => std::future::pending().await,
    }
}

pub(crate) fn json(status: u16, body: Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}

pub(crate) fn ok_response() -> Response {
    json(200, json!({"ok": true, "result": {}}))
}

fn parts(form: &str) -> Vec<(String, String)> {
    let boundary = form.lines().next().unwrap_or_default();
    let part = |part: &str| {
        let (head, content) = part.split_once("\r\n\r\n")?;
        let name = head.split("name=\"").nth(1)?.split('"').next()?;
        Some((name.to_owned(), content.trim_end_matches("\r\n").to_owned()))
    };
    form.split(boundary).filter_map(part).collect()
}

//! A server that stands in for a platform: it notes every request, and answers as a test says.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    /// `null` where it is no JSON.
    pub(crate) body: Value,
    /// As it came, where it is no JSON.
    pub(crate) form: String,
}

type Answer = Box<dyn Fn(&Call) -> Option<Response> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Platform {
    pub(crate) base: String,
    inner: Arc<Inner>,
}

struct Inner {
    calls: Mutex<Vec<Call>>,
    called: Notify,
    answer: Answer,
}

impl Platform {
    /// Calls that `answer` has nothing to say to go on forever, as a long poll does.
    pub(crate) async fn start(
        answer: impl Fn(&Call) -> Option<Response> + Send + Sync + 'static,
    ) -> Platform {
        let inner = Arc::new(Inner {
            calls: Mutex::default(),
            called: Notify::new(),
            answer: Box::new(answer),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(take).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Platform { base, inner }
    }

    /// The bodies of all calls so far whose path ends so.
    pub(crate) fn calls(&self, end: &str) -> Vec<Value> {
        let calls = self.inner.calls.lock().unwrap();
        calls
            .iter()
            .filter(|call| call.path.ends_with(end))
            .map(|call| call.body.clone())
            .collect()
    }

    /// The forms of all calls so far whose path ends so: the names of their parts with what they hold.
    pub(crate) fn forms(&self, end: &str) -> Vec<Vec<(String, String)>> {
        let calls = self.inner.calls.lock().unwrap();
        calls
            .iter()
            .filter(|call| call.path.ends_with(end))
            .map(|call| parts(&call.form))
            .collect()
    }

    /// Waits until there are so many of them.
    pub(crate) async fn wait(&self, end: &str, count: usize) -> Vec<Value> {
        self.until(end, |calls| calls.len() >= count).await
    }

    /// Waits until they are such.
    pub(crate) async fn until(&self, end: &str, are: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        crate::support::within(async {
            loop {
                let called = self.inner.called.notified();
                let calls = self.calls(end);
                if are(&calls) {
                    return calls;
                }
                called.await;
            }
        })
        .await
    }
}

async fn take(State(inner): State<Arc<Inner>>, request: Request) -> Response {
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

pub(crate) fn fine() -> Response {
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

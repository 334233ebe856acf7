//! Handles requests and notifications of a server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability, Implementation,
    InputRequest, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use tokio::sync::Notify;

use goondan_core::JsonObject;
use goondan_core::ports::tool::ProgressSink;
use goondan_spec::kinds::ElicitationMode;
use goondan_spec::untrusted_text;

/// Minimum interval between forwarded progress updates.
const MIN_PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of characters in a progress message.
const MAX_MESSAGE_CHARS: usize = 200;

/// The client side of a connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct McpClientHandler(Arc<ClientHandlerState>);

struct ClientHandlerState {
    elicitation: ElicitationMode,
    listeners: Mutex<HashMap<ProgressToken, ProgressListener>>,
    list_changed: Notify,
    /// Number of reports of changed tools. The start of the connection counts as the first report.
    reports: AtomicU64,
    /// Value of `reports` at the last request of the list that was answered.
    read_reports: AtomicU64,
}

/// Receiver of a request's progress.
struct ProgressListener {
    sink: Arc<dyn ProgressSink>,
    /// Time of the last forwarded update.
    last_forwarded: Option<Instant>,
}

/// Forwards the progress of a request until it is dropped.
pub(crate) struct ProgressSubscription {
    handler: McpClientHandler,
    token: ProgressToken,
}

impl Drop for ProgressSubscription {
    fn drop(&mut self) {
        self.handler.listeners().remove(&self.token);
    }
}

impl McpClientHandler {
    /// Creates the handler of a connection.
    pub(crate) fn new(elicitation: ElicitationMode) -> Self {
        McpClientHandler(Arc::new(ClientHandlerState {
            elicitation,
            listeners: Mutex::default(),
            list_changed: Notify::new(),
            reports: AtomicU64::new(1),
            read_reports: AtomicU64::new(0),
        }))
    }

    /// Locks the listeners.
    fn listeners(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, ProgressListener>> {
        self.0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Forwards progress updates with `token` to `sink`, until the returned subscription is
    /// dropped. The request of which the server reports the progress contains the same token.
    pub(crate) fn subscribe_to_progress(
        &self,
        token: ProgressToken,
        sink: Arc<dyn ProgressSink>,
    ) -> ProgressSubscription {
        self.listeners().insert(
            token.clone(),
            ProgressListener {
                sink,
                last_forwarded: None,
            },
        );
        ProgressSubscription {
            handler: self.clone(),
            token,
        }
    }

    /// Waits until the server reports that its tools have changed.
    pub(crate) async fn list_changed(&self) {
        self.0.list_changed.notified().await;
    }

    /// Records that the server reports changed tools. Must precede all later messages of the server:
    /// a call after such a message waits for the new list.
    pub(crate) fn record_tool_change(&self) {
        self.0.reports.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of reports that a list of tools covers if it is requested now.
    pub(crate) fn reports(&self) -> u64 {
        self.0.reports.load(Ordering::SeqCst)
    }

    /// Records that the server has sent a list of tools, which was requested at `reports`.
    pub(crate) fn record_read_list(&self, reports: u64) {
        self.0.read_reports.fetch_max(reports, Ordering::SeqCst);
    }

    /// Returns true if the tools may differ from the last list that the server has sent.
    pub(crate) fn has_unread_tools(&self) -> bool {
        self.0.read_reports.load(Ordering::SeqCst) < self.reports()
    }

    /// Answers a server's request for input; `None` if no answer is possible.
    pub(crate) fn answer(&self, request: InputRequest) -> Option<Value> {
        match (request, self.0.elicitation) {
            (InputRequest::Elicitation(request), ElicitationMode::Defaults) => {
                serde_json::to_value(filled_in(&request.params)).ok()
            }
            _ => None,
        }
    }

    /// Forwards a progress update, unless the previous one was too recent.
    fn forward_progress(&self, update: ProgressNotificationParam) {
        let sink = {
            let mut listeners = self.listeners();
            let Some(listener) = listeners.get_mut(&update.progress_token) else {
                return;
            };
            if listener
                .last_forwarded
                .is_some_and(|last_forwarded| last_forwarded.elapsed() < MIN_PROGRESS_INTERVAL)
            {
                return;
            }
            listener.last_forwarded = Some(Instant::now());
            Arc::clone(&listener.sink)
        };
        let message: String = update
            .message
            .unwrap_or_default()
            .chars()
            .take(MAX_MESSAGE_CHARS)
            .collect();
        let mut metadata = JsonObject::from_iter([("progress".to_owned(), json!(update.progress))]);
        metadata.extend(update.total.map(|total| ("total".to_owned(), json!(total))));
        sink.update(&untrusted_text::line(message).to_string(), metadata);
    }
}

/// Fills a form with its default values. Declines the form if a field has no default value.
fn filled_in(form: &ElicitRequestParams) -> ElicitResult {
    let declined = || ElicitResult::new(ElicitationAction::Decline);
    let ElicitRequestParams::FormElicitationParams {
        requested_schema, ..
    } = form
    else {
        return declined();
    };
    let Ok(schema) = serde_json::to_value(requested_schema) else {
        return declined();
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let defaults: JsonObject = properties
        .into_iter()
        .flatten()
        .filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())))
        .collect();
    let required = schema.get("required").and_then(Value::as_array);
    let is_present = |name: &Value| {
        name.as_str()
            .is_some_and(|name| defaults.contains_key(name))
    };
    if !required.into_iter().flatten().all(is_present) {
        return declined();
    }
    ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(defaults))
}

impl ClientHandler for McpClientHandler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.0.elicitation == ElicitationMode::Defaults {
            let form = FormElicitationCapability::new();
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        }
        ClientConfig::new(
            capabilities,
            Implementation::new("goondan", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(match self.0.elicitation {
            ElicitationMode::Defaults => filled_in(&request),
            ElicitationMode::None => ElicitResult::new(ElicitationAction::Decline),
        })
    }

    #[expect(deprecated, reason = "servers still send the request")]
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "roots were not declared",
            None,
        ))
    }

    async fn on_progress(
        &self,
        update: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.forward_progress(update);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.list_changed.notify_one();
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.list_changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::NumberOrString;

    #[derive(Default)]
    struct RecordedTitles(Mutex<Vec<String>>);

    impl ProgressSink for RecordedTitles {
        fn update(&self, title: &str, _metadata: JsonObject) {
            self.0.lock().expect("not poisoned").push(title.to_owned());
        }
    }

    #[test]
    fn progress_updates_are_rate_limited_and_shortened() {
        let (handler, titles) = (
            McpClientHandler::new(ElicitationMode::None),
            Arc::<RecordedTitles>::default(),
        );
        let token = ProgressToken(NumberOrString::Number(1));
        let _subscription = handler
            .subscribe_to_progress(token.clone(), Arc::clone(&titles) as Arc<dyn ProgressSink>);
        let start = Instant::now();
        for step in 0..10_000 {
            let mut progress = ProgressNotificationParam::new(token.clone(), f64::from(step));
            progress.message = Some("still\u{202e} here".repeat(100));
            handler.forward_progress(progress);
        }
        let max_updates = start.elapsed().as_millis() / MIN_PROGRESS_INTERVAL.as_millis() + 1;
        let titles = titles.0.lock().expect("not poisoned");
        assert!(
            (1..=max_updates).contains(&(titles.len() as u128)),
            "{} of at most {max_updates}",
            titles.len()
        );
        assert!(
            titles.iter().all(
                |title| title.starts_with("still\\u{202e} here") && title.chars().count() < 400
            )
        );
    }
}

//! Events of the runtime.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use goondan_abi::sdk::{ExtensionApi, LayerKind};
use serde_json::Value;

/// What was heard, for whoever waits for more.
#[derive(Default)]
struct Heard {
    events: Mutex<Vec<String>>,
    more: Condvar,
}

/// The names that are listened to, with the field that is noted of each.
const NAMES: [(&str, &str); 8] = [
    ("turn.started", ""),
    ("turn.completed", "stepCount"),
    ("turn.failed", ""),
    ("step.started", ""),
    ("step.completed", "toolCallCount"),
    ("step.failed", ""),
    ("tool.called", "toolName"),
    ("tool.failed", ""),
];

/// Tells what it has heard, up to the beginning of the turn that asks for it.
pub(crate) fn hears(api: &mut ExtensionApi) {
    let (heard, events) = (Arc::<Heard>::default(), api.events());
    let whose = (api.agent_name().to_owned(), api.instance_key().to_owned());
    events.on("turn.started", |_| panic!("I fail"));
    for (name, detail) in NAMES {
        let (heard, whose) = (Arc::clone(&heard), whose.clone());
        events.on(name, move |event| heard.note(event, detail, &whose));
    }
    let (noted, listening) = (Arc::clone(&heard), events.clone());
    api.layer(LayerKind::ToolCall, move |ctx| {
        let (heard, whose) = (Arc::clone(&noted), whose.clone());
        // It ends after this layer, so the subscription stays.
        listening.on("tool.completed", move |event| {
            heard.note(event, "status", &whose)
        });
        ctx.next()
    });
    api.layer(LayerKind::Turn, move |ctx| {
        if ctx.input() == "what?" {
            ctx.append("system", heard.until_the_second_turn())?;
        }
        ctx.next()
    });
}

impl Heard {
    fn note(&self, event: &Value, detail: &str, (agent, key): &(String, String)) {
        let is_text = |field: &&str| event[*field].is_string();
        assert!(
            ["timestamp", "traceId", "spanId", "turnId"]
                .iter()
                .all(is_text),
            "{event}"
        );
        assert!(
            event["agentName"] == **agent
                && event["instanceKey"] == **key
                && event["sequence"].is_null(),
            "{event}"
        );
        let (name, value) = (event["type"].as_str().unwrap_or_default(), &event[detail]);
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let noted = if detail.is_empty() {
            name.to_owned()
        } else {
            format!("{name}={value}")
        };
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(noted);
        self.more.notify_all();
    }

    /// Listeners are told by a thread of their own.
    fn until_the_second_turn(&self) -> String {
        let is_early = |events: &mut Vec<String>| {
            events
                .iter()
                .filter(|event| *event == "turn.started")
                .count()
                < 2
        };
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .more
            .wait_timeout_while(events, Duration::from_millis(1_500), is_early);
        waited.unwrap_or_else(PoisonError::into_inner).0.join(" ")
    }
}

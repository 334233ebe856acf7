//! Servers that refuse what real providers refuse.

use std::sync::{Arc, Mutex};

use goondan_core::ports::model::ModelClient;
use serde_json::{Value, json};

use crate::common::{model, open};
use crate::mock::{Asked, Canned, Mock};

/// A provider that requires its own opaque data in every request.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) provider: &'static str,
    pub(super) model: &'static str,
    /// Path of the base URL.
    pub(super) path: &'static str,
    /// Owner of the opaque data. Providers with one owner exchange it.
    pub(super) owner: &'static str,
    /// Text in all opaque data of this provider.
    pub(super) mark: &'static str,
    /// Error of the real provider, which answers 400.
    pub(super) refusal: &'static str,
    /// Returns the answer with the calls of a step.
    pub(super) calls: fn(&[Given]) -> Canned,
    /// Returns the last answer.
    pub(super) end: fn(&str) -> Canned,
    /// Returns the opaque data for the call `at` of a step.
    pub(super) data: fn(step: usize, at: usize) -> Value,
    /// Returns the id and the opaque data of each call in a request, in order.
    pub(super) sent: fn(&Value) -> Vec<(String, Value)>,
    /// Returns whether the provider accepts this data for calls of another provider.
    pub(super) accepts: fn(&Value) -> bool,
}

/// A call that a server made, and the opaque data that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    pub(super) id: String,
    pub(super) data: Value,
}

pub(super) struct StrictServer {
    family: &'static Family,
    mock: Mock,
}

impl StrictServer {
    /// Starts a server that answers with calls until the conversation contains `steps - 1` assistant messages.
    pub(super) async fn start(family: &'static Family, steps: usize) -> StrictServer {
        let given = Arc::new(Mutex::new(Vec::new()));
        let handler = move |asked: &Asked, before: usize| {
            let mut given = given.lock().expect("unpoisoned calls");
            let sent = (family.sent)(&asked.body);
            if let Err(reason) = check(family, &given, &sent) {
                let message = format!("{}: {reason}", family.refusal);
                let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
                return Canned::json("400 Bad Request", error);
            }
            if sent.iter().filter(|(id, _)| id.ends_with("-0")).count() + 1 == steps {
                return (family.end)(&last_text(family));
            }
            let calls = calls_of_step(family, before);
            given.extend(calls.clone());
            (family.calls)(&calls)
        };
        StrictServer {
            family,
            mock: Mock::with(handler).await,
        }
    }

    pub(super) fn client(&self) -> Arc<dyn ModelClient> {
        let endpoint = Some(self.mock.url(self.family.path));
        let mut model = model(self.family.provider, endpoint, json!({}));
        model.spec.model = self.family.model.to_owned();
        open(&model, &Default::default()).expect("a client")
    }

    pub(super) fn bodies(&self) -> Vec<Value> {
        self.mock
            .asked()
            .into_iter()
            .map(|asked| asked.body)
            .collect()
    }

    pub(super) fn count(&self) -> usize {
        self.mock.asked().len()
    }

    pub(super) fn last_text(&self) -> String {
        last_text(self.family)
    }
}

fn last_text(family: &Family) -> String {
    format!("{} is done.", family.name)
}

/// Returns one call, or two in every third step.
fn calls_of_step(family: &Family, step: usize) -> Vec<Given> {
    let count = if step % 3 == 2 { 2 } else { 1 };
    let call = |at: usize| Given {
        id: format!("{}-{step}-{at}", family.name),
        data: (family.data)(step, at),
    };
    (0..count).map(call).collect()
}

/// Checks the data of all calls in a request.
fn check(family: &Family, given: &[Given], sent: &[(String, Value)]) -> Result<(), String> {
    let (own, others): (Vec<_>, Vec<_>) = sent
        .iter()
        .partition(|(id, _)| id.starts_with(&format!("{}-", family.name)));
    let own: Vec<Given> = own
        .into_iter()
        .map(|(id, data)| Given {
            id: id.clone(),
            data: data.clone(),
        })
        .collect();
    if own != given {
        return Err(format!("expected {given:#?}, but got {own:#?}"));
    }
    match others.iter().find(|(_, data)| !(family.accepts)(data)) {
        Some((id, data)) => Err(format!("the call {id} has {data}")),
        None => Ok(()),
    }
}

//! Everything in a body but the messages: the same in every step, so it is made once.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use goondan_core::JsonObject;
use goondan_core::ports::model::{ModelRequest, ToolDefinition};
use goondan_spec::kinds::ModelParams;
use goondan_spec::sent_schema::{is_strict, sent_schema};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::settings::Settings;
use super::dialect::Dialect;
use crate::wire::Wire;

/// How many heads are kept: one for each set of tools and params that is in use.
const KEPT: usize = 64;

/// Makes heads, and keeps them.
pub(crate) struct Heads {
    dialect: Dialect,
    model: String,
    made: Mutex<Vec<Made>>,
}

/// What comes before the messages, and what comes behind.
#[derive(Clone)]
pub(crate) struct Head {
    /// Up to and with the bracket that opens the messages.
    pub(crate) before: Bytes,
    /// The user's own messages take the place of ours (`options.body`).
    pub(crate) has_messages: bool,
}

struct Made {
    params: Weak<ModelParams>,
    tools: Weak<[ToolDefinition]>,
    output: Option<Weak<Value>>,
    head: Head,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Value,
    strict: bool,
}

impl Heads {
    /// None yet. `model` is the name as it is sent.
    pub(crate) fn new(dialect: Dialect, model: String) -> Self {
        Heads {
            dialect,
            model,
            made: Mutex::default(),
        }
    }

    /// The head of `request`. The same params and tools, by identity, have the same head.
    pub(crate) fn of(&self, request: &ModelRequest, settings: &Settings) -> Head {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.iter().find(|made| made.is_of(request)) {
            return known.head.clone();
        }
        made.retain(Made::is_in_use);
        if made.len() == KEPT {
            made.remove(0);
        }
        let head = self.make(request, settings);
        let (params, tools) = (
            Arc::downgrade(&request.params),
            Arc::downgrade(&request.tools),
        );
        let output = request.output.as_ref().map(Arc::downgrade);
        made.push(Made {
            params,
            tools,
            output,
            head: head.clone(),
        });
        head
    }

    fn make(&self, request: &ModelRequest, settings: &Settings) -> Head {
        let fields = self.fields(&request.params, settings);
        let has = |key: &str| fields.contains_key(key);
        let mut before = serde_json::to_vec(&fields).expect("JSON is JSON");
        // Open it again: `model` stands in it, so a comma follows.
        before.pop();
        if !request.tools.is_empty() && !has("tools") {
            before.extend_from_slice(b",\"tools\":");
            let tools: Vec<_> = request.tools.iter().map(Tool::of).collect();
            serde_json::to_writer(&mut before, &tools).expect("JSON is JSON");
        }
        if let Some(schema) = request.output.as_ref().filter(|_| !has("response_format")) {
            before.extend_from_slice(b",\"response_format\":");
            serde_json::to_writer(&mut before, &response_format(schema)).expect("JSON is JSON");
        }
        let has_messages = has("messages");
        if !has_messages {
            before.extend_from_slice(b",\"messages\":[");
        }
        Head {
            before: Bytes::from(before),
            has_messages,
        }
    }

    /// What is said beside the tools and the messages. The user's own fields go before ours.
    fn fields(&self, params: &ModelParams, settings: &Settings) -> JsonObject {
        let mut body = JsonObject::new();
        body.insert("model".to_owned(), Value::from(self.model.as_str()));
        body.insert("stream".to_owned(), Value::from(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        let (effort, own) = settings.effort_and_body(params);
        if let Some(effort) = effort {
            self.dialect.set_effort(&mut body, &effort);
        }
        if let Some(temperature) = params.temperature {
            body.insert("temperature".to_owned(), Value::from(temperature));
        }
        self.dialect
            .set_limit(&mut body, &self.model, params.max_tokens);
        if let Some(top_p) = params.top_p {
            body.insert("top_p".to_owned(), Value::from(top_p));
        }
        body.extend(own);
        body
    }
}

/// How an answer is asked for that fits `schema`.
fn response_format(schema: &Value) -> Value {
    let schema = sent_schema(Wire::Chat, schema);
    let strict = is_strict(&schema);
    json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}})
}

impl Made {
    fn is_of(&self, request: &ModelRequest) -> bool {
        std::ptr::eq(self.params.as_ptr(), Arc::as_ptr(&request.params))
            && std::ptr::addr_eq(self.tools.as_ptr(), Arc::as_ptr(&request.tools))
            && self.output.as_ref().map(Weak::as_ptr) == request.output.as_ref().map(Arc::as_ptr)
    }

    /// A weak pointer keeps its place, so nothing else can stand there in the meantime.
    fn is_in_use(&self) -> bool {
        self.params.strong_count() > 0 && self.tools.strong_count() > 0
    }
}

impl<'a> Tool<'a> {
    fn of(definition: &'a ToolDefinition) -> Self {
        let function = Function {
            name: &definition.name,
            description: &definition.description,
            parameters: sent_schema(Wire::Chat, &definition.parameters),
            strict: false,
        };
        Tool {
            r#type: "function",
            function,
        }
    }
}

#[cfg(test)]
mod tests {
    use genai::adapter::AdapterKind;
    use goondan_spec::Environment;

    use super::*;
    use crate::testing::{model, request};

    #[test]
    fn a_head_is_made_once_for_the_same_tools_and_params_and_forgotten_with_them() {
        let settings =
            Settings::of(&model("openai", json!({})), &Environment::default()).expect("settings");
        let heads = Heads::new(Dialect::of(AdapterKind::OpenAI), "m".to_owned());
        let asked = request("a", "x");
        let first = heads.of(&asked, &settings).before;
        assert_eq!(
            first.as_ptr(),
            heads.of(&asked.clone(), &settings).before.as_ptr()
        );
        let mut hotter = asked.clone();
        Arc::make_mut(&mut hotter.params).temperature = Some(1.5);
        assert!(
            heads
                .of(&hotter, &settings)
                .before
                .ends_with(br#""temperature":1.5,"messages":["#)
        );
        for _ in 0..2 * KEPT {
            heads.of(&request("a", "x"), &settings);
        }
        assert!(heads.made.lock().unwrap().len() <= 3);
    }

    #[test]
    fn the_schema_of_an_answer_is_sent_and_is_strict_where_it_can_be() {
        let settings =
            Settings::of(&model("openai", json!({})), &Environment::default()).expect("settings");
        let heads = Heads::new(Dialect::of(AdapterKind::OpenAI), "m".to_owned());
        let plain = request("a", "x");
        let sent = |schema: Value| {
            let asked = ModelRequest {
                output: Some(Arc::new(schema)),
                ..plain.clone()
            };
            let head = heads.of(&asked, &settings).before;
            let body: Value = serde_json::from_slice(&[&head[..], b"]}"].concat()).expect("JSON");
            body["response_format"].clone()
        };
        let closed = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                            "additionalProperties": false});
        let expected = json!({"name": "answer", "schema": closed.clone(), "strict": true});
        assert_eq!(
            sent(closed),
            json!({"type": "json_schema", "json_schema": expected})
        );
        let open = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        assert_eq!(sent(open)["json_schema"]["strict"], json!(false));
        let without: Value =
            serde_json::from_slice(&[&heads.of(&plain, &settings).before[..], b"]}"].concat())
                .expect("JSON");
        assert_eq!(without["response_format"], Value::Null);
    }
}

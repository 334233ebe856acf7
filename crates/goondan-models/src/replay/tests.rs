use std::path::Path;
use std::sync::Arc;

use goondan_core::message::{MessagePart, MessageRole};
use goondan_core::ports::model::{
    ModelChunk, ModelClient, ModelError, ModelErrorKind, ModelRequest, ToolDefinition,
};
use goondan_spec::{Environment, Secret, ValueSource};
use serde_json::{Value, json};

use super::*;
use crate::scripted::ScriptedFactory;
use crate::testing::{answer, answer_text, message, model, request};

struct Studio {
    folder: tempfile::TempDir,
    environment: Environment,
}

impl Studio {
    fn new() -> Self {
        let environment = [
            ("SOME_TOKEN", "t0p-secret-value"),
            ("DEBUG_KEY", "on"),
            ("PLACE", "somewhere"),
        ];
        let owned = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Studio {
            folder: tempfile::tempdir().unwrap(),
            environment: owned.into_iter().collect(),
        }
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    /// A client that answers by `script` and is recorded.
    fn recorder(&self, script: Value) -> Arc<dyn ModelClient> {
        let factory = ScriptedFactory::from_script(serde_json::from_value(script).unwrap());
        let mut model = model("openai", json!({"headers": {"x-team": "header-secret"}}));
        model.spec.api_key = Some(ValueSource::Value(Secret::new("sk-very-secret")));
        let recorder = record(Arc::new(factory), self.root().join("c.jsonl")).unwrap();
        recorder
            .client(&model, self.root(), &self.environment)
            .unwrap()
    }

    fn replay(
        &self,
        cassettes: &CassettePlayers,
        options: Value,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        cassettes.client(&model("replay", options), self.root(), &self.environment)
    }

    fn player(&self) -> Arc<dyn ModelClient> {
        self.replay(&CassettePlayers::default(), json!({"cassette": "c.jsonl"}))
            .unwrap()
    }

    fn cassette(&self) -> String {
        std::fs::read_to_string(self.root().join("c.jsonl")).unwrap()
    }
}

fn with_tool(mut request: ModelRequest, description: &str) -> ModelRequest {
    let tool = ToolDefinition {
        name: "t__x".into(),
        description: description.into(),
        parameters: json!({"type": "object"}),
    };
    request.tools = Arc::from([tool]);
    request
}

#[tokio::test]
async fn an_answer_that_was_a_call_is_played_as_one() {
    for (tool, is_sent) in [("answer__submit", false), ("t__x", true)] {
        let studio = Studio::new();
        let mut asked = with_tool(request("a", "hi"), "");
        let tool = ToolDefinition {
            name: tool.into(),
            ..asked.tools[0].clone()
        };
        asked.tools = Arc::from([tool]);
        answer(
            &studio.recorder(json!({"default": {"text": "hello"}})),
            asked,
        )
        .await
        .unwrap();
        assert_eq!(studio.player().is_schema_sent(), is_sent);
    }
}

#[tokio::test]
async fn what_was_recorded_comes_back_piece_by_piece() {
    let studio = Studio::new();
    let script = json!({"agents": {
        "a": [
            {"error": {"status": 529, "message": "overloaded", "retryAfterMs": 1500}},
            {"text": "one two", "chunks": 2, "calls": [{"id": "c1", "tool": "t__x", "args": {"k": [1, null]}}],
             "usage": {"promptTokens": 1, "completionTokens": 2}},
            {"text": "abc", "chunks": 3, "breakAfter": 1},
        ],
        "b": [{"text": "b"}],
    }});
    let recorder = studio.recorder(script);
    let mut live = Vec::new();
    for agent in ["a", "b", "a", "a"] {
        live.push(answer(&recorder, request(agent, "x")).await);
    }
    let player = studio.player();
    let mut played = Vec::new();
    for agent in ["a", "b", "a", "a"] {
        played.push(answer(&player, request(agent, "x")).await);
    }
    assert_eq!(live, played);
    assert_eq!(
        live[0].as_ref().unwrap_err().kind,
        ModelErrorKind::Status(529)
    );
    assert_eq!(live[2].as_ref().unwrap().len(), 3);
    assert_eq!(
        live[3].as_ref().unwrap_err().kind,
        ModelErrorKind::Connection
    );

    let error = answer(&player, request("a", "x")).await.unwrap_err();
    assert_eq!(
        error.message,
        "the cassette c.jsonl has no answer left for agent a (3 were recorded)"
    );
}

#[tokio::test]
async fn another_request_is_refused_with_what_differs() {
    let studio = Studio::new();
    let recorder = studio.recorder(json!({"default": {"text": "ok"}}));
    answer(&recorder, with_tool(request("a", "hello"), "d"))
        .await
        .unwrap();
    let mut other_system = with_tool(request("a", "hello"), "d");
    other_system.system = Some("Be rude.".into());
    let mut longer = with_tool(request("a", "hello"), "d");
    let answer_to_it = message(MessageRole::Assistant, vec![MessagePart::text("hm")]);
    longer.messages = [&longer.messages[..], &[answer_to_it]].concat().into();
    let mut hotter = with_tool(request("a", "hello"), "d");
    Arc::make_mut(&mut hotter.params).temperature = Some(1.0);
    for (changed, words) in [
        (
            with_tool(request("a", "bye"), "d"),
            "message 1 was user `hello`, is user `bye`",
        ),
        (request("a", "hello"), "the tools were [t__x], are []"),
        (
            with_tool(request("a", "hello"), "e"),
            "the descriptions or schemas of the tools differ",
        ),
        (other_system, "the system prompt was ``, is `Be rude.`"),
        (longer, "the number of messages was 1, is 2"),
        (hotter, "the params were"),
    ] {
        let error = answer(&studio.player(), changed).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Configuration);
        let start = "the request of agent a differs from the cassette (c.jsonl, entry 1): ";
        assert!(
            error.message.starts_with(start) && error.message.contains(words),
            "{}",
            error.message
        );
    }
    assert_eq!(
        answer_text(&studio.player(), with_tool(request("a", "hello"), "d")).await,
        "ok"
    );
    let lenient = json!({"cassette": "c.jsonl", "ignore": ["messages", "tools"]});
    let lenient = studio.replay(&CassettePlayers::default(), lenient).unwrap();
    assert_eq!(answer_text(&lenient, request("a", "whatever")).await, "ok");
}

#[tokio::test]
async fn message_ids_and_times_do_not_matter_and_instances_may_come_in_any_order() {
    let studio = Studio::new();
    let recorder = studio.recorder(json!({"default": {"text": "{{ input }}!"}}));
    answer(&recorder, request("a", "first")).await.unwrap();
    answer(&recorder, request("a", "second")).await.unwrap();
    let player = studio.player();
    let mut renamed = request("a", "second");
    let mut other = (*renamed.messages[0]).clone();
    (other.id, other.created_at) = ("another".into(), chrono::Utc::now());
    renamed.messages = vec![Arc::new(other)].into();
    assert_eq!(answer_text(&player, renamed).await, "second!");
    assert_eq!(answer_text(&player, request("a", "first")).await, "first!");
}

#[tokio::test]
async fn a_cassette_holds_no_secret_and_still_plays() {
    let studio = Studio::new();
    let recorder = studio.recorder(json!({"default": {"text": "the token is t0p-secret-value"}}));
    let telling = || {
        request(
            "a",
            "sk-very-secret header-secret t0p-secret-value on somewhere",
        )
    };
    answer(&recorder, telling()).await.unwrap();
    let cassette = studio.cassette();
    for secret in ["sk-very-secret", "header-secret", "t0p-secret-value"] {
        assert!(!cassette.contains(secret), "{cassette}");
    }
    assert!(cassette.contains("*** *** *** on somewhere"), "{cassette}");

    let mut model = model(
        "replay",
        json!({"cassette": "c.jsonl", "headers": {"x-team": "header-secret"}}),
    );
    model.spec.api_key = Some(ValueSource::Value(Secret::new("sk-very-secret")));
    let player = CassettePlayers::default()
        .client(&model, studio.root(), &studio.environment)
        .unwrap();
    assert_eq!(answer_text(&player, telling()).await, "the token is ***");
}

#[tokio::test]
async fn a_cassette_goes_on_where_it_was_after_a_reload_and_a_torn_end_is_left_out() {
    let studio = Studio::new();
    let recorder = studio.recorder(json!({"default": {"text": "{{ input }}"}}));
    answer(&recorder, request("a", "one")).await.unwrap();
    answer(&recorder, request("a", "one")).await.unwrap();
    drop(recorder);
    let torn = studio.cassette() + "{\"agent\": \"a\", \"dig";
    std::fs::write(studio.root().join("c.jsonl"), torn).unwrap();
    let cassettes = CassettePlayers::default();
    for _ in 0..2 {
        let player = studio
            .replay(&cassettes, json!({"cassette": "c.jsonl"}))
            .unwrap();
        assert_eq!(answer_text(&player, request("a", "one")).await, "one");
    }
    let player = studio
        .replay(&cassettes, json!({"cassette": "c.jsonl"}))
        .unwrap();
    assert!(answer(&player, request("a", "one")).await.is_err());
}

#[tokio::test]
async fn an_answer_that_is_given_up_leaves_no_line() {
    let studio = Studio::new();
    let recorder = studio.recorder(json!({"default": {"text": "a long text", "chunks": 4}}));
    drop(recorder.stream(request("a", "x")).await.unwrap());
    assert_eq!(studio.cassette(), "");
}

#[tokio::test]
async fn every_line_is_one_entry_in_json() {
    let studio = Studio::new();
    let recorder = studio.recorder(json!({"default": {"text": "two\nlines"}}));
    answer(&recorder, request("a", "x")).await.unwrap();
    let entry: CassetteEntry = serde_json::from_str(studio.cassette().trim_end()).unwrap();
    assert_eq!(entry.agent, "a");
    let chunks = RecordedPiece::answer_chunks(&entry.answer);
    assert_eq!(chunks[0], Ok(ModelChunk::Text("two\nlines".into())));
    insta::assert_snapshot!(studio.cassette());
}

#[test]
fn what_cannot_be_played_or_written_says_why() {
    let studio = Studio::new();
    std::fs::write(studio.root().join("bad.jsonl"), "\n{\"agent\": 3}\n").unwrap();
    for (options, words) in [
        (json!({}), "Model/m has no cassette"),
        (
            json!({"cassette": "gone.jsonl"}),
            "there is no file gone.jsonl",
        ),
        (
            json!({"cassette": "../c.jsonl"}),
            "leaves the project directory",
        ),
        (
            json!({"cassette": "bad.jsonl"}),
            "line 2 of bad.jsonl is not a cassette entry",
        ),
    ] {
        let error = studio
            .replay(&CassettePlayers::default(), options)
            .err()
            .expect("refused");
        assert!(error.message.contains(words), "{}", error.message);
    }
    let inner = Arc::new(ScriptedFactory::new(Default::default()));
    assert!(record(inner.clone(), studio.root().join("no/such/c.jsonl")).is_err());
    std::fs::write(studio.root().join("old.jsonl"), "old\n").unwrap();
    let factory = record(inner, studio.root().join("old.jsonl")).unwrap();
    let old = || std::fs::read_to_string(studio.root().join("old.jsonl")).unwrap();
    assert_eq!(old(), "old\n", "a project may replay what it records anew");
    factory
        .client(
            &model("openai", json!({})),
            studio.root(),
            &studio.environment,
        )
        .unwrap();
    assert_eq!(old(), "");
}

#[tokio::test]
async fn a_conversation_may_be_below_another_state_root() {
    let studio = Studio::new();
    let place = |state: &str| format!("wrote {state}/workspaces/p-1/instances/a/notes.md");
    let recorder = studio.recorder(json!({"default": {"text": "fine"}}));
    answer(&recorder, request("a", &place("/home/ann/state")))
        .await
        .unwrap();
    let elsewhere = request("a", &place("/tmp/other"));
    assert!(answer(&studio.player(), elsewhere).await.is_ok());
    let other = request("a", "wrote /tmp/other/notes.md");
    assert!(answer(&studio.player(), other).await.is_err());
}

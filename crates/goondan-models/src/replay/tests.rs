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

struct TestProject {
    directory: tempfile::TempDir,
    environment: Environment,
}

impl TestProject {
    fn new() -> Self {
        let environment = [
            ("SOME_TOKEN", "t0p-secret-value"),
            ("DEBUG_KEY", "on"),
            ("PLACE", "somewhere"),
        ];
        let owned = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        TestProject {
            directory: tempfile::tempdir().unwrap(),
            environment: owned.into_iter().collect(),
        }
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a recorded client that answers according to `script`.
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
async fn replay_sends_a_schema_unless_the_recording_used_the_answer_tool() {
    for (tool, is_sent) in [("answer__submit", false), ("t__x", true)] {
        let project = TestProject::new();
        let mut recorded_request = with_tool(request("a", "hi"), "");
        let tool = ToolDefinition {
            name: tool.into(),
            ..recorded_request.tools[0].clone()
        };
        recorded_request.tools = Arc::from([tool]);
        answer(
            &project.recorder(json!({"default": {"text": "hello"}})),
            recorded_request,
        )
        .await
        .unwrap();
        assert_eq!(project.player().is_schema_sent(), is_sent);
    }
}

#[tokio::test]
async fn replay_repeats_recorded_chunks_and_errors_in_order() {
    let project = TestProject::new();
    let script = json!({"agents": {
        "a": [
            {"error": {"status": 529, "message": "overloaded", "retryAfterMs": 1500}},
            {"text": "one two", "chunks": 2, "calls": [{"id": "c1", "tool": "t__x", "args": {"k": [1, null]}}],
             "usage": {"promptTokens": 1, "completionTokens": 2}},
            {"text": "abc", "chunks": 3, "breakAfter": 1},
        ],
        "b": [{"text": "b"}],
    }});
    let recorder = project.recorder(script);
    let mut live = Vec::new();
    for agent in ["a", "b", "a", "a"] {
        live.push(answer(&recorder, request(agent, "x")).await);
    }
    let player = project.player();
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
async fn replay_rejects_a_different_request_and_shows_the_difference() {
    let project = TestProject::new();
    let recorder = project.recorder(json!({"default": {"text": "ok"}}));
    answer(&recorder, with_tool(request("a", "hello"), "d"))
        .await
        .unwrap();
    let mut other_system = with_tool(request("a", "hello"), "d");
    other_system.system = Some("Be rude.".into());
    let mut longer = with_tool(request("a", "hello"), "d");
    let assistant_message = message(MessageRole::Assistant, vec![MessagePart::text("hm")]);
    longer.messages = [&longer.messages[..], &[assistant_message]].concat().into();
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
        let error = answer(&project.player(), changed).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Configuration);
        let start = "the request of agent a differs from the cassette (c.jsonl, entry 1): ";
        assert!(
            error.message.starts_with(start) && error.message.contains(words),
            "{}",
            error.message
        );
    }
    assert_eq!(
        answer_text(&project.player(), with_tool(request("a", "hello"), "d")).await,
        "ok"
    );
    let lenient = json!({"cassette": "c.jsonl", "ignore": ["messages", "tools"]});
    let lenient = project
        .replay(&CassettePlayers::default(), lenient)
        .unwrap();
    assert_eq!(answer_text(&lenient, request("a", "whatever")).await, "ok");
}

#[tokio::test]
async fn replay_ignores_message_ids_times_and_request_order() {
    let project = TestProject::new();
    let recorder = project.recorder(json!({"default": {"text": "{{ input }}!"}}));
    answer(&recorder, request("a", "first")).await.unwrap();
    answer(&recorder, request("a", "second")).await.unwrap();
    let player = project.player();
    let mut renamed = request("a", "second");
    let mut other = (*renamed.messages[0]).clone();
    (other.id, other.created_at) = ("another".into(), chrono::Utc::now());
    renamed.messages = vec![Arc::new(other)].into();
    assert_eq!(answer_text(&player, renamed).await, "second!");
    assert_eq!(answer_text(&player, request("a", "first")).await, "first!");
}

#[tokio::test]
async fn a_cassette_contains_no_secrets_and_can_be_replayed() {
    let project = TestProject::new();
    let recorder = project.recorder(json!({"default": {"text": "the token is t0p-secret-value"}}));
    let request_with_secrets = || {
        request(
            "a",
            "sk-very-secret header-secret t0p-secret-value on somewhere",
        )
    };
    answer(&recorder, request_with_secrets()).await.unwrap();
    let cassette = project.cassette();
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
        .client(&model, project.root(), &project.environment)
        .unwrap();
    assert_eq!(
        answer_text(&player, request_with_secrets()).await,
        "the token is ***"
    );
}

#[tokio::test]
async fn replay_continues_after_a_reload_and_ignores_a_truncated_line() {
    let project = TestProject::new();
    let recorder = project.recorder(json!({"default": {"text": "{{ input }}"}}));
    answer(&recorder, request("a", "one")).await.unwrap();
    answer(&recorder, request("a", "one")).await.unwrap();
    drop(recorder);
    let truncated = project.cassette() + "{\"agent\": \"a\", \"dig";
    std::fs::write(project.root().join("c.jsonl"), truncated).unwrap();
    let cassettes = CassettePlayers::default();
    for _ in 0..2 {
        let player = project
            .replay(&cassettes, json!({"cassette": "c.jsonl"}))
            .unwrap();
        assert_eq!(answer_text(&player, request("a", "one")).await, "one");
    }
    let player = project
        .replay(&cassettes, json!({"cassette": "c.jsonl"}))
        .unwrap();
    assert!(answer(&player, request("a", "one")).await.is_err());
}

#[tokio::test]
async fn a_cancelled_answer_is_not_recorded() {
    let project = TestProject::new();
    let recorder = project.recorder(json!({"default": {"text": "a long text", "chunks": 4}}));
    drop(recorder.stream(request("a", "x")).await.unwrap());
    assert_eq!(project.cassette(), "");
}

#[tokio::test]
async fn every_line_is_one_entry_in_json() {
    let project = TestProject::new();
    let recorder = project.recorder(json!({"default": {"text": "two\nlines"}}));
    answer(&recorder, request("a", "x")).await.unwrap();
    let entry: CassetteEntry = serde_json::from_str(project.cassette().trim_end()).unwrap();
    assert_eq!(entry.agent, "a");
    let chunks = RecordedPiece::answer_chunks(&entry.answer);
    assert_eq!(chunks[0], Ok(ModelChunk::Text("two\nlines".into())));
    insta::assert_snapshot!(project.cassette());
}

#[test]
fn unusable_cassettes_fail_with_a_message_and_recording_is_lazy() {
    let project = TestProject::new();
    std::fs::write(project.root().join("bad.jsonl"), "\n{\"agent\": 3}\n").unwrap();
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
        let error = project
            .replay(&CassettePlayers::default(), options)
            .err()
            .expect("refused");
        assert!(error.message.contains(words), "{}", error.message);
    }
    let inner = Arc::new(ScriptedFactory::new(Default::default()));
    assert!(record(inner.clone(), project.root().join("no/such/c.jsonl")).is_err());
    std::fs::write(project.root().join("old.jsonl"), "old\n").unwrap();
    let factory = record(inner, project.root().join("old.jsonl")).unwrap();
    let old = || std::fs::read_to_string(project.root().join("old.jsonl")).unwrap();
    assert_eq!(
        old(),
        "old\n",
        "a project can replay a cassette until its recording starts"
    );
    factory
        .client(
            &model("openai", json!({})),
            project.root(),
            &project.environment,
        )
        .unwrap();
    assert_eq!(old(), "");
}

#[tokio::test]
async fn replay_ignores_the_path_of_the_state_root() {
    let project = TestProject::new();
    let notes_path = |state: &str| format!("wrote {state}/workspaces/p-1/instances/a/notes.md");
    let recorder = project.recorder(json!({"default": {"text": "fine"}}));
    answer(&recorder, request("a", &notes_path("/home/ann/state")))
        .await
        .unwrap();
    let elsewhere = request("a", &notes_path("/tmp/other"));
    assert!(answer(&project.player(), elsewhere).await.is_ok());
    let other = request("a", "wrote /tmp/other/notes.md");
    assert!(answer(&project.player(), other).await.is_err());
}

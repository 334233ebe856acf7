use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use goondan_core::message::{
    MessageData, MessagePart, MessageRole, MessageSource, ToolCall, ToolResultPart,
};
use goondan_core::ports::model::{ModelChunk, ModelErrorKind, ModelFactory};
use goondan_core::ports::tool::{ToolCallError, ToolCallStatus};
use goondan_spec::Environment;
use serde_json::{Value, json};

use super::*;
use crate::testing::{answer, answer_text, model, request};

fn factory(script: Value) -> ScriptedFactory {
    ScriptedFactory::from_script(serde_json::from_value(script).unwrap())
}

fn calls_of(chunks: &[ModelChunk]) -> Vec<ToolCall> {
    let Some(ModelChunk::Finish(end)) = chunks.last() else {
        panic!("no end in {chunks:?}")
    };
    let call = |part: &MessagePart| match part {
        MessagePart::ToolCall(call) => Some(call.clone()),
        _ => None,
    };
    end.parts.iter().filter_map(call).collect()
}

fn client(factory: &dyn ModelFactory) -> Arc<dyn ModelClient> {
    factory
        .client(
            &model("scripted", json!({})),
            std::path::Path::new("."),
            &Environment::default(),
        )
        .unwrap()
}

fn tool_result(id: &str, outcome: Result<Value, ToolCallError>) -> Vec<(MessageRole, MessagePart)> {
    let call = ToolCall::new(id, "t__x", json!({}));
    let (status, output, error) = match outcome {
        Ok(output) => (ToolCallStatus::Ok, Some(output), None),
        Err(error) => (ToolCallStatus::Error, None, Some(error)),
    };
    let result = ToolResultPart {
        tool_call_id: id.into(),
        tool_name: "t__x".into(),
        status,
        output,
        error,
        untrusted: false,
    };
    vec![
        (MessageRole::Assistant, MessagePart::ToolCall(call)),
        (MessageRole::Tool, MessagePart::ToolResult(result)),
    ]
}

fn conversation(parts: Vec<(MessageRole, MessagePart)>) -> ModelRequest {
    let mut request = request("a", "go");
    for (role, part) in parts {
        let mut message = (*request.messages[0]).clone();
        message.data = MessageData {
            role,
            content: vec![part],
        };
        message.source = MessageSource::System;
        request.messages = [&request.messages[..], &[Arc::new(message)]]
            .concat()
            .into();
    }
    request
}

#[tokio::test]
async fn scripted_replies_are_played_in_order_across_a_restart() {
    let factory = ScriptedFactory::new(BTreeMap::from([(
        "a".into(),
        vec![ScriptReply::text("one"), ScriptReply::text("two")],
    )]));
    assert_eq!(
        answer_text(&client(&factory), request("a", "x")).await,
        "one"
    );
    let after_restart = factory.clone();
    assert_eq!(
        answer_text(&client(&after_restart), request("a", "x")).await,
        "two"
    );
    let error = answer(&client(&factory), request("a", "x"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Configuration);
    assert_eq!(
        error.message,
        "the script of agent a has no reply left (the agent called the model 3 times)"
    );
    let unknown = answer(&client(&factory), request("b", "x"))
        .await
        .unwrap_err();
    assert_eq!(
        unknown.message,
        "the script of agent b has no reply left (the agent called the model once)"
    );
    assert_eq!(factory.requests().of("a").len(), 3);
    assert_eq!(factory.requests().all().len(), 4);
    assert_eq!(factory.state().call_count("a"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_consumes_its_reply_and_is_logged() {
    let factory =
        factory(json!({"agents": {"a": [{"text": "slow", "delayMs": 60000}, {"text": "next"}]}}));
    let client = client(&factory);
    let cut =
        tokio::time::timeout(Duration::from_millis(10), client.stream(request("a", "x"))).await;
    assert!(cut.is_err());
    assert_eq!(factory.requests().all().len(), 1);
    assert_eq!(answer_text(&client, request("a", "x")).await, "next");
}

#[tokio::test]
async fn rules_match_the_last_message_before_the_default_reply() {
    let factory = factory(json!({
        "agents": {"a": [{"text": "from the list"}]},
        "rules": [
            {"when": {"role": "tool"}, "reply": {"text": "tool said {{ last }}"}},
            {"when": {"agent": "other"}, "reply": {"text": "never"}},
            {"when": {"matches": "(?i)^HEL+O"}, "reply": {"text": "greeting"}},
            {"when": {"contains": "weather", "role": "user"}, "reply": {"text": "sunny"}},
        ],
        "default": {"text": "{{ agent }} heard {{ input }} in turn {{ turn }}"},
    }));
    let client = client(&factory);
    assert_eq!(
        answer_text(&client, request("a", "weather?")).await,
        "from the list"
    );
    assert_eq!(
        answer_text(&client, request("a", "the weather?")).await,
        "sunny"
    );
    assert_eq!(
        answer_text(&client, request("a", "helllo")).await,
        "greeting"
    );
    assert_eq!(
        answer_text(&client, request("a", "bye")).await,
        "a heard bye in turn 1"
    );
    let with_result = conversation(tool_result("c1", Ok(json!({"n": 1}))));
    assert_eq!(
        answer_text(&client, with_result).await,
        r#"tool said {"n":1}"#
    );
}

#[tokio::test]
async fn templates_can_use_tool_results_and_keep_json_types() {
    let call = json!({"id": "c2", "tool": "t__x", "args": {
        "whole": "{{ results.c1.output.items }}",
        "number": "{{ results.c1.output.items[0] + 1 }}",
        "text": "{{ results.c1.output.items[0] }} of it",
        "deep": [{"plain": "as is", "turn": "{{ turn }}"}],
    }});
    let factory = factory(
        json!({"agents": {"a": [{"text": "{{ results.c1.output.name }}!", "calls": [call]}]}}),
    );
    let with_result = conversation(tool_result(
        "c1",
        Ok(json!({"items": [1, 2.5, null], "name": "Zoë"})),
    ));
    let chunks = answer(&client(&factory), with_result).await.unwrap();
    assert_eq!(chunks[0], ModelChunk::Text("Zoë!".into()));
    let expected = json!({
        "whole": [1, 2.5, null], "number": 2, "text": "1 of it", "deep": [{"plain": "as is", "turn": 1}],
    });
    let call = MessagePart::ToolCall(ToolCall::new("c2", "t__x", expected));
    assert_eq!(
        chunks[1],
        ModelChunk::finish(vec![MessagePart::text("Zoë!"), call], None)
    );
}

#[tokio::test]
async fn templates_can_use_tool_errors() {
    let factory = factory(json!({"default": {"text": "{{ results.c1.error.code }}|{{ last }}"}}));
    let error = ToolCallError {
        name: None,
        message: "no".into(),
        code: "E_TOOL".into(),
        suggestion: Some("try".into()),
        help_url: None,
    };
    let text = answer_text(
        &client(&factory),
        conversation(tool_result("c1", Err(error))),
    )
    .await;
    assert_eq!(text, "E_TOOL|ERROR: no\nCODE: E_TOOL\nSUGGESTION: try");
}

#[tokio::test]
async fn an_invalid_template_is_an_error_that_contains_the_template() {
    for (template, word) in [
        ("{{ results.nope.output }}", "the call `nope` has no result"),
        ("{{ inptu }}", "an undefined name is used"),
        ("{{ oops", "a `{{` or `{%` is not closed"),
        (
            "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
            "fuel",
        ),
    ] {
        let text = factory(json!({"default": {"text": template}}));
        let error = answer(&client(&text), request("a", "x")).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Configuration);
        assert!(
            error.message.contains(template) && error.message.contains(word),
            "{}",
            error.message
        );
    }
    let in_args =
        factory(json!({"default": {"calls": [{"tool": "t__x", "args": {"v": "{{ nothing }}"}}]}}));
    let error = answer(&client(&in_args), request("a", "x"))
        .await
        .unwrap_err();
    assert!(error.message.contains("{{ nothing }}"), "{}", error.message);
}

#[tokio::test]
async fn a_template_for_the_output_of_a_failed_call_shows_the_tool_error() {
    let factory = factory(json!({"default": {"text": "It is {{ results.c1.output.n }}"}}));
    let error = ToolCallError {
        name: None,
        message: "no such file".into(),
        code: "E_TOOL".into(),
        suggestion: Some("Name another.".into()),
        help_url: None,
    };
    let error = answer(
        &client(&factory),
        conversation(tool_result("c1", Err(error))),
    )
    .await
    .unwrap_err();
    assert!(
        error
            .message
            .ends_with("the call `c1` of t__x failed with E_TOOL: no such file"),
        "{}",
        error.message
    );
    assert_eq!(error.suggestion.as_deref(), Some("Name another."));
}

#[tokio::test]
async fn scripted_errors_raw_calls_usage_and_stream_breaks_are_played() {
    let factory = factory(json!({"agents": {"a": [
        {"error": {"status": 529, "message": "overloaded", "retryAfterMs": 250}},
        {"rawCalls": [{"id": "c", "tool": "t__x", "args": "{not json"}, {"id": "d", "tool": "t__x", "args": "{\"k\": 1}"}]},
        {"text": "abcdef", "chunks": 3, "usage": {"promptTokens": 2, "completionTokens": 3}},
        {"text": "abcdef", "chunks": 3, "breakAfter": 2},
        {"text": ""},
    ]}}));
    let client = client(&factory);
    let error = answer(&client, request("a", "x")).await.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ModelErrorKind::Status(529), "529 overloaded")
    );
    assert_eq!(error.retry_after, Some(Duration::from_millis(250)));
    assert!(error.is_transient());

    let calls = answer(&client, request("a", "x")).await.unwrap();
    let arguments: Vec<_> = calls_of(&calls)
        .into_iter()
        .map(|call| call.input)
        .collect();
    assert_eq!(arguments, [json!("{not json"), json!({"k": 1})]);

    let pieces = answer(&client, request("a", "x")).await.unwrap();
    assert_eq!(
        pieces[..3],
        ["ab", "cd", "ef"].map(|text| ModelChunk::Text(text.into()))
    );
    let ModelChunk::Finish(end) = &pieces[3] else {
        panic!("no end in {pieces:?}")
    };
    let usage = end.usage.expect("a usage");
    assert_eq!(
        (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.total_tokens
        ),
        (2, 3, 5)
    );

    let mut stream = client.stream(request("a", "x")).await.unwrap();
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(item);
    }
    assert_eq!(items.len(), 3);
    assert_eq!(
        items[2].as_ref().unwrap_err().kind,
        ModelErrorKind::Connection
    );

    assert_eq!(
        answer(&client, request("a", "x")).await.unwrap(),
        [ModelChunk::finish(Vec::new(), None)]
    );
}

#[tokio::test]
async fn a_rule_that_matches_again_gets_new_call_ids() {
    let factory = factory(json!({
        "agents": {"a": [{"calls": [{"id": "c1", "tool": "t__x"}]}]},
        "rules": [{"when": {"contains": "result"}, "reply": {"text": "{{ results.c1.output }}"}}],
        "default": {"calls": [{"id": "c1", "tool": "t__x"}, {"tool": "t__x"}]},
    }));
    let client = client(&factory);
    let ids = |chunks: Vec<ModelChunk>| -> Vec<String> {
        calls_of(&chunks)
            .into_iter()
            .map(|call| call.tool_call_id)
            .collect()
    };
    let used = || conversation(tool_result("c1", Ok(json!("old"))));
    assert_eq!(
        ids(answer(&client, used()).await.unwrap()),
        ["c1"],
        "a reply list keeps the ids of the script"
    );
    assert_eq!(
        ids(answer(&client, used()).await.unwrap()),
        ["c1-2", "call-1"]
    );
    let mut parts = tool_result("c1", Ok(json!("old")));
    parts.extend(tool_result("c1-2", Ok(json!("new result"))));
    assert_eq!(
        answer_text(&client, conversation(parts)).await,
        "new result"
    );
}

#[tokio::test]
async fn a_scripted_model_without_a_script_echoes_the_input() {
    let client = PlayingScripts::default()
        .client(&model("scripted", json!({})), std::path::Path::new("."))
        .unwrap();
    let text = answer_text(&client, request("a", "hello")).await;
    assert!(
        text.starts_with("You said: hello\n") && text.contains("scripted model"),
        "{text}"
    );
}

#[tokio::test]
async fn script_files_are_in_the_bundle_and_keep_their_position_on_reload() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("bundle");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(
        root.join("s.yaml"),
        r#"{"agents": {"a": [{"text": "one"}, {"text": "two"}]}}"#,
    )
    .unwrap();
    std::fs::write(directory.path().join("out.yaml"), "{}").unwrap();
    let scripts = PlayingScripts::default();
    let open = |path: &str| scripts.client(&model("scripted", json!({"script": path})), &root);

    assert_eq!(
        answer_text(&open("s.yaml").unwrap(), request("a", "x")).await,
        "one"
    );
    assert_eq!(
        answer_text(&open("./s.yaml").unwrap(), request("a", "x")).await,
        "two"
    );
    std::fs::write(
        root.join("s.yaml"),
        r#"{"agents": {"a": [{"text": "new"}]}}"#,
    )
    .unwrap();
    assert_eq!(
        answer_text(&open("s.yaml").unwrap(), request("a", "x")).await,
        "new"
    );

    for (path, word) in [
        ("../out.yaml", "leaves"),
        ("/etc/passwd", "leaves"),
        ("gone.yaml", "there is no file gone.yaml"),
    ] {
        let error = open(path).err().expect("refused");
        assert!(error.message.contains(word), "{}", error.message);
    }
    std::fs::write(
        root.join("bad.yaml"),
        "{\"agents\": {\n  \"a\": [{\"texts\": 1}]}}",
    )
    .unwrap();
    let error = open("bad.yaml").err().expect("refused");
    assert!(error.message.contains("texts"), "{}", error.message);
    assert_eq!(
        error.place.unwrap().file,
        Some(("bad.yaml".to_owned(), 2, 10))
    );
    std::fs::write(root.join("picture.yaml"), [0x89, b'P', b'N', b'G', 0xff]).unwrap();
    let error = open("picture.yaml").err().expect("refused");
    assert_eq!(error.message, "picture.yaml is not UTF-8 text");
    assert_eq!(
        error.suggestion.unwrap(),
        "name another file, or save the file as UTF-8"
    );
    let place = error.place.unwrap();
    assert_eq!((place.field, place.file), ("spec.options.script", None));
}

#[test]
fn an_inline_script_is_validated() {
    let open = |options| {
        PlayingScripts::default().client(&model("scripted", options), std::path::Path::new("."))
    };
    assert!(open(json!({"default": {"text": "hi"}, "maxRetries": 1})).is_ok());
    assert!(
        open(json!({"rules": [{"reply": {}}]}))
            .err()
            .unwrap()
            .message
            .contains("a reply needs one of")
    );
    assert!(
        open(json!({"script": "a.yaml", "default": {"text": "x"}}))
            .err()
            .unwrap()
            .message
            .contains("both")
    );
}

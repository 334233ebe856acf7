//! What changes conversations, and what asks other agents.

use goondan_abi::sdk::{AgentRequest, ExtensionApi, LayerKind, SendRequest, ToolError};
use serde_json::{Value, json};

/// All four kinds of message events.
pub(crate) fn edits(api: &mut ExtensionApi) {
    api.layer(LayerKind::Turn, |ctx| {
        let mut said = ctx.conversation().next_messages().swap_remove(0);
        let id = said["id"].clone();
        let gone = json!({"id": "gone", "data": {"role": "system", "content": "gone"}});
        ctx.emit(json!({"type": "append", "message": gone}))?;
        ctx.emit(json!({"type": "remove", "targetId": "gone"}))?;
        ctx.emit(json!({"type": "remove", "targetId": "never-there"}))?;
        said["data"] = json!({"role": "user", "content": "other words"});
        ctx.emit(json!({"type": "replace", "targetId": id, "message": said}))?;
        let mut result = ctx.next()?;
        result["responseMessage"]["data"] =
            json!({"role": "assistant", "content": "an answer of mine"});
        Ok(result)
    });
}

pub(crate) fn forgets(api: &mut ExtensionApi) {
    api.layer(LayerKind::Turn, |ctx| {
        let mut said = ctx.conversation().next_messages().pop().unwrap_or_default();
        ctx.emit(json!({"type": "truncate"}))?;
        said["id"] = format!("{}-again", said["id"].as_str().unwrap_or_default()).into();
        ctx.emit(json!({"type": "append", "message": said}))?;
        ctx.next()
    });
}

/// What was said before, from turn to turn, whatever becomes of the conversation.
pub(crate) fn remembers(api: &mut ExtensionApi) {
    api.layer(LayerKind::Turn, |ctx| {
        let said = ctx.input().to_owned();
        let conversation = ctx.conversation();
        let before: Vec<String> = conversation.base_messages().iter().map(text_of).collect();
        let before = before.join("|");
        let messages = conversation.next_messages();
        match said.as_str() {
            "replace" => {
                let mut first = messages[0].clone();
                first["data"] = json!({"role": "user", "content": "replaced"});
                ctx.emit(
                    json!({"type": "replace", "targetId": messages[0]["id"], "message": first}),
                )?;
            }
            "remove" => ctx.emit(json!({"type": "remove", "targetId": messages[1]["id"]}))?,
            "throw" => return Err(ToolError::new(before)),
            "what?" => ctx.append("system", before)?,
            _ => {}
        }
        ctx.next()
    });
}

fn text_of(message: &Value) -> String {
    let parts = message["data"]["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts
        .filter_map(|part| part["text"].as_str().or_else(|| part["type"].as_str()))
        .collect();
    texts.join(",")
}

/// Other agents.
pub(crate) fn asks(api: &mut ExtensionApi) {
    api.layer(LayerKind::Turn, |ctx| {
        let answer = ctx.request(AgentRequest::new("other", "what do you think?"))?;
        ctx.append(
            "system",
            format!(
                "other says: {}",
                answer["response"].as_str().unwrap_or_default()
            ),
        )?;
        let thanks = SendRequest {
            instance_key: Some("thanks".to_owned()),
            ..SendRequest::new("other", "thanks")
        };
        if ctx.send(thanks)?["accepted"] != true {
            return Err(ToolError::new("not accepted"));
        }
        let nobody = ctx
            .request(AgentRequest::new("nobody", "hm?"))
            .err()
            .and_then(|error| error.code);
        ctx.append("system", format!("nobody: {}", nobody.unwrap_or_default()))?;
        ctx.next()
    });
}

/// What an extension is told.
pub(crate) fn context(api: &mut ExtensionApi) {
    let does = api
        .config::<Value>()
        .map(|config| config["does"].clone())
        .unwrap_or_default();
    api.layer(LayerKind::Turn, move |ctx| {
        let runtime = ctx.field("runtime");
        // Written by hand, for the order of the fields counts.
        let said = format!(
            r#"{{"agent":{},"instance":{},"ids":{},"swarm":{},"prompt":{},"type":{},"input":{},"isDate":{},"config":{}}}"#,
            json!(ctx.agent_name()),
            json!(ctx.instance_key()),
            ctx.turn_id().len() > 8 && ctx.trace_id().len() > 8,
            runtime["swarm"],
            runtime["agent"]["prompt"]["system"],
            runtime["inbound"]["eventType"],
            json!(ctx.input()),
            ctx.field("inputEvent")["createdAt"].is_string(),
            does,
        );
        ctx.append("system", said)?;
        let turn = ctx.turn_id().to_owned();
        ctx.metadata.insert("noted".to_owned(), turn.into());
        ctx.next()
    });
    api.layer(LayerKind::Step, |ctx| {
        let turn = ctx.field("turn");
        if turn["metadata"]["noted"] != ctx.turn_id() || turn["id"] != ctx.turn_id() {
            return Err(ToolError::new("no note"));
        }
        let step = json!(ctx.step_index());
        ctx.metadata.insert("step".to_owned(), step.clone());
        let result = ctx.next()?;
        if result["metadata"]["step"] != step {
            return Err(ToolError::new("no step"));
        }
        Ok(result)
    });
}

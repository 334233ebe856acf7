//! Builders of answer events.

use serde_json::{Value, json};

pub(super) fn begin() -> Value {
    json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
        "content": [], "stop_reason": null, "usage": {"input_tokens": 20, "output_tokens": 1,
            "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}}})
}

pub(super) fn block(index: u64, start: Value, deltas: &[Value]) -> Vec<Value> {
    let start = json!({"type": "content_block_start", "index": index, "content_block": start});
    let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = json!({"type": "content_block_stop", "index": index});
    std::iter::once(start)
        .chain(deltas.iter().map(delta))
        .chain([stop])
        .collect()
}

pub(super) fn text(index: u64, pieces: &[&str]) -> Vec<Value> {
    let deltas: Vec<_> = pieces
        .iter()
        .map(|text| json!({"type": "text_delta", "text": text}))
        .collect();
    block(index, json!({"type": "text", "text": ""}), &deltas)
}

pub(super) fn input(piece: &str) -> Value {
    json!({"type": "input_json_delta", "partial_json": piece})
}

pub(super) fn call(index: u64, id: &str, start: Value, pieces: &[&str]) -> Vec<Value> {
    let start = json!({"type": "tool_use", "id": id, "name": "t__x", "input": start});
    block(
        index,
        start,
        &pieces.iter().map(|piece| input(piece)).collect::<Vec<_>>(),
    )
}

pub(super) fn end(reason: &str) -> Vec<Value> {
    let delta = json!({"type": "message_delta", "usage": {"output_tokens": 9},
        "delta": {"stop_reason": reason, "stop_sequence": null}});
    vec![delta, json!({"type": "message_stop"})]
}

pub(super) fn message(blocks: &[Vec<Value>], reason: &str) -> Vec<Value> {
    [vec![begin()], blocks.concat(), end(reason)].concat()
}

//! An MCP server that needs nothing but Rust: it keeps notes for as long as it runs, and speaks over standard input and output
//! in the revision of 2025-11-25. Real servers use an SDK; this one shows how little there is to it.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut notes = Vec::new();
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        // What has no id is a notification, and wants no answer.
        let Some(id) = message.get("id") else {
            continue;
        };
        let params = &message["params"];
        let answer = match message["method"].as_str().unwrap_or_default() {
            "initialize" => Ok(introduction()),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": [add(), list()]})),
            "tools/call" => call(
                &mut notes,
                params["name"].as_str().unwrap_or_default(),
                &params["arguments"],
            ),
            other => Err((-32601, format!("there is no method {other}"))),
        };
        let answer = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

fn introduction() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "notes", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn add() -> Value {
    json!({
        "name": "add",
        "description": "Writes down a note.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "What to note."}},
            "required": ["text"],
        },
    })
}

fn list() -> Value {
    json!({
        "name": "list",
        "description": "Tells all notes.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": true},
    })
}

/// What a tool answers; the error is one of JSON-RPC.
fn call(notes: &mut Vec<String>, name: &str, arguments: &Value) -> Result<Value, (i32, String)> {
    let text = match name {
        "add" => {
            notes.extend(arguments["text"].as_str().map(str::to_owned));
            format!("There are {} notes.", notes.len())
        }
        "list" if notes.is_empty() => "There are no notes.".to_owned(),
        "list" => notes.join("\n"),
        other => return Err((-32602, format!("there is no tool {other}"))),
    };
    Ok(json!({"content": [{"type": "text", "text": text}]}))
}

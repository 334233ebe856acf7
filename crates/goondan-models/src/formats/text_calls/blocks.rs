//! Calls in the styles in which local models write them.

use goondan_core::JsonObject;
use goondan_core::ports::model::ToolDefinition;
use serde_json::Value;

use super::TextCall;
use super::cursor::TextCursor;
use super::values::{convert_argument, trim_line_breaks};
use crate::formats::tool_calls::parse_arguments;

pub(super) const TOOL_CALL: &str = "<tool_call>";
const TOOL_CALL_END: &str = "</tool_call>";

pub(super) const PYTHON_TAG: &str = "<|python_tag|>";

pub(super) const TOOL_CALLS: &str = "[TOOL_CALLS]";
const TOOL_CALLS_END: &str = "[/TOOL_CALLS]";

/// Tags around elements that name a tool.
pub(super) const WRAPPERS: [(&str, &str); 3] = [
    ("<function_calls>", "</function_calls>"),
    (
        concat!("<", "antml:function_calls>"),
        concat!("</", "antml:function_calls>"),
    ),
    ("<minimax:tool_call>", "</minimax:tool_call>"),
];

/// Tags of a call with a tag for each argument.
pub(super) struct CallTags {
    /// The beginning of the tag that names the tool. If it ends with `=`, the name follows, else attributes.
    pub(super) call: &'static str,
    call_end: &'static str,
    parameter: &'static str,
    parameter_end: &'static str,
}

pub(super) const FUNCTION: CallTags = CallTags {
    call: "<function=",
    call_end: "</function>",
    parameter: "<parameter=",
    parameter_end: "</parameter>",
};

pub(super) const INVOKES: [CallTags; 2] = [
    CallTags {
        call: "<invoke ",
        call_end: "</invoke>",
        parameter: "<parameter ",
        parameter_end: "</parameter>",
    },
    CallTags {
        call: concat!("<", "antml:invoke "),
        call_end: concat!("</", "antml:invoke>"),
        parameter: concat!("<", "antml:parameter "),
        parameter_end: concat!("</", "antml:parameter>"),
    },
];

/// Returns the calls that begin at the beginning of `text`, and their length. Returns `None` if it is only text.
pub(super) fn calls_at(text: &str, tools: &[ToolDefinition]) -> Option<(Vec<TextCall>, usize)> {
    let mut cursor = TextCursor { rest: text };
    let calls = parse_calls(&mut cursor, tools)?;
    Some((calls, text.len() - cursor.rest.len()))
}

/// Reads the calls at the cursor, in any known notation. Returns `None` if it is only text.
fn parse_calls(cursor: &mut TextCursor<'_>, tools: &[ToolDefinition]) -> Option<Vec<TextCall>> {
    if cursor.eat(TOOL_CALL) {
        return wrapped_calls(cursor, TOOL_CALL_END, tools);
    }
    if cursor.eat(TOOL_CALLS) {
        return mistral_calls(cursor, tools);
    }
    if cursor.eat(PYTHON_TAG) {
        return llama_calls(cursor, tools);
    }
    for (open, close) in WRAPPERS {
        if cursor.eat(open) {
            return wrapped_calls(cursor, close, tools);
        }
    }
    let call = tagged_call(cursor, tools)?;
    // Qwen coder leaves out the opening tag, but not the closing one.
    eat_after_white_space(cursor, TOOL_CALL_END);
    Some(vec![call])
}

/// Reads calls up to `close`, which may be missing at the end of the text.
fn wrapped_calls(
    cursor: &mut TextCursor<'_>,
    close: &str,
    tools: &[ToolDefinition],
) -> Option<Vec<TextCall>> {
    let mut calls = Vec::new();
    loop {
        cursor.skip_white_space();
        let has_ended = || cursor.rest.is_empty() || cursor.starts_with(TOOL_CALL);
        if !calls.is_empty() && (has_ended() || cursor.eat(close)) {
            return Some(calls);
        }
        calls.push(if cursor.starts_with("{") {
            json_call(&cursor.take_json()?, tools)?
        } else {
            tagged_call(cursor, tools)?
        });
    }
}

/// Reads a list of calls, or `NAME[ARGS]{…}` with an optional call id.
fn mistral_calls(cursor: &mut TextCursor<'_>, tools: &[ToolDefinition]) -> Option<Vec<TextCall>> {
    cursor.skip_white_space();
    let calls = if cursor.starts_with("[") {
        let list = cursor.take_json()?;
        list.as_array()?
            .iter()
            .map(|call| json_call(call, tools))
            .collect::<Option<_>>()?
    } else if cursor.starts_with("{") {
        vec![json_call(&cursor.take_json()?, tools)?]
    } else {
        let (name, rest) = cursor.rest.split_at(cursor.rest.find(['[', '{'])?);
        cursor.rest = rest;
        let tool = find(tools, name.trim())?;
        if cursor.eat("[CALL_ID]") {
            cursor.take_until("[ARGS]")?;
        } else {
            cursor.eat("[ARGS]");
        }
        cursor.skip_white_space();
        let arguments = cursor.take_json().filter(Value::is_object)?;
        vec![TextCall {
            name: tool.name.clone(),
            arguments,
        }]
    };
    eat_after_white_space(cursor, TOOL_CALLS_END);
    Some(calls)
}

/// Reads calls that are JSON objects with semicolons between them.
fn llama_calls(cursor: &mut TextCursor<'_>, tools: &[ToolDefinition]) -> Option<Vec<TextCall>> {
    let mut calls = Vec::new();
    loop {
        cursor.skip_white_space();
        calls.push(json_call(&cursor.take_json()?, tools)?);
        if !eat_after_white_space(cursor, ";") {
            return Some(calls);
        }
    }
}

/// Reads `{"name": …, "arguments": {…}}`, or `parameters` instead of `arguments`.
fn json_call(call: &Value, tools: &[ToolDefinition]) -> Option<TextCall> {
    let fields = call.as_object()?;
    let tool = find(tools, fields.get("name")?.as_str()?)?;
    let arguments = match fields.get("arguments").or_else(|| fields.get("parameters")) {
        Some(arguments) => parse_arguments(&arguments.to_string()),
        None if fields.len() == 1 => Value::Object(JsonObject::new()),
        None => return None,
    };
    Some(TextCall {
        name: tool.name.clone(),
        arguments,
    })
}

/// Reads a call with a tag for each argument. Returns `None` if the text is not a complete call of
/// a known tool.
fn tagged_call(cursor: &mut TextCursor<'_>, tools: &[ToolDefinition]) -> Option<TextCall> {
    let tags = INVOKES
        .iter()
        .chain([&FUNCTION])
        .find(|tags| cursor.starts_with(tags.call))?;
    cursor.eat(tags.call);
    let tool = find(tools, tags.name(cursor.take_until(">")?)?)?;
    let mut arguments = JsonObject::new();
    loop {
        cursor.skip_white_space();
        if cursor.eat(tags.call_end) || is_end(cursor.rest) {
            return Some(TextCall {
                name: tool.name.clone(),
                arguments: Value::Object(arguments),
            });
        }
        if !cursor.eat(tags.parameter) {
            return None;
        }
        let key = tags.name(cursor.take_until(">")?)?;
        let value = convert_argument(trim_line_breaks(tags.value(cursor)?), key, &tool.parameters);
        arguments.insert(key.to_owned(), value);
    }
}

impl CallTags {
    /// Returns the name of a tool or argument from the rest of its tag.
    pub(super) fn name<'t>(&self, tag: &'t str) -> Option<&'t str> {
        if self.call.ends_with('=') {
            Some(tag.trim())
        } else {
            attribute_value(tag, "name")
        }
    }

    /// Returns the text up to the end of a value. A closing tag within the value does not end it.
    fn value<'t>(&self, cursor: &mut TextCursor<'t>) -> Option<&'t str> {
        let mut from = 0;
        loop {
            let end = from + cursor.rest[from..].find(self.parameter_end)?;
            from = end + self.parameter_end.len();
            let after = cursor.rest[from..].trim_start();
            if after.starts_with(self.parameter)
                || after.starts_with(self.call_end)
                || is_end(after)
            {
                let value = &cursor.rest[..end];
                cursor.rest = &cursor.rest[from..];
                return Some(value);
            }
        }
    }
}

/// Returns true if `rest` is empty or begins with the closing tag of an enclosing wrapper. The
/// block's own closing tag is then missing.
fn is_end(rest: &str) -> bool {
    let is_wrapper_end = |end: &str| rest.starts_with(end);
    rest.is_empty()
        || is_wrapper_end(TOOL_CALL_END)
        || WRAPPERS.iter().any(|(_, end)| is_wrapper_end(end))
}

/// Returns the value of an attribute such as `name="VALUE"`.
fn attribute_value<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let is_start = |at: usize| at == 0 || tag.as_bytes()[at - 1].is_ascii_whitespace();
    let (at, _) = tag.match_indices(name).find(|(at, _)| is_start(*at))?;
    let rest = tag[at + name.len()..]
        .trim_start()
        .strip_prefix('=')?
        .trim_start();
    let quote = rest
        .chars()
        .next()
        .filter(|mark| matches!(mark, '"' | '\''))?;
    rest[1..].split_once(quote).map(|(value, _)| value)
}

/// Skips white space and `word`. Returns false and skips nothing if `word` does not follow.
fn eat_after_white_space(cursor: &mut TextCursor<'_>, word: &str) -> bool {
    let mut next = *cursor;
    next.skip_white_space();
    let is_next = next.eat(word);
    if is_next {
        *cursor = next;
    }
    is_next
}

fn find<'t>(tools: &'t [ToolDefinition], name: &str) -> Option<&'t ToolDefinition> {
    tools.iter().find(|tool| tool.name == name)
}

//! Everything that a tool can do wrong without unsafe code. `c-hostile` does the rest.

use std::hint::black_box;
use std::panic::panic_any;
use std::path::PathBuf;
use std::time::Duration;

use goondan_abi::sdk::{ToolContext, ToolError, export_tools};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

/// Tests write over this, and over the same text in a description, in copies of the library: each copy is another library
/// with the same code.
static MARKER: [u8; 16] = *b"GENERATION-00000";

/// Nothing to say
#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A file to wait for
#[derive(Deserialize, JsonSchema)]
struct WaitFor {
    /// Its path
    file: PathBuf,
}

fn panic_at_once(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    panic!("at once, with {}", "a text of its own")
}

async fn panic_in_future(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    std::future::ready(()).await;
    panic!("in a future")
}

/// A panic whose payload panics when it is dropped.
fn panic_in_payload(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    panic_any(Bomb)
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any(Box::new(0_u8))
    }
}

fn panic_in_result(_ctx: ToolContext, _input: Nothing) -> Result<Unspeakable, ToolError> {
    Ok(Unspeakable)
}

struct Unspeakable;

impl Serialize for Unspeakable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("in the result")
    }
}

/// A panic in a thread of the tool's own, which nobody joins.
fn panic_in_thread(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    let panicked = std::thread::spawn(|| panic!("in a thread")).join().is_err();
    Ok(json!({ "panicked": panicked }))
}

/// Ten megabytes.
fn huge(_ctx: ToolContext, _input: Nothing) -> Result<String, ToolError> {
    Ok("x".repeat(10 * 1024 * 1024))
}

/// Ignores cancellation for as long as the process lives.
fn never(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    loop {
        std::thread::sleep(Duration::from_secs(3_600));
    }
}

/// Ignores cancellation until a file is there.
fn late(_ctx: ToolContext, input: WaitFor) -> Result<Value, ToolError> {
    while !input.file.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(json!({ "late": true }))
}

/// Leaves a thread behind that goes on talking about a call that is over, in a library that may be closed.
fn linger(ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    std::thread::spawn(move || {
        loop {
            ctx.logger().info("still here");
            ctx.progress("still here", serde_json::Map::new());
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    Ok(json!({ "left": 1 }))
}

/// Says which copy of the library this is, from a thread whose thread-locals have destructors.
fn generation(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    let marker = String::from_utf8_lossy(black_box(&MARKER)).into_owned();
    LAST_WORDS.with(|words| words.said.set(words.said.get() + 1));
    Ok(json!({ "marker": marker }))
}

struct LastWords {
    said: std::cell::Cell<u32>,
}

impl Drop for LastWords {
    fn drop(&mut self) {
        // Touches this library's code and data when the thread ends.
        black_box(String::from_utf8_lossy(black_box(&MARKER)).into_owned());
        black_box(self.said.get());
    }
}

thread_local! {
    static LAST_WORDS: LastWords = const { LastWords { said: std::cell::Cell::new(0) } };
}

/// Writes on standard output, which does not belong to a tool.
fn chatter(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    #[allow(clippy::print_stdout)]
    {
        println!("{{\"complete\": nonsense");
    }
    Ok(json!({ "said": true }))
}

/// Takes the whole process along.
fn crash(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    std::process::abort()
}

/// Fails in every way that an error can be said.
fn fail(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    Err(ToolError::new("no such thing")
        .code("E_NOT_FOUND")
        .suggest("ask for another")
        .help("https://example.com/help"))
}

/// The `?` of a standard error.
fn fail_by_question_mark(_ctx: ToolContext, input: WaitFor) -> Result<String, ToolError> {
    Ok(std::fs::read_to_string(input.file)?)
}

/// The `log` crate, forwarded.
fn log_line(_ctx: ToolContext, _input: Nothing) -> Result<Value, ToolError> {
    log::warn!("by the log crate");
    Ok(Value::Null)
}

export_tools! {
    tools = [
        panic_at_once,
        panic_in_future,
        panic_in_payload,
        panic_in_result,
        panic_in_thread,
        huge,
        never,
        late,
        linger,
        generation => description("Says that it is GENERATION-00000"),
        chatter,
        crash,
        fail,
        fail_by_question_mark,
        log_line,
    ],
}

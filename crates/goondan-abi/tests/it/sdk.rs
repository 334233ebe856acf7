//! Drives an SDK library through its symbol, with a host that records completions.

use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of};
use std::sync::mpsc::{Receiver, Sender, channel};

use goondan_abi::raw::{self, Bytes, Host, Library, Plugin, Status};
#[cfg(not(miri))]
use goondan_abi::sdk::export_tools;
use goondan_abi::sdk::{Output, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

fn plain(_ctx: ToolContext, input: Text) -> Result<String, ToolError> {
    Ok(input.text)
}

async fn rich(ctx: ToolContext, input: Text) -> Result<Output, ToolError> {
    Ok(Output::new(input.text)?
        .title("a title")
        .metadata("agent", ctx.agent_name()))
}

async fn waits(ctx: ToolContext, _input: Text) -> Result<(), ToolError> {
    ctx.cancelled().await;
    Err(ToolError::new("stopped"))
}

#[cfg(not(miri))]
export_tools! {
    name = "subject",
    version = "1.2.3",
    tools = [plain, rich => named("rich-one"), waits],
}

/// Equivalent to `export_tools!`. Miri finds no symbols, so the tests use the Rust path.
#[cfg(miri)]
mod exported {
    use goondan_abi::sdk::{Exported, Library, plugin, tool};

    struct Tools;

    impl Exported for Tools {
        fn library() -> Library {
            let tools = vec![
                tool("plain", super::plain),
                tool("rich", super::rich).named("rich-one"),
                tool("waits", super::waits),
            ];
            Library::new("subject", "1.2.3", tools)
        }
    }

    #[allow(non_upper_case_globals)]
    pub(super) static goondan_plugin: super::Plugin = plugin::<Tools>();
}
#[cfg(miri)]
use exported::goondan_plugin;

#[cfg(not(miri))]
unsafe extern "C" {
    /// The symbol that a loader resolves.
    static goondan_plugin: Plugin;
}

/// Results of calls: call, status, payload.
type Completions = Receiver<(u64, Status, Value)>;

unsafe extern "C" fn complete(ctx: *mut c_void, call: u64, status: Status, bytes: Bytes) -> Status {
    // SAFETY: `open` leaked the sender, and the SDK lends the bytes for this call.
    let (sender, bytes) = unsafe {
        (
            &*ctx.cast::<Sender<(u64, Status, Value)>>(),
            bytes.as_slice(),
        )
    };
    let payload = bytes
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default();
    sender
        .send((call, status, payload))
        .map_or(Status::CLOSED, |()| Status::OK)
}

unsafe extern "C" fn ignore_message(_: *mut c_void, _: u64, _: Bytes) -> Status {
    Status::OK
}

unsafe extern "C" fn request(_: *mut c_void, _: u64, _: u64, _: Bytes, _: Bytes) -> Status {
    Status::UNKNOWN_OPERATION
}

unsafe extern "C" fn cancelled(_: *mut c_void, _: u64) -> i32 {
    0
}

fn host() -> (&'static Host, Completions) {
    let (sender, completions) = channel();
    let host = Host {
        ctx: Box::into_raw(Box::new(sender)).cast(),
        struct_size: size_of::<Host>() as u32,
        abi_major: raw::ABI_MAJOR,
        abi_minor: raw::ABI_MINOR,
        max_payload: 1_000,
        complete: Some(complete),
        progress: Some(ignore_message),
        log: Some(ignore_message),
        request: Some(request),
        cancelled: Some(cancelled),
    };
    (Box::leak(Box::new(host)), completions)
}

fn open(host: &'static Host) -> Result<Library, Status> {
    let mut table = MaybeUninit::<Library>::zeroed();
    #[cfg_attr(miri, allow(unused_unsafe))]
    // SAFETY: `export_tools!` above defines the symbol with this type.
    let open = unsafe { goondan_plugin.open }.expect("the SDK sets the function");
    // SAFETY: the host and the target of its `ctx` are leaked, and `table` has the stated size.
    match unsafe { open(host, table.as_mut_ptr(), size_of::<Library>()) } {
        // SAFETY: zeroed memory is a `Library`, and `open` wrote a prefix of one.
        Status::OK => Ok(unsafe { table.assume_init() }),
        refused => Err(refused),
    }
}

fn start(library: &Library, call: u64, request: &[u8]) -> Status {
    let start = library.start.expect("the SDK sets the function");
    // SAFETY: `library` is open, and the bytes live during the call.
    unsafe { start(library.this, call, Bytes::of(request)) }
}

fn request_for(export: &str, arguments: &Value) -> Vec<u8> {
    let context = json!({
        "agentName": "assistant", "instanceKey": "main", "turnId": "t", "traceId": "x", "toolCallId": "c", "workdir": "/",
        "timeoutMs": 1, "somethingNew": true
    });
    json!({ "tool": "t", "export": export, "arguments": arguments, "context": context })
        .to_string()
        .into_bytes()
}

#[test]
fn every_call_is_completed_with_a_result_or_an_error() {
    let (host, completions) = host();
    let library = open(host).expect("the library opens");
    let text = json!({ "text": "x" });
    let ask = |call, export, arguments| {
        assert_eq!(
            start(&library, call, &request_for(export, arguments)),
            Status::OK
        );
        completions.recv().expect("the call is completed")
    };
    assert_eq!(
        ask(1, "plain", &text),
        (1, Status::OK, json!({ "output": "x" }))
    );
    let rich = json!({ "output": "x", "title": "a title", "metadata": { "agent": "assistant" } });
    assert_eq!(ask(2, "rich-one", &text), (2, Status::OK, rich));
    let (_, status, error) = ask(3, "nothing", &text);
    assert_eq!(
        (status, &error["message"]),
        (
            Status::FAILED,
            &json!("this library has no export `nothing`")
        )
    );
    let (_, status, error) = ask(4, "plain", &json!({}));
    assert_eq!(
        (status, &error["code"]),
        (Status::FAILED, &json!("E_TOOL_INVALID_ARGS"))
    );
    assert_eq!(start(&library, 5, b"{"), Status::BAD_ARGUMENT);
}

#[test]
fn close_cancels_and_joins_running_calls() {
    let (host, completions) = host();
    let library = open(host).expect("the library opens");
    assert_eq!(
        start(&library, 1, &request_for("waits", &json!({ "text": "" }))),
        Status::OK
    );
    let close = library.close.expect("the SDK sets the function");
    // SAFETY: `library` is open, and is not used after this call.
    assert_eq!(unsafe { close(library.this, 60_000) }, Status::OK);
    assert_eq!(
        completions.recv().expect("the call is completed").2["message"],
        "stopped"
    );
}

#[test]
fn a_host_table_without_a_required_function_is_rejected() {
    let (whole, _completions) = host();
    // Simulates a table that ends before `cancelled`.
    let size = std::mem::offset_of!(Host, cancelled) as u32;
    let older = Box::leak(Box::new(Host {
        struct_size: size,
        ..*whole
    }));
    assert_eq!(open(older).err(), Some(Status::BAD_ARGUMENT));
}

#[test]
fn the_manifest_lists_the_exported_tools() {
    unsafe extern "C" fn put(sink: *mut c_void, bytes: Bytes) {
        // SAFETY: the test passes a vector, and the SDK lends the bytes for this call.
        unsafe {
            (*sink.cast::<Vec<u8>>()).extend_from_slice(bytes.as_slice().unwrap_or_default())
        };
    }
    let (host, _completions) = host();
    let library = open(host).expect("the library opens");
    let mut written: Vec<u8> = Vec::new();
    let describe = library.describe.expect("the SDK sets the function");
    assert_eq!(
        // SAFETY: `library` is open, and `put` takes the vector.
        unsafe { describe(library.this, (&raw mut written).cast(), put) },
        Status::OK
    );
    let manifest: Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(
        (&manifest["name"], &manifest["version"]),
        (&json!("subject"), &json!("1.2.3"))
    );
    let names: Vec<&str> = manifest["exports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|e| e["name"].as_str())
        .collect();
    assert_eq!(names, ["plain", "rich-one", "waits"]);
}

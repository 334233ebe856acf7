//! The inner pieces that are timed (`time.rs`) and whose instructions are counted (`instructions.rs`).

mod swarm;

use std::path::Path;
use std::sync::Arc;

use goondan_core::conversation::Conversation;
use goondan_core::event::{RuntimeEvent, RuntimeEventKind};
use goondan_core::ids::TraceContext;
use goondan_core::message::{
    Message, MessageData, MessageEvent, MessagePart, MessageRole, MessageSource,
};
use goondan_core::ports::clock::{Clock, SystemClock};
use goondan_core::ports::store::StoredConversation;
use goondan_core::ports::tool::ToolCallStatus;
use goondan_core::schema::ArgumentSchema;
use goondan_spec::{BasePackage, LoadInput, MemoryFiles, load};
use serde_json::json;

/// Something that costs time.
pub(crate) struct Piece {
    /// Its name.
    pub(crate) name: &'static str,
    /// Prepares it; what comes back does it once.
    pub(crate) prepare: fn() -> Box<dyn FnMut()>,
}

/// All pieces.
pub(crate) const PIECES: &[Piece] = &[
    Piece {
        name: "decode and check a file of 100 tools",
        prepare: decode,
    },
    Piece {
        name: "check arguments against a schema",
        prepare: check_arguments,
    },
    Piece {
        name: "encode a runtime event",
        prepare: encode_event,
    },
    Piece {
        name: "append and fold 100 messages",
        prepare: fold,
    },
    Piece {
        name: "call an empty tool",
        prepare: swarm::call,
    },
    Piece {
        name: "a turn of 50 tool steps",
        prepare: swarm::turn,
    },
];

fn decode() -> Box<dyn FnMut()> {
    let tool = |number: usize| {
        format!(
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: tool-{number}}}\nspec:\n  entry: ./tool.so\n  exports:\n\
             \x20   - name: look\n      description: Looks.\n      parameters:\n        type: object\n        properties:\n\
             \x20         path: {{type: string, description: Where.}}\n        required: [path]\n"
        )
    };
    let text: Vec<String> = (0..100).map(tool).collect();
    let files = MemoryFiles::new().file("/p/goondan.yaml", text.join("---\n"));
    let base = BasePackage::default();
    Box::new(move || {
        std::hint::black_box(load(LoadInput {
            root: Path::new("/p"),
            files: &files,
            base: &base,
        }));
    })
}

fn check_arguments() -> Box<dyn FnMut()> {
    let schema = ArgumentSchema::new(json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "limit": {"type": "integer", "minimum": 1, "default": 2000},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        },
        "required": ["path"],
        "additionalProperties": false,
    }));
    let arguments = json!({"path": "src/lib.rs", "tags": ["a", "b", "a"]});
    Box::new(move || drop(std::hint::black_box(schema.check(&arguments))))
}

fn encode_event() -> Box<dyn FnMut()> {
    let event = RuntimeEvent {
        sequence: 1,
        kind: RuntimeEventKind::ToolCompleted {
            tool_call_id: "call-1".to_owned(),
            tool_name: "fs__read".to_owned(),
            step_id: "turn-1-s0".to_owned(),
            turn_id: "turn-1".to_owned(),
            status: ToolCallStatus::Ok,
            duration: 3,
            shown: Box::default(),
        },
        timestamp: SystemClock.now(),
        agent_name: "assistant".to_owned(),
        instance_key: "main".to_owned(),
        trace: TraceContext::root("0123456789abcdef0123456789abcdef", None, "turn-1"),
    };
    Box::new(move || drop(std::hint::black_box(serde_json::to_vec(&event))))
}

fn fold() -> Box<dyn FnMut()> {
    let now = SystemClock.now();
    let message = |number: usize| Message {
        id: format!("m{number}"),
        data: MessageData {
            role: MessageRole::User,
            content: vec![MessagePart::text("hello".to_owned())],
        },
        metadata: goondan_core::JsonObject::new(),
        created_at: now,
        source: MessageSource::System,
    };
    let events: Vec<MessageEvent> = (0..100)
        .map(|number| MessageEvent::Append {
            message: message(number),
        })
        .collect();
    Box::new(move || {
        let stored = StoredConversation {
            base: Vec::new(),
            events: Vec::new(),
            warnings: Vec::new(),
        };
        let (mut conversation, _) = Conversation::restore(stored);
        for event in &events {
            drop(conversation.apply(event.clone()));
        }
        std::hint::black_box(conversation.base_change());
        conversation.mark_base_stored();
        std::hint::black_box(Arc::new(conversation));
    })
}

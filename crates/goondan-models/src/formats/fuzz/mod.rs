//! Fuzz tests of the decoders. A damaged answer may be an error, but it never causes a panic or an
//! answer that is much larger than the input.
//!
//! `GDN_FUZZ_SECONDS` sets the time for each format. Without this variable, each format gets a
//! fixed number of rounds.
//! `GDN_FUZZ_SEED` sets the seed, which a failed test prints.

mod mutations;
mod transcripts;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use goondan_core::message::MessagePart;
use goondan_core::ports::model::{CompletedAnswer, ModelChunk, ToolDefinition};
use goondan_spec::sent_schema::ProviderWireFormat;
use serde_json::json;

use self::mutations::FuzzRandom;
use self::transcripts::UnframedEvent;
use super::text_calls::{TextCallFilter, extract_calls};
use super::{AnswerProgress, EventFraming, ModelTarget, WireEvent, WireFormat};
use crate::answer::AnswerBuilder;
use crate::client::format_of;
use crate::formats::call_ids::CallIds;
use crate::provider::provider;
use crate::transport::EventReader;

/// Rounds for each format, unless a time is set.
const FUZZ_ROUNDS: u64 = 2000;

/// Largest event that a reader accepts.
const MAX_EVENT_BYTES: usize = 64 * 1024;

/// Largest size of an answer relative to its bytes on the wire. Content may arrive twice: in pieces
/// and complete.
const MAX_GROWTH: usize = 8;

#[test]
fn damaged_chat_answers_never_panic() {
    fuzz_format("openrouter", ProviderWireFormat::Chat, transcripts::chat());
}

#[test]
fn damaged_responses_answers_never_panic() {
    fuzz_format(
        "openai",
        ProviderWireFormat::Responses,
        transcripts::responses(),
    );
}

#[test]
fn damaged_anthropic_answers_never_panic() {
    fuzz_format(
        "anthropic",
        ProviderWireFormat::Anthropic,
        transcripts::anthropic(),
    );
}

#[test]
fn damaged_gemini_answers_never_panic() {
    fuzz_format("google", ProviderWireFormat::Gemini, transcripts::gemini());
}

#[test]
fn damaged_converse_answers_never_panic() {
    fuzz_format(
        "bedrock",
        ProviderWireFormat::Converse,
        transcripts::converse(),
    );
}

#[test]
fn damaged_ollama_answers_never_panic() {
    fuzz_format("ollama", ProviderWireFormat::Ollama, transcripts::ollama());
}

fn fuzz_format(provider_name: &str, wire: ProviderWireFormat, events: Vec<UnframedEvent>) {
    let target = ModelTarget {
        provider: provider(provider_name).expect("a provider"),
        model: "m".to_owned(),
        prompt_caching: true,
    };
    let format = format_of(wire, target);
    assert_eq!(format.wire_format(), wire);
    assert_transcript_is_complete(&*format, &events);
    let limit = env_number("GDN_FUZZ_SECONDS").map(Duration::from_secs);
    let seed = env_number("GDN_FUZZ_SEED").unwrap_or(1);
    let start = Instant::now();
    let mut round = 0;
    while limit.map_or(round < FUZZ_ROUNDS, |limit| start.elapsed() < limit) {
        let _report = FailedRound { wire, seed, round };
        run_round(&*format, &events, &mut FuzzRandom::new(seed, round));
        round += 1;
    }
}

fn env_number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Prints the round in which a test panics, when it is dropped.
struct FailedRound {
    wire: ProviderWireFormat,
    seed: u64,
    round: u64,
}

impl Drop for FailedRound {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{:?}: round {} of GDN_FUZZ_SEED={}",
                self.wire, self.round, self.seed
            );
        }
    }
}

/// Asserts that the undamaged transcript is an answer with reasoning, text, two calls and usage.
fn assert_transcript_is_complete(format: &dyn WireFormat, events: &[UnframedEvent]) {
    let decoded = decode(
        format,
        &transcripts::body(format.framing(), events),
        &mut FuzzRandom::new(0, 0),
    );
    let answer = decoded.answer.expect("an answer");
    let count_parts = |is_counted: fn(&MessagePart) -> bool| {
        answer.parts.iter().filter(|part| is_counted(part)).count()
    };
    let calls = count_parts(|part| matches!(part, MessagePart::ToolCall(_)));
    assert_eq!(calls, 2, "{answer:?}");
    assert!(
        count_parts(|part| matches!(part, MessagePart::Reasoning { .. })) > 0,
        "{answer:?}"
    );
    assert!(
        count_parts(|part| matches!(part, MessagePart::Text { .. })) > 0 && answer.usage.is_some(),
        "{answer:?}"
    );
}

/// Decodes the events after random damage. Fails if the decoder panics, or if the answer is much
/// larger than the body.
fn run_round(format: &dyn WireFormat, events: &[UnframedEvent], random: &mut FuzzRandom) {
    let mut events = events.to_vec();
    mutations::change_events(&mut events, random);
    let mut body = transcripts::body(format.framing(), &events);
    if random.one_in(2) {
        mutations::change_bytes(&mut body, random);
    }
    let decoded = decode(format, &body, random);
    let max_bytes = MAX_GROWTH * body.len() + 1024;
    assert!(
        decoded.bytes <= max_bytes,
        "{} bytes of {}",
        decoded.bytes,
        body.len()
    );
    if let Some(answer) = decoded.answer {
        check_text_calls(answer, decoded.chunks);
    }
}

struct DecodedAnswer {
    bytes: usize,
    chunks: Vec<ModelChunk>,
    answer: Option<CompletedAnswer>,
}

/// Decodes `body` as the client does, in pieces of any size.
fn decode(format: &dyn WireFormat, body: &[u8], random: &mut FuzzRandom) -> DecodedAnswer {
    let mut reader = EventReader::new(format.framing(), MAX_EVENT_BYTES);
    let mut decoder = format.decoder();
    let mut answer = AnswerBuilder::new("family");
    let mut is_open = true;
    let mut sink = |event: WireEvent<'_>| {
        if is_open && !event.data.is_empty() {
            is_open = matches!(decoder.decode(event, &mut answer), Ok(AnswerProgress::More));
        }
    };
    let mut rest = body;
    let mut is_readable = true;
    while !rest.is_empty() && is_readable {
        let (piece, later) = rest.split_at(1 + random.number_below(rest.len()));
        is_readable = reader.take(piece, &mut sink).is_ok();
        rest = later;
    }
    is_readable = is_readable && reader.finish(&mut sink).is_ok();
    let chunks = std::iter::from_fn(|| answer.next_chunk()).collect();
    let bytes = answer.bytes();
    let answer = answer.complete(&mut CallIds::new(&HashSet::new()));
    DecodedAnswer {
        bytes,
        chunks,
        answer: answer.ok().filter(|_| is_readable),
    }
}

/// Extracts text calls, and asserts that the streamed text equals the text of the answer. A damaged
/// answer may reorder its blocks at the end. Then only a panic is a failure.
fn check_text_calls(answer: CompletedAnswer, chunks: Vec<ModelChunk>) {
    let tool = ToolDefinition {
        name: "t__x".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    let tools: Arc<[ToolDefinition]> = Arc::from([tool]);
    let taken_ids = HashSet::new();
    let is_in_order = shown_text(&chunks) == answer_text(&answer);
    let answer = extract_calls(answer, &tools, &mut CallIds::new(&taken_ids));
    let expected = answer_text(&answer);
    let mut filter = TextCallFilter::new(tools);
    let finish = ModelChunk::Finish(Box::new(answer));
    let chunks: Vec<_> = chunks
        .into_iter()
        .chain([finish])
        .flat_map(|chunk| filter.filter(chunk))
        .collect();
    if is_in_order {
        assert_eq!(shown_text(&chunks), expected);
    }
}

fn answer_text(answer: &CompletedAnswer) -> String {
    answer
        .parts
        .iter()
        .filter_map(MessagePart::as_text)
        .collect()
}

fn shown_text(chunks: &[ModelChunk]) -> String {
    let text = |chunk: &ModelChunk| match chunk {
        ModelChunk::Text(text) => Some(text.clone()),
        ModelChunk::Reasoning(_) | ModelChunk::Finish(_) => None,
    };
    chunks.iter().filter_map(text).collect()
}

/// Returns the end of an event in `framing`.
fn event_separator(framing: EventFraming) -> &'static str {
    match framing {
        EventFraming::ServerSentEvents => "\n\n",
        EventFraming::JsonLines | EventFraming::AmazonEvents => "\n",
    }
}

//! Tests of time limits. The paused clock advances when all tasks wait.

use std::collections::HashSet;

use goondan_core::message::MessagePart;
use goondan_core::ports::model::CompletedAnswer;
use goondan_spec::Environment;
use goondan_spec::sent_schema::ProviderWireFormat;
use serde_json::json;

use super::*;
use crate::client::key;
use crate::client::settings::ClientSettings;
use crate::formats::call_ids::CallIds;
use crate::formats::chat::ChatFormat;
use crate::formats::{EventFraming, ModelTarget, WireFormat};
use crate::provider::provider;
use crate::testing::model;

const TEXT_EVENT: &str = "data: {\"choices\": [{\"delta\": {\"content\": \"Hi\"}}]}\n\n";
const FINISH_EVENT: &str =
    "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n";
const USAGE_EVENT: &str = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 1}}\n\n";
const COMMENT: &str = ": keep-alive\n\n";
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// Idle timeout of the answers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Seconds of delay, and the following piece of a body.
type Piece = (u64, &'static str);

/// Returns the outcome of an answer that arrives in `pieces`. The connection stays open after them.
async fn outcome_of(
    pieces: impl IntoIterator<Item = Piece, IntoIter: Send + 'static>,
) -> Result<CompletedAnswer, ModelError> {
    let pieces = futures::stream::unfold(pieces.into_iter(), |mut pieces| async move {
        let Some((seconds, piece)) = pieces.next() else {
            return std::future::pending().await;
        };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Some((Ok::<_, std::io::Error>(piece), pieces))
    });
    let body = reqwest::Body::wrap_stream(pieces);
    let mut answer = answer_stream(Response::from(http::Response::new(body)));
    while let Some(chunk) = answer.next().await {
        if let ModelChunk::Finish(completed) = chunk? {
            return Ok(*completed);
        }
    }
    panic!("the stream ended without a final chunk")
}

fn answer_stream(response: Response) -> AnswerStream {
    let provider = provider("llamacpp").expect("a provider");
    let model = model("llamacpp", json!({}));
    let environment = Environment::default();
    let settings = ClientSettings::from_model(&model, provider, &environment).expect("settings");
    let key = key::find(&model, provider, &environment).expect("no key");
    let failures = FailureContext::new(&model, provider, ProviderWireFormat::Chat, &key, &settings);
    let target = ModelTarget {
        provider,
        model: "m".to_owned(),
        prompt_caching: false,
    };
    AnswerStream::new(
        response,
        EventReader::new(EventFraming::ServerSentEvents, MAX_ANSWER_BYTES),
        ChatFormat::new(target).decoder(),
        AnswerBuilder::new("llamacpp"),
        Box::new(|answer| answer.complete(&mut CallIds::new(&HashSet::new()))),
        (&Arc::new(failures), &"host".into()),
        IDLE_TIMEOUT,
    )
}

/// Repeats `piece` every `seconds`, without end.
fn repeat_every(seconds: u64, piece: &'static str) -> impl Iterator<Item = Piece> + Send + 'static {
    std::iter::repeat((seconds, piece))
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_a_finish_reason_ends_without_connection_close() {
    let whole = || [(0, TEXT_EVENT), (0, FINISH_EVENT)].into_iter();
    let silent = outcome_of(whole()).await;
    let pinged = outcome_of(whole().chain(repeat_every(1, COMMENT))).await;
    for answer in [silent, pinged] {
        assert_eq!(answer.expect("an answer").parts, [MessagePart::text("Hi")]);
    }
}

#[tokio::test(start_paused = true)]
async fn usage_is_read_only_shortly_after_the_finish_reason() {
    for (seconds, counts) in [(1, true), (5, false)] {
        let answer = outcome_of([(0, TEXT_EVENT), (0, FINISH_EVENT), (seconds, USAGE_EVENT)]).await;
        let usage = answer.expect("an answer").usage;
        assert_eq!(usage.is_some(), counts, "{seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_finish_reason_hits_the_idle_timeout() {
    for pieces in [
        vec![],
        vec![(0, TEXT_EVENT)],
        vec![(0, TEXT_EVENT), (1, "data: {")],
    ] {
        let error = outcome_of(pieces).await.expect_err("silence");
        assert_eq!(error.message, "host sent nothing for 120 seconds.");
        assert_eq!(error.kind, ModelErrorKind::Connection);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_answers_within_the_idle_timeout_are_complete() {
    let slow = [(119, TEXT_EVENT), (119, TEXT_EVENT), (119, FINISH_EVENT)];
    let answer = outcome_of(slow).await.expect("an answer");
    assert_eq!(answer.parts, [MessagePart::text("HiHi")]);
}

#[tokio::test(start_paused = true)]
async fn keep_alives_extend_the_idle_timeout_tenfold() {
    for keep_alive in [COMMENT, PING] {
        let answer_after = |count| {
            let pings = repeat_every(60, keep_alive).take(count);
            outcome_of(pings.chain([(0, TEXT_EVENT), (0, FINISH_EVENT)]))
        };
        assert!(answer_after(19).await.is_ok(), "19 minutes");
        let error = answer_after(21).await.expect_err("21 minutes");
        assert!(error.message.contains("sent nothing"), "{error:?}");
    }
}

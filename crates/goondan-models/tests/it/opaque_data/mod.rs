//! Conversations of ten steps with servers that reject requests without their earlier opaque data.

mod anthropic;
mod chat;
mod conversation;
mod converse;
mod gemini;
mod ollama;
mod responses;
mod server;

use goondan_core::ports::model::ModelErrorKind;

use crate::common::failure;
use conversation::Conversation;
use server::{Family, StrictServer};

/// Number of model calls in a conversation.
const STEPS: usize = 10;

/// Last step of each part of a conversation. Another provider answers the second part.
const PART_ENDS: [usize; 3] = [3, 6, 9];

fn families() -> impl Iterator<Item = &'static Family> {
    [
        chat::FAMILIES,
        anthropic::FAMILIES,
        responses::FAMILIES,
        gemini::FAMILIES,
        ollama::FAMILIES,
        converse::FAMILIES,
    ]
    .into_iter()
    .flatten()
}

#[tokio::test]
async fn every_provider_receives_its_own_opaque_data() {
    for family in families() {
        let server = StrictServer::start(family).await;
        let mut conversation = Conversation::begin("What is the weather?");
        for step in 0..STEPS {
            server.end_turn(step + 1 == STEPS);
            conversation.step(&server.client).await;
        }
        assert_eq!(conversation.text(), server.text());
        let last = server.bodies().pop().expect("a body").to_string();
        assert!(last.contains(family.marker), "{}: {last}", family.name);
    }
}

#[tokio::test]
async fn requests_without_required_opaque_data_are_rejected() {
    for family in families() {
        let server = StrictServer::start(family).await;
        let mut conversation = Conversation::begin("What is the weather?");
        conversation.step(&server.client).await;
        conversation.remove_opaque_data();
        let error = failure(&server.client, conversation.request()).await;
        assert_eq!(error.kind, ModelErrorKind::Status(400), "{error:?}");
        assert!(error.message.contains(family.error_message), "{error:?}");
    }
}

#[tokio::test]
async fn a_restart_does_not_change_requests() {
    for family in families() {
        let (without, with) = (
            StrictServer::start(family).await,
            StrictServer::start(family).await,
        );
        let mut conversation = Conversation::begin("What is the weather?");
        let mut restarted = Conversation::begin("What is the weather?");
        for _ in 0..STEPS {
            conversation.step(&without.client).await;
            restarted.step(&with.client).await;
            restarted.restart();
        }
        assert_eq!(with.bodies(), without.bodies(), "{}", family.name);
    }
}

#[tokio::test]
async fn opaque_data_is_not_sent_to_another_provider_in_the_same_turn() {
    for (first, second) in pairs() {
        run_with_two_providers(first, second, false).await;
    }
}

#[tokio::test]
async fn opaque_data_is_not_sent_to_another_provider_in_the_next_turn() {
    for (first, second) in pairs() {
        run_with_two_providers(first, second, true).await;
    }
}

/// Returns all pairs of providers that do not exchange opaque data.
fn pairs() -> impl Iterator<Item = (&'static Family, &'static Family)> {
    let pairs = families().flat_map(|first| families().map(move |second| (first, second)));
    pairs.filter(|(first, second)| first.owner != second.owner)
}

/// Runs a conversation in which another provider answers the second part. With `has_turns`, each
/// part is a turn. Otherwise, all parts are one turn.
async fn run_with_two_providers(first: &'static Family, second: &'static Family, has_turns: bool) {
    let servers = [
        StrictServer::start(first).await,
        StrictServer::start(second).await,
    ];
    let mut conversation = Conversation::begin("What is the weather?");
    for step in 0..STEPS {
        let part = PART_ENDS.iter().position(|end| step <= *end).unwrap_or(0);
        let server = &servers[part % 2];
        let ends_part = PART_ENDS.contains(&step);
        server.end_turn(ends_part && (has_turns || step + 1 == STEPS));
        conversation.step(&server.client).await;
        if ends_part && has_turns {
            conversation.add_input("And tomorrow?");
        }
        conversation.restart();
    }
    for (server, other) in [(&servers[0], second), (&servers[1], first)] {
        for body in server.bodies() {
            let text = body.to_string();
            assert!(!text.contains(other.marker), "{}: {text}", other.name);
        }
    }
}

#[tokio::test]
async fn providers_of_one_owner_exchange_opaque_data() {
    let kimi = chat::FAMILIES.iter().find(|family| family.name == "kimi");
    let servers = [
        StrictServer::start(kimi.expect("Kimi")).await,
        StrictServer::start(&chat::MOONSHOT).await,
    ];
    let mut conversation = Conversation::begin("What is the weather?");
    conversation.step(&servers[0].client).await;
    conversation.restart();
    servers[1].end_turn(true);
    conversation.step(&servers[1].client).await;
    let body = servers[1].bodies().remove(0).to_string();
    assert!(body.contains("MOON 0"), "{body}");
}

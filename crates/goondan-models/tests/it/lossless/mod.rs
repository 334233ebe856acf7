//! Conversations of ten steps against servers that refuse a request which lacks what they gave before.

mod chat;
mod conversation;
mod server;

use conversation::Conversation;
use server::{Family, StrictServer};

/// Number of model calls in a conversation.
const STEPS: usize = 10;

/// Steps after which the conversation changes to another provider, and back.
const SWITCHES: [usize; 2] = [4, 7];

fn families() -> Vec<&'static Family> {
    chat::FAMILIES.iter().collect()
}

#[tokio::test]
async fn every_provider_gets_back_what_it_gave() {
    for family in families() {
        let server = StrictServer::start(family, STEPS).await;
        let client = server.client();
        let mut conversation = Conversation::begin("What is the weather?");
        for _ in 0..STEPS {
            conversation.step(&client).await;
        }
        assert_eq!(conversation.text(), server.last_text(), "{}", family.name);
        assert_eq!(server.count(), STEPS, "{}", family.name);
    }
}

#[tokio::test]
async fn restarts_change_no_request() {
    for family in families() {
        let (without, with) = (
            StrictServer::start(family, STEPS).await,
            StrictServer::start(family, STEPS).await,
        );
        let mut conversation = Conversation::begin("What is the weather?");
        let mut restarted = Conversation::begin("What is the weather?");
        for _ in 0..STEPS {
            conversation.step(&without.client()).await;
            restarted.step(&with.client()).await;
            restarted.restart();
        }
        assert_eq!(with.bodies(), without.bodies(), "{}", family.name);
    }
}

#[tokio::test]
async fn another_provider_gets_nothing_of_the_first() {
    for first in families() {
        for second in families() {
            if first.owner == second.owner {
                continue;
            }
            let servers = [
                StrictServer::start(first, STEPS).await,
                StrictServer::start(second, STEPS).await,
            ];
            let mut conversation = Conversation::begin("What is the weather?");
            for step in 0..STEPS {
                let is_second = (SWITCHES[0]..SWITCHES[1]).contains(&step);
                conversation
                    .step(&servers[usize::from(is_second)].client())
                    .await;
                conversation.restart();
            }
            for (server, other) in [(&servers[0], second), (&servers[1], first)] {
                for body in server.bodies() {
                    let text = body.to_string();
                    assert!(!text.contains(other.mark), "{}: {text}", other.name);
                }
            }
        }
    }
}

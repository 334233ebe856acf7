//! Who makes cases of conversations.

use std::fmt;

use futures::future::BoxFuture;
use goondan::Swarm;
use goondan::ids::InstanceId;

use crate::wire::CaseBody;

/// Makes cases of conversations. What a case is, this crate does not know: the program around it does.
pub trait Recorder: fmt::Debug + Send + Sync {
    /// The case of a conversation, or of the turn of one of its messages.
    fn record<'r>(
        &'r self,
        swarm: &'r Swarm,
        instance: &'r InstanceId,
        message: Option<&'r str>,
    ) -> BoxFuture<'r, Result<CaseBody, NotRecorded>>;
}

/// Why there is no case: sentences that stand alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotRecorded(pub String);

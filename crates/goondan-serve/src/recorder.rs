//! Interface for recording conversations as test cases.

use std::fmt;

use futures::future::BoxFuture;
use goondan::Swarm;
use goondan::ids::InstanceId;

use crate::wire::CaseBody;

/// Records conversations as test cases. The calling program implements it; this crate does not
/// depend on the case format.
pub trait CaseRecorder: fmt::Debug + Send + Sync {
    /// Returns the test case of a conversation, or of the turn of one of its messages.
    fn record<'r>(
        &'r self,
        swarm: &'r Swarm,
        instance: &'r InstanceId,
        message: Option<&'r str>,
    ) -> BoxFuture<'r, Result<CaseBody, NotRecorded>>;
}

/// Reasons why there is no test case, as complete sentences.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotRecorded(pub String);

//! Requests to the host that wait for a reply.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use serde::Serialize;
use serde_json::Value;

use super::cancellation::CancellationSignal;
use super::host::HostLink;
use crate::raw::Status;
use crate::wire::{ToolError, code};

type Reply = Result<Value, ToolError>;

/// The requests of one library. A reply to an operation that is not in the map is dropped.
#[derive(Default)]
pub(super) struct PendingOperations {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, PendingReply>>,
}

#[derive(Default)]
struct PendingReply {
    reply: Option<Reply>,
    waker: Option<Waker>,
}

impl PendingOperations {
    /// Requests the operation `name` for `call`, and waits for the reply or the cancellation.
    pub(super) async fn request_host(
        &self,
        host: HostLink,
        call: u64,
        cancellation: &CancellationSignal,
        name: &str,
        payload: &impl Serialize,
    ) -> Reply {
        let operation = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(operation, PendingReply::default());
        let _forget = OperationGuard {
            operations: self,
            operation,
        };
        match host.request(call, operation, name, payload) {
            Status::OK => {}
            Status::CANCELLED | Status::UNKNOWN_CALL => return Err(call_ended_error(name)),
            refused => {
                return Err(ToolError::new(format!(
                    "gdn rejected `{name}`: {}",
                    refused.name()
                )));
            }
        }
        let mut cancellation = cancellation.listen();
        poll_fn(|context| {
            if let Some(waiting) = self.lock().get_mut(&operation) {
                if let Some(reply) = waiting.reply.take() {
                    return Poll::Ready(reply);
                }
                waiting.waker = Some(context.waker().clone());
            }
            cancellation
                .poll(context)
                .map(|()| Err(call_ended_error(name)))
        })
        .await
    }

    /// Ends a waiting operation with the reply of the host.
    pub(super) fn reply(&self, operation: u64, status: Status, bytes: &[u8]) {
        let reply = read_reply(status, bytes);
        let waker = self.lock().get_mut(&operation).and_then(|waiting| {
            waiting.reply = Some(reply);
            waiting.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, PendingReply>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes an operation from the map when its future is dropped.
struct OperationGuard<'a> {
    operations: &'a PendingOperations,
    operation: u64,
}

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        self.operations.lock().remove(&self.operation);
    }
}

/// Returns the error of an operation whose call ended first.
fn call_ended_error(name: &str) -> ToolError {
    ToolError::new(format!("the call ended while `{name}` was waiting")).code(code::CANCELLED)
}

/// Decodes the reply of the host.
fn read_reply(status: Status, bytes: &[u8]) -> Reply {
    if status == Status::OK {
        return Ok(serde_json::from_slice(bytes)?);
    }
    Err(serde_json::from_slice(bytes).unwrap_or_else(|_| {
        let error = ToolError::new(format!("gdn returned {}", status.name()));
        if status == Status::CANCELLED {
            error.code(code::CANCELLED)
        } else {
            error
        }
    }))
}

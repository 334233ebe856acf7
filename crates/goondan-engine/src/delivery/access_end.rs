//! End of the access that a chain of calls has to a conversation. An agent that starts a
//! conversation with another user's key has access to it until that user takes it over. Work that
//! the agent has planted there, such as scheduled jobs, open requests and background programs, must
//! not outlive the access: it would show the agent what the user writes later.

use std::iter::successors;

use chrono::{DateTime, Utc};
use goondan_core::ids::InstanceId;

/// Maximum number of ancestors of a conversation that are searched: the one that started it, the one
/// that started that one, and so on.
const MAX_OWNERS: usize = 64;

/// Returns the conversation that started this one, the one that started that one, and so on.
pub(crate) fn owners(
    id: &InstanceId,
    owner_of: impl Fn(&InstanceId) -> Option<InstanceId>,
) -> impl Iterator<Item = InstanceId> {
    successors(owner_of(id), owner_of).take(MAX_OWNERS)
}

/// Returns true if `starter` started the conversation, or started one that did.
pub(crate) fn has_started(
    starter: &InstanceId,
    id: &InstanceId,
    owner_of: impl Fn(&InstanceId) -> Option<InstanceId>,
) -> bool {
    owners(id, owner_of).any(|owner| owner == *starter)
}

/// Returns true if a user has taken over a conversation of the chain since the chain began: the
/// target or a caller, with another key than the first caller.
pub(crate) fn has_ended(
    callers: &[InstanceId],
    target: &InstanceId,
    since: DateTime<Utc>,
    released_at: impl Fn(&InstanceId) -> Option<DateTime<Utc>>,
) -> bool {
    let Some((first, others)) = callers.split_first() else {
        return false;
    };
    others
        .iter()
        .chain([target])
        .filter(|id| id.instance_key != first.instance_key)
        .any(|id| released_at(id).is_some_and(|at| at >= since))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn a_call_chain_ends_when_another_user_takes_over_its_conversation() {
        let id = InstanceId::new;
        let (alice, bob, helper) = (id("a", "alice"), id("b", "bob"), id("c", "bob"));
        let at = |seconds| DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds);
        let ended = |callers: &[&InstanceId], target: &InstanceId, since| {
            let callers: Vec<InstanceId> = callers.iter().copied().cloned().collect();
            let released_at = |id: &InstanceId| (*id == bob).then(|| at(10));
            has_ended(&callers, target, at(since), released_at)
        };
        // Another user took `bob` over at second 10.
        assert!(ended(&[&alice], &bob, 9));
        assert!(ended(&[&alice, &bob], &helper, 9));
        assert!(!ended(&[&alice], &bob, 11));
        assert!(!ended(&[&alice], &helper, 9));
        assert!(!ended(&[&helper], &bob, 9));
        assert!(!ended(&[], &bob, 9));
    }
}

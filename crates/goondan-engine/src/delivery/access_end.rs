//! End of the access that a chain of calls has to a conversation. An agent that starts a
//! conversation with another user's key has access to it until that user takes it over. Work that
//! the agent has planted there, such as scheduled jobs and open requests, must not outlive the
//! access: it would show the agent what the user writes later.

use chrono::{DateTime, Utc};
use goondan_core::ids::InstanceId;

/// Returns `true` if a user has taken over a conversation of the chain since the chain began: the
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
    fn a_chain_ends_where_another_user_took_a_conversation_over() {
        let id = InstanceId::new;
        let (alice, bob, helper) = (id("a", "alice"), id("b", "bob"), id("c", "bob"));
        let at = |seconds| DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds);
        let ended = |callers: &[&InstanceId], target: &InstanceId, since| {
            let callers: Vec<InstanceId> = callers.iter().copied().cloned().collect();
            let released_at = |id: &InstanceId| (*id == bob).then(|| at(10));
            has_ended(&callers, target, at(since), released_at)
        };
        // `bob` was taken over at second 10.
        assert!(ended(&[&alice], &bob, 9));
        assert!(ended(&[&alice, &bob], &helper, 9));
        assert!(!ended(&[&alice], &bob, 11));
        assert!(!ended(&[&alice], &helper, 9));
        assert!(!ended(&[&helper], &bob, 9));
        assert!(!ended(&[], &bob, 9));
    }
}

//! Detection of circular waits: a request that would wait for itself is rejected immediately (rule
//! A4). Pure.

use std::collections::{BTreeMap, HashMap, HashSet};

use goondan_core::ids::InstanceId;

/// Graph of instances whose turn waits for the answer of another instance.
#[derive(Debug, Default)]
pub(crate) struct WaitGraph {
    edges: HashMap<InstanceId, BTreeMap<InstanceId, usize>>,
}

impl WaitGraph {
    /// Adds a wait of `caller` for `target`. Fails with the chain of instances if that would close
    /// a circle.
    pub(crate) fn wait(
        &mut self,
        caller: &InstanceId,
        target: &InstanceId,
    ) -> Result<(), Vec<InstanceId>> {
        if let Some(mut chain) = self.path(target, caller) {
            chain.push(target.clone());
            return Err(chain);
        }
        *self
            .edges
            .entry(caller.clone())
            .or_default()
            .entry(target.clone())
            .or_default() += 1;
        Ok(())
    }

    /// Removes one wait of `caller` for `target`.
    pub(crate) fn remove_wait(&mut self, caller: &InstanceId, target: &InstanceId) {
        let Some(targets) = self.edges.get_mut(caller) else {
            return;
        };
        if let Some(count) = targets.get_mut(target) {
            *count -= 1;
            if *count == 0 {
                targets.remove(target);
            }
        }
        if targets.is_empty() {
            self.edges.remove(caller);
        }
    }

    /// Returns true if the instance waits for another instance.
    pub(crate) fn is_waiting(&self, instance: &InstanceId) -> bool {
        self.edges.contains_key(instance)
    }

    /// Returns true if another instance waits for this instance.
    pub(crate) fn is_awaited(&self, instance: &InstanceId) -> bool {
        self.edges
            .values()
            .any(|targets| targets.contains_key(instance))
    }

    /// Returns the instances of a chain of waits from `from` to `to`; `None` if there is none.
    fn path(&self, from: &InstanceId, to: &InstanceId) -> Option<Vec<InstanceId>> {
        let mut visited = HashSet::new();
        let mut open_paths = vec![vec![from.clone()]];
        while let Some(path) = open_paths.pop() {
            let last = path.last().expect("a path has a beginning");
            if last == to {
                return Some(path);
            }
            if !visited.insert(last.clone()) {
                continue;
            }
            for next in self.edges.get(last).into_iter().flat_map(BTreeMap::keys) {
                open_paths.push(path.iter().cloned().chain([next.clone()]).collect());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(agent: &str) -> InstanceId {
        InstanceId::new(agent, "main")
    }

    #[test]
    fn a_cycle_of_three_agents_is_reported_in_order() {
        let mut waits = WaitGraph::default();
        waits.wait(&id("a"), &id("b")).unwrap();
        waits.wait(&id("b"), &id("c")).unwrap();
        let chain = waits.wait(&id("c"), &id("a")).unwrap_err();
        assert_eq!(chain, [id("a"), id("b"), id("c"), id("a")]);
    }

    #[test]
    fn a_self_call_is_a_cycle() {
        assert_eq!(
            WaitGraph::default().wait(&id("a"), &id("a")).unwrap_err(),
            [id("a"), id("a")]
        );
    }

    #[test]
    fn a_call_of_the_same_agent_with_another_key_is_not_a_cycle() {
        let mut waits = WaitGraph::default();
        waits
            .wait(&id("a"), &InstanceId::new("a", "other"))
            .unwrap();
    }

    #[test]
    fn a_finished_wait_does_not_form_a_cycle() {
        let mut waits = WaitGraph::default();
        waits.wait(&id("a"), &id("b")).unwrap();
        waits.wait(&id("a"), &id("b")).unwrap();
        waits.remove_wait(&id("a"), &id("b"));
        assert!(waits.is_waiting(&id("a")));
        waits.remove_wait(&id("a"), &id("b"));
        assert!(!waits.is_waiting(&id("a")));
        waits.wait(&id("b"), &id("a")).unwrap();
    }
}

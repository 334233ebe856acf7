//! Token usage and cost of traces, by agent.

use std::collections::{BTreeMap, HashMap};

use goondan_core::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent, UsageCost};
use goondan_core::ports::model::TokenUsage;

/// Sums the usage of selected traces from the events of a swarm. A turn counts when it ends.
#[derive(Debug, Clone, Default)]
pub struct UsageLedger {
    /// Turns by trace ID, then by turn ID. A turn with two end events counts once.
    chains: HashMap<String, BTreeMap<String, TurnUsage>>,
}

/// Usage of one turn.
#[derive(Debug, Clone)]
struct TurnUsage {
    agent: String,
    tokens: TokenUsage,
    cost: Option<UsageCost>,
}

/// Usage of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChainUsage {
    /// Total tokens.
    pub total: TokenUsage,
    /// Cost of all model calls by currency; empty if no Model has `pricing`.
    pub costs: BTreeMap<String, f64>,
    /// Tokens by agent, for each agent that had a turn.
    pub by_agent: BTreeMap<String, TokenUsage>,
}

impl UsageLedger {
    /// Starts to count a trace.
    pub fn follow(&mut self, trace_id: &str) {
        if !self.chains.contains_key(trace_id) {
            self.chains.insert(trace_id.to_owned(), BTreeMap::new());
        }
    }

    /// Returns true if the trace is counted.
    pub fn follows(&self, trace_id: &str) -> bool {
        self.chains.contains_key(trace_id)
    }

    /// Removes a trace.
    pub fn forget(&mut self, trace_id: &str) {
        self.chains.remove(trace_id);
    }

    /// Counts an event if it ends a turn of a counted trace.
    pub fn note(&mut self, event: &SwarmEvent) {
        let SwarmEvent::Runtime(event) = event else {
            return;
        };
        let RuntimeEvent {
            kind,
            agent_name,
            trace,
            ..
        } = &**event;
        let (turn_id, token_usage, cost) = match kind {
            RuntimeEventKind::TurnCompleted {
                turn_id,
                token_usage,
                cost,
                ..
            }
            | RuntimeEventKind::TurnFailed {
                turn_id,
                token_usage,
                cost,
                ..
            } => (turn_id, token_usage, cost),
            _ => return,
        };
        if let Some(turns) = self.chains.get_mut(&trace.trace_id) {
            let usage = TurnUsage {
                agent: agent_name.clone(),
                tokens: token_usage.unwrap_or_default(),
                cost: cost.clone(),
            };
            turns.insert(turn_id.clone(), usage);
        }
    }

    /// Returns the usage of a trace so far; zero if it is not counted.
    pub fn of(&self, trace_id: &str) -> ChainUsage {
        let mut usage = ChainUsage::default();
        for turn in self
            .chains
            .get(trace_id)
            .into_iter()
            .flat_map(BTreeMap::values)
        {
            usage.total += turn.tokens;
            *usage.by_agent.entry(turn.agent.clone()).or_default() += turn.tokens;
            if let Some(UsageCost { amount, currency }) = &turn.cost {
                *usage.costs.entry(currency.clone()).or_default() += amount;
            }
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use goondan_core::ids::TraceContext;

    use super::*;

    fn tokens(total: u64) -> TokenUsage {
        TokenUsage {
            prompt_tokens: total - 1,
            completion_tokens: 1,
            total_tokens: total,
            ..TokenUsage::default()
        }
    }

    fn failed(agent: &str, turn: &str, trace: &str, total: u64) -> SwarmEvent {
        let kind = RuntimeEventKind::TurnFailed {
            turn_id: turn.to_owned(),
            duration: 1,
            error_message: "no".to_owned(),
            error_code: None,
            cost: Some(UsageCost {
                amount: 0.5,
                currency: "USD".to_owned(),
            }),
            token_usage: Some(tokens(total)),
        };
        SwarmEvent::Runtime(Arc::new(RuntimeEvent {
            sequence: 1,
            kind,
            timestamp: std::time::SystemTime::UNIX_EPOCH.into(),
            agent_name: agent.to_owned(),
            instance_key: "main".to_owned(),
            trace: TraceContext::root(trace, None, turn),
        }))
    }

    #[test]
    fn each_turn_of_a_followed_chain_counts_once() {
        let mut ledger = UsageLedger::default();
        ledger.follow("t");
        for event in [
            failed("boss", "1", "t", 10),
            failed("worker", "2", "t", 5),
            failed("boss", "3", "t", 2),
            failed("boss", "1", "t", 11),
            failed("boss", "4", "other", 100),
        ] {
            ledger.note(&event);
        }
        let usage = ledger.of("t");
        assert_eq!(usage.total.total_tokens, 18);
        assert_eq!(
            (
                usage.by_agent["boss"].total_tokens,
                usage.by_agent["worker"].total_tokens
            ),
            (13, 5)
        );
        assert_eq!(usage.costs, BTreeMap::from([("USD".to_owned(), 1.5)]));
        assert_eq!(ledger.of("other"), ChainUsage::default());
        ledger.forget("t");
        assert!(!ledger.follows("t"));
    }
}

//! Coverage of the rules by test cases.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::case::ConformanceCase;
use crate::rules::{RULES, RuntimeRule};

/// All rules with the test cases that name them.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleCoverage {
    /// Rules in the order of the reference.
    pub rules: Vec<CoveredRule>,
}

/// A rule with the test cases that name it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoveredRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: RuntimeRule,
    /// Names of test cases, in the order of the run.
    pub cases: Vec<String>,
}

impl RuleCoverage {
    /// Collects the rules that test cases name.
    pub fn of<'a>(cases: impl IntoIterator<Item = &'a ConformanceCase>) -> RuleCoverage {
        let mut cases_by_rule: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for case in cases {
            for rule in &case.rules {
                cases_by_rule
                    .entry(rule)
                    .or_default()
                    .push(case.case.clone());
            }
        }
        let covered_rule = |rule: &RuntimeRule| CoveredRule {
            rule: *rule,
            cases: cases_by_rule.remove(rule.id).unwrap_or_default(),
        };
        RuleCoverage {
            rules: RULES.iter().map(covered_rule).collect(),
        }
    }

    /// Returns the rules that no test case names.
    pub fn missing(&self) -> impl Iterator<Item = RuntimeRule> + '_ {
        self.rules
            .iter()
            .filter(|covered| covered.cases.is_empty())
            .map(|covered| covered.rule)
    }

    /// Renders a line for each uncovered rule, and a summary line.
    pub fn render(&self) -> String {
        let mut text: String = self
            .missing()
            .map(|rule| format!("no case: {:<4} {}\n", rule.id, rule.summary))
            .collect();
        let missing_count = self.missing().count();
        text.push_str(&format!(
            "{} of {} rules have a case\n",
            self.rules.len() - missing_count,
            self.rules.len()
        ));
        text
    }
}

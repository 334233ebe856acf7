//! Which rules have a case that names them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::case::Case;
use crate::rules::{RULES, Rule};

/// Every rule with the cases that name it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// In the order of the reference.
    pub rules: Vec<CoveredRule>,
}

/// A rule with the cases that name it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoveredRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// Names of cases, in the order of the run.
    pub cases: Vec<String>,
}

impl Coverage {
    /// Collects what `cases` name.
    pub fn of<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Coverage {
        let mut named: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for case in cases {
            for rule in &case.rules {
                named.entry(rule).or_default().push(case.case.clone());
            }
        }
        let covered = |rule: &Rule| CoveredRule {
            rule: *rule,
            cases: named.remove(rule.id).unwrap_or_default(),
        };
        Coverage {
            rules: RULES.iter().map(covered).collect(),
        }
    }

    /// The rules that no case names.
    pub fn missing(&self) -> impl Iterator<Item = Rule> + '_ {
        self.rules
            .iter()
            .filter(|covered| covered.cases.is_empty())
            .map(|covered| covered.rule)
    }

    /// For people: a line a rule without a case, and how many have one.
    pub fn render(&self) -> String {
        let mut text: String = self
            .missing()
            .map(|rule| format!("no case: {:<4} {}\n", rule.id, rule.summary))
            .collect();
        let missing = self.missing().count();
        text.push_str(&format!(
            "{} of {} rules have a case\n",
            self.rules.len() - missing,
            self.rules.len()
        ));
        text
    }
}

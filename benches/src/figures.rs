//! Figures of several runs.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

/// One figure over the runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The one in the middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Spread {
            min: at(0),
            median: at(values.len() / 2),
            max: at(values.len().saturating_sub(1)),
        }
    }
}

/// The named figures of one run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    figures: Vec<(String, f64)>,
}

impl Run {
    /// Adds a figure; its name ends with its unit.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: f64) -> Self {
        self.figures.push((name.into(), value));
        self
    }

    /// Adds a time in milliseconds.
    #[must_use]
    pub fn millis(self, name: &str, time: Duration) -> Self {
        self.with(format!("{name}_ms"), time.as_secs_f64() * 1e3)
    }

    /// Adds a size in MB (10⁶ bytes).
    #[must_use]
    pub fn megabytes(self, name: &str, bytes: u64) -> Self {
        self.with(format!("{name}_mb"), bytes as f64 / 1e6)
    }
}

/// A scenario's result over its runs: figures in the order of the first run.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Which scenario.
    pub scenario: String,
    /// How often it ran.
    pub runs: usize,
    /// Name with unit → spread.
    pub figures: Map<String, Value>,
}

impl Summary {
    /// Over `runs`, which all have the same figures.
    pub fn of(scenario: &str, runs: &[Run]) -> Self {
        let mut figures = Map::new();
        for (index, (name, _)) in runs
            .first()
            .map(|run| run.figures.as_slice())
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            let values = runs
                .iter()
                .filter_map(|run| run.figures.get(index).map(|(_, value)| *value))
                .collect();
            figures.insert(
                name.clone(),
                serde_json::to_value(Spread::of(values)).unwrap_or_default(),
            );
        }
        Summary {
            scenario: scenario.to_owned(),
            runs: runs.len(),
            figures,
        }
    }

    /// One table row a figure: scenario, figure, median, smallest to largest.
    pub fn rows(&self) -> Vec<String> {
        let number = |spread: &Value, key: &str| short(spread[key].as_f64().unwrap_or(f64::NAN));
        let row = |(name, spread): (&String, &Value)| {
            let (median, min, max) = (
                number(spread, "median"),
                number(spread, "min"),
                number(spread, "max"),
            );
            format!(
                "| {} | {} | {median} | {min} – {max} |",
                self.scenario,
                name.replace('_', " ")
            )
        };
        self.figures.iter().map(row).collect()
    }
}

/// Three figures that matter.
fn short(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else if value.abs() >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.digits$}")
}

/// The value in the middle.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_spans_its_runs() {
        let runs: Vec<Run> = [3.0, 1.0, 2.0]
            .map(|value| Run::default().with("wall_ms", value))
            .to_vec();
        assert_eq!(
            Summary::of("x", &runs).rows(),
            ["| x | wall ms | 2.00 | 1.00 – 3.00 |"]
        );
    }
}

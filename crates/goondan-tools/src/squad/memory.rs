//! `squad__memory`: stores what an agent has learned.

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput, WrittenFile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::squad_directory::{plain_name, run_blocking};
use super::{SquadTools, result};
use crate::tool_operation::ToolOperation;

/// Contents of a new history.
const EMPTY_HISTORY: &str = "# Project Context\n\n## Learnings\n";
const LEARNINGS_HEADING: &str = "## Learnings";

/// What a learning is about.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LearningCategory {
    Technical,
    Process,
    Architecture,
    Team,
    #[default]
    General,
}

/// Record something that an agent learned. It is added to the agent's history, which later work
/// includes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RecordLearning {
    /// Agent that learned it.
    #[schemars(length(min = 1))]
    agent_name: String,
    /// Learning: a clear, actionable statement.
    #[schemars(length(min = 1))]
    learning: String,
    /// Category.
    #[serde(default)]
    category: LearningCategory,
}

impl ToolOperation for RecordLearning {
    type Shared = SquadTools;

    async fn written_files(self, ctx: &ToolContext, squad: &SquadTools) -> Vec<WrittenFile> {
        let agent = plain_name("an agent", &self.agent_name).ok();
        let file_path = |agent| {
            squad
                .squad_directory(ctx)
                .written_file(Some("agentName"), &history_path(agent))
        };
        agent.map(file_path).into_iter().collect()
    }

    async fn run(self, ctx: &ToolContext, squad: &SquadTools) -> Result<ToolOutput, HandlerError> {
        let folder = squad.squad_directory(ctx);
        let outcome = run_blocking(move || {
            let agent = plain_name("an agent", &self.agent_name)?;
            let category = serde_json::json!(self.category);
            let entry = format_entry(category.as_str().unwrap_or_default(), &self.learning);
            folder.update(&history_path(agent), |history| {
                with_learning(&history.unwrap_or_else(|| EMPTY_HISTORY.to_owned()), &entry)
            })?;
            let beginning: String = self.learning.chars().take(80).collect();
            Ok(format!(
                "Added the learning to {agent}'s history: \"{beginning}\""
            ))
        });
        outcome.await.map(result)
    }
}

/// Returns the path of an agent's history in the squad directory.
fn history_path(agent: &str) -> String {
    format!("agents/{agent}/history.md")
}

/// Formats a learning as a list item. Further lines are indented, so that none is a heading.
fn format_entry(category: &str, learning: &str) -> String {
    let lines: Vec<&str> = learning.trim().lines().map(str::trim_end).collect();
    format!("- **[{category}]** {}", lines.join("\n  "))
}

/// Adds an entry after the last learning in `history`, and changes nothing else.
fn with_learning(history: &str, entry: &str) -> String {
    let breaks = ['\n', '\r'];
    let Some(end) = end_of_learnings(history) else {
        let history = history.trim_end_matches(breaks);
        let gap = if history.is_empty() { "" } else { "\n\n" };
        return format!("{history}{gap}{LEARNINGS_HEADING}\n\n{entry}\n");
    };
    let (before, after) = history.split_at(end);
    let (before, after) = (
        before.trim_end_matches(breaks),
        after.trim_start_matches(breaks),
    );
    // An empty line separates the first entry from the heading.
    let is_first = before
        .lines()
        .next_back()
        .is_some_and(|line| line.trim_end() == LEARNINGS_HEADING);
    let gap = if is_first { "\n\n" } else { "\n" };
    if after.is_empty() {
        format!("{before}{gap}{entry}\n")
    } else {
        format!("{before}{gap}{entry}\n\n{after}")
    }
}

/// Returns the end of the learnings: the next heading of the same or a higher level, or the end of
/// the text.
fn end_of_learnings(history: &str) -> Option<usize> {
    let mut inside = false;
    let mut offset = 0;
    for line in history.split_inclusive('\n') {
        if inside && (line.starts_with("## ") || line.starts_with("# ")) {
            return Some(offset);
        }
        inside |= line.trim_end() == LEARNINGS_HEADING;
        offset += line.len();
    }
    inside.then_some(offset)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_learning_is_appended_to_the_learnings_section() {
        let history = "# Project Context\n\n## Learnings\n\n- old\n\n## Sessions\n\n- s1\n";
        let expected = "# Project Context\n\n## Learnings\n\n- old\n- new\n\n## Sessions\n\n- s1\n";
        assert_eq!(with_learning(history, "- new"), expected);
        assert_eq!(
            with_learning(EMPTY_HISTORY, "- new"),
            "# Project Context\n\n## Learnings\n\n- new\n"
        );
        assert_eq!(
            with_learning("# Notes\n", "- new"),
            "# Notes\n\n## Learnings\n\n- new\n"
        );
        assert_eq!(with_learning("", "- new"), "## Learnings\n\n- new\n");
        assert_eq!(
            with_learning("## Learnings\n### Sub\n- a", "- b"),
            "## Learnings\n### Sub\n- a\n- b\n"
        );
    }

    #[test]
    fn continuation_lines_of_a_learning_are_indented() {
        assert_eq!(
            format_entry("team", " a\n## Sessions\n"),
            "- **[team]** a\n  ## Sessions"
        );
    }

    proptest! {
        /// All lines of the history stay in order, and the entry is added once.
        #[test]
        fn adding_a_learning_keeps_all_other_lines(history in "((# |## |### )?(Learnings|x|- y)?\n){0,12}") {
            let lines = |text: &str| text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>();
            let mut after = lines(&with_learning(&history, "- new"));
            let at = after.iter().position(|line| line == "- new").unwrap();
            prop_assert!(after[..at].iter().any(|line| line == LEARNINGS_HEADING));
            after.remove(at);
            let mut before = lines(&history);
            if !before.iter().any(|line| line == LEARNINGS_HEADING) {
                before.push(LEARNINGS_HEADING.to_owned());
            }
            prop_assert_eq!(after, before);
        }
    }
}

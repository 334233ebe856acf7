//! `tool-search`: the model looks for tools, and its next steps are offered what it found instead of the whole catalog.
//!
//! Each search looks through all tools of the agent, also those that the selection hides: a selection can grow again.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goondan_spec::kinds::ExportSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::builtin::{ConfigProblem, decode};
use super::{Middleware, StepNext, TurnNext};
use crate::tooling::registry::{Catalog, RegisteredTool, ToolLimits, ToolName};
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::limits::head;
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::{ToolCallResult, ToolCallStatus, ToolContext, ToolError, ToolHandler, ToolOutput};

pub(super) const NAME: &str = "tool-search";

/// Characters of a description among the results. The next step shows the whole of it.
const MAX_DESCRIPTION: usize = 300;

/// Names that providers take (rule L10).
const MAX_TOOL_NAME: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    tool_name: String,
    /// Results of a search at most.
    max_results: NonZeroUsize,
    min_query_length: usize,
    /// The selection outlives the turn.
    persist_selection: bool,
    initial_tools: InitialTools,
}

/// What a step offers while nothing is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum InitialTools {
    /// Everything.
    All,
    /// The search alone.
    None,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            tool_name: "tool-search__search".to_owned(),
            max_results: NonZeroUsize::new(10).expect("10 is not zero"),
            min_query_length: 1,
            persist_selection: true,
            initial_tools: InitialTools::All,
        }
    }
}

struct ToolSearch {
    tool: Arc<RegisteredTool>,
    persist_selection: bool,
    initial_tools: InitialTools,
}

/// What is kept from turn to turn.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Selection {
    selected_tools: BTreeSet<String>,
}

/// What the last step of the turn that searched has found, by the name of the search.
#[derive(Default)]
struct Found(BTreeMap<String, Selection>);

pub(super) fn make(config: JsonObject, tools: &Catalog) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    let config: Config = decode(config)?;
    let name = tool_name(&config.tool_name, tools)?;
    let handler = Search { tools: Arc::clone(tools.definitions()), max_results: config.max_results.get() };
    let spec = export(name.export(), &config);
    // The results are bounded by `maxResults`.
    let limits = ToolLimits { error_message: 1_000, output: usize::MAX, timeout: Duration::from_secs(10) };
    Ok(Arc::new(ToolSearch {
        tool: Arc::new(RegisteredTool::new(name.resource(), spec, Arc::new(handler), limits)),
        persist_selection: config.persist_selection,
        initial_tools: config.initial_tools,
    }))
}

fn tool_name(name: &str, tools: &Catalog) -> Result<ToolName, ConfigProblem> {
    let problem = |message: String, suggestion: &str| ConfigProblem {
        field: "toolName".to_owned(),
        message,
        suggestion: Some(suggestion.to_owned()),
    };
    let parsed: ToolName = name.parse().map_err(|error: crate::tooling::registry::NotAToolName| {
        problem(error.to_string(), "leave it out, or write a name such as tool-search__search")
    })?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !name.chars().all(is_allowed) || name.len() > MAX_TOOL_NAME {
        return Err(problem(
            format!("models do not take the name `{name}`"),
            "use at most 64 letters, digits, `_` and `-`, beginning with a letter",
        ));
    }
    if tools.get(name).is_some() {
        return Err(problem(format!("the agent has another tool `{name}`"), "choose another name"));
    }
    Ok(parsed)
}

fn export(name: &str, config: &Config) -> ExportSpec {
    ExportSpec {
        name: name.to_owned(),
        description: "Looks for tools by words in their names and descriptions. The tools that it finds are the ones \
                      that can be called from the next step on, beside this one; a search that finds nothing lifts \
                      the selection."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": config.min_query_length,
                    "description": "Words that must all occur, in any case.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": format!("How many tools to find at most; never more than {}.", config.max_results),
                },
            },
            "required": ["query"],
            "additionalProperties": false,
        }),
        permissions: BTreeSet::new(),
        optional_permissions: Default::default(),
        read_only: true,
        idempotent: true,
    }
}

/// The handler: looks through all tools of the agent.
struct Search {
    tools: Arc<[ToolDefinition]>,
    max_results: usize,
}

#[async_trait]
impl ToolHandler for Search {
    async fn call(&self, _ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let query = input.get("query").and_then(Value::as_str).unwrap_or_default();
        let limit = input.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
        let found = search(&self.tools, query, limit.unwrap_or(self.max_results).min(self.max_results));
        let shown = |tool: &&ToolDefinition| json!({"name": tool.name, "description": head(&tool.description, MAX_DESCRIPTION)});
        Ok(ToolOutput::from(json!({
            "query": query,
            "results": found.iter().map(shown).collect::<Vec<_>>(),
            "selectedTools": found.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        })))
    }
}

/// The tools in which all words of `query` occur, those with more of them in their name first.
fn search<'a>(tools: &'a [ToolDefinition], query: &str, limit: usize) -> Vec<&'a ToolDefinition> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().collect();
    let mut found: Vec<(usize, &ToolDefinition)> = Vec::new();
    for tool in tools {
        let (name, description) = (tool.name.to_lowercase(), tool.description.to_lowercase());
        if words.iter().all(|word| name.contains(word) || description.contains(word)) {
            let not_in_name = words.iter().filter(|word| !name.contains(**word)).count();
            found.push((not_in_name, tool));
        }
    }
    found.sort_by_key(|(not_in_name, _)| *not_in_name);
    found.into_iter().map(|(_, tool)| tool).take(limit).collect()
}

impl ToolSearch {
    /// What the searches among the calls of a step have found; `None` where there are none.
    fn found_in(&self, results: &[ToolCallResult]) -> Option<Selection> {
        let searches = results.iter().filter(|result| result.tool_name == self.tool.name.as_str());
        let found = searches
            .filter(|result| result.status == ToolCallStatus::Ok)
            .filter_map(|result| Selection::deserialize(result.output.as_ref()?).ok());
        found.reduce(|mut all, more| {
            all.selected_tools.extend(more.selected_tools);
            all
        })
    }

    /// What the last step of this turn that searched has found, if any step has. It is noted and not looked up: a turn may
    /// have thousands of steps behind it.
    fn found_in_turn(&self, turn: &mut TurnContext) -> Option<Selection> {
        turn.note::<Found>().0.get(self.tool.name.as_str()).cloned()
    }

    async fn selection(&self, turn: &mut TurnContext) -> Result<Selection, TurnError> {
        if let Some(found) = self.found_in_turn(turn) {
            return Ok(found);
        }
        let kept = if self.persist_selection { turn.state(NAME).await? } else { None };
        Ok(kept.and_then(|kept| Selection::deserialize(kept).ok()).unwrap_or_default())
    }

    fn narrowed(&self, catalog: &Catalog, selection: &Selection) -> Catalog {
        let is_search = |tool: &RegisteredTool| tool.name == self.tool.name;
        let narrowed =
            catalog.filtered(|tool| is_search(tool) || selection.selected_tools.contains(tool.name.as_str()));
        // Of a selection nothing may be left after a reload.
        let is_empty = narrowed.names().all(|name| name == self.tool.name.as_str());
        if is_empty && self.initial_tools == InitialTools::All { catalog.clone() } else { narrowed }
    }
}

#[async_trait]
impl Middleware for ToolSearch {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self) -> Vec<Arc<RegisteredTool>> {
        vec![Arc::clone(&self.tool)]
    }

    async fn turn(&self, context: &mut TurnContext, next: TurnNext<'_>) -> Result<TurnOutcome, TurnError> {
        let outcome = next.run(context).await;
        if self.persist_selection
            && let Some(selection) = self.found_in_turn(context)
        {
            context.set_state(NAME, json!(selection));
        }
        outcome
    }

    async fn step(&self, context: &mut StepContext<'_>, next: StepNext<'_>) -> Result<StepOutcome, TurnError> {
        let selection = self.selection(context.turn()).await?;
        context.catalog = self.narrowed(&context.catalog, &selection);
        let outcome = next.run(context).await?;
        if let Some(found) = self.found_in(&outcome.results) {
            context.turn().note::<Found>().0.insert(self.tool.name.to_string(), found);
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Vec<ToolDefinition> {
        let tool = |name: &str, description: &str| ToolDefinition {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({"type": "object"}),
        };
        vec![
            tool("mail__send", "Sends a message."),
            tool("file-system__read", "Reads a file, or what a mail holds."),
            tool("weather__now", "Tells the weather."),
        ]
    }

    fn found(query: &str, limit: usize) -> Vec<String> {
        search(&tools(), query, limit).into_iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn all_words_must_occur_in_any_case() {
        assert_eq!(found("WEATHER", 9), ["weather__now"]);
        assert_eq!(found("send message", 9), ["mail__send"]);
        assert_eq!(found("send weather", 9), Vec::<String>::new());
    }

    #[test]
    fn names_weigh_more_than_descriptions() {
        assert_eq!(found("mail", 9), ["mail__send", "file-system__read"]);
        assert_eq!(found("mail", 1), ["mail__send"]);
    }
}

//! `tool-search`: the model searches for tools, and its next steps offer the results instead of the
//! whole catalog.
//!
//! Each search covers all tools of the agent, including hidden ones, so that a selection can grow
//! again.
//!
//! If the agent has deferred tools, only these are hidden, and found tools stay available for the
//! whole conversation.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goondan_spec::kinds::ExportSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::builtin::{ConfigProblem, decode};
use super::{Middleware, StepNext, TurnNext};
use crate::tooling::registry::{RegisteredTool, ToolCatalog, ToolLimits, ToolName};
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::limits::head;
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::{
    HandlerError, ToolCallResult, ToolCallStatus, ToolContext, ToolHandler, ToolOutput,
};

pub(super) const NAME: &str = "tool-search";

/// Config field with the names of deferred tools.
pub(super) const DEFERRED_TOOLS_FIELD: &str = "deferredTools";

/// Length limit of a description in the results, in characters. The next step shows the full
/// description.
const MAX_DESCRIPTION_CHARS: usize = 300;

/// Description of the search tool without deferred tools.
const SEARCH_DESCRIPTION: &str = "Finds tools by words in their names and descriptions. From the \
    next step on, only the found tools and this one can be called; a search without matches makes \
    all tools available again.";

/// Length limit of tool names that providers accept (rule L10).
const MAX_TOOL_NAME_BYTES: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ToolSearchConfig {
    tool_name: String,
    /// Limit of results per search.
    max_results: NonZeroUsize,
    min_query_length: usize,
    /// Keep the selection after the turn.
    persist_selection: bool,
    initial_tools: InitialTools,
    /// Tools that are hidden until a search finds them; all others are always offered. Tools with
    /// `defer` are added.
    deferred_tools: BTreeSet<String>,
}

/// Tools that a step offers without a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum InitialTools {
    /// All tools.
    All,
    /// Only the search tool.
    None,
}

impl Default for ToolSearchConfig {
    fn default() -> Self {
        ToolSearchConfig {
            tool_name: "tool-search__search".to_owned(),
            max_results: NonZeroUsize::new(10).expect("10 is not zero"),
            min_query_length: 1,
            persist_selection: true,
            initial_tools: InitialTools::All,
            deferred_tools: BTreeSet::new(),
        }
    }
}

struct ToolSearch {
    tool: Arc<RegisteredTool>,
    persist_selection: bool,
    initial_tools: InitialTools,
    /// If empty, only the selected tools are offered.
    deferred: BTreeSet<String>,
    /// Recent catalogs. Offering the same catalog again lets a model client encode it only once.
    offered: Mutex<Vec<CachedCatalog>>,
}

/// Catalog filtered by a selection.
struct CachedCatalog {
    of: Arc<[ToolDefinition]>,
    selection: ToolSelection,
    catalog: ToolCatalog,
}

/// Limit of cached catalogs: about one per active conversation.
const MAX_CACHED_CATALOGS: usize = 32;

/// Selected tools, saved between turns.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolSelection {
    selected_tools: BTreeSet<String>,
}

/// Results of the last searching step of the turn, by search tool name.
#[derive(Default)]
struct FoundTools(BTreeMap<String, ToolSelection>);

/// Creates the middleware from its config.
pub(super) fn make(
    config: JsonObject,
    tools: &ToolCatalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    let config: ToolSearchConfig = decode(config)?;
    let name = tool_name(&config.tool_name, tools)?;
    let is_known_tool = |name: &String| tools.get(name).is_some();
    let deferred: BTreeSet<String> = config
        .deferred_tools
        .iter()
        .filter(|name| is_known_tool(name))
        .cloned()
        .collect();
    // Tools that are always offered need no search.
    let is_hidden = |tool: &ToolDefinition| deferred.is_empty() || deferred.contains(&tool.name);
    let searched = if deferred.is_empty() {
        Arc::clone(tools.definitions())
    } else {
        tools
            .definitions()
            .iter()
            .filter(|tool| is_hidden(tool))
            .cloned()
            .collect()
    };
    let handler = ToolSearchHandler {
        tools: searched,
        max_results: config.max_results.get(),
        is_lenient: !deferred.is_empty(),
    };
    let spec = search_export(name.export(), &config, &deferred);
    // `maxResults` limits the output.
    let limits = ToolLimits {
        error_message: 1_000,
        output: usize::MAX,
        timeout: Duration::from_secs(10),
    };
    Ok(Arc::new(ToolSearch {
        tool: Arc::new(RegisteredTool::new(
            name.resource(),
            spec,
            Arc::new(handler),
            limits,
        )),
        persist_selection: config.persist_selection,
        initial_tools: config.initial_tools,
        deferred,
        offered: Mutex::default(),
    }))
}

/// Parses the name of the search tool. Fails for a name that models reject or another tool has.
fn tool_name(name: &str, tools: &ToolCatalog) -> Result<ToolName, ConfigProblem> {
    let config_problem = |message: String, suggestion: &str| ConfigProblem {
        field: "toolName".to_owned(),
        message,
        suggestion: Some(suggestion.to_owned()),
    };
    let parsed: ToolName =
        name.parse()
            .map_err(|error: crate::tooling::registry::InvalidToolName| {
                config_problem(
                    error.to_string(),
                    "leave it out, or write a name such as tool-search__search",
                )
            })?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let has_letter_first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !has_letter_first || !name.chars().all(is_allowed) || name.len() > MAX_TOOL_NAME_BYTES {
        return Err(config_problem(
            format!("models reject the name `{name}`"),
            "use at most 64 letters, digits, `_` and `-`, beginning with a letter",
        ));
    }
    if tools.get(name).is_some() {
        return Err(config_problem(
            format!("the agent has another tool `{name}`"),
            "choose another name",
        ));
    }
    Ok(parsed)
}

/// Describes the hidden tools to the model: their resources and numbers.
fn hidden_words(deferred: &BTreeSet<String>) -> String {
    let mut count_by_resource: BTreeMap<&str, usize> = BTreeMap::new();
    for name in deferred {
        *count_by_resource
            .entry(name.split("__").next().unwrap_or_default())
            .or_default() += 1;
    }
    let counts: Vec<String> = count_by_resource
        .iter()
        .map(|(name, count)| format!("{name} ({count})"))
        .collect();
    format!(
        "Finds more tools by words in their names and descriptions, or by a name. More tools \
            exist in: {}. Found tools can be called from the next step on.",
        counts.join(", ")
    )
}

/// Returns the definition of the search tool.
fn search_export(name: &str, config: &ToolSearchConfig, deferred: &BTreeSet<String>) -> ExportSpec {
    let description = if deferred.is_empty() {
        SEARCH_DESCRIPTION.to_owned()
    } else {
        hidden_words(deferred)
    };
    let query_description = if deferred.is_empty() {
        "Required words; case is ignored."
    } else {
        "Words; case is ignored. Finds the tools with the most matches."
    };
    ExportSpec {
        name: name.to_owned(),
        description,
        parameters: json!({
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": config.min_query_length,
                    "description": query_description,
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": format!("Number of tools; at most {}.", config.max_results),
                },
            },
            "required": ["query"],
            "additionalProperties": false,
        }),
        read_only: true,
        idempotent: true,
        ..ExportSpec::default()
    }
}

/// Handler of the search tool; covers all tools of the agent.
struct ToolSearchHandler {
    tools: Arc<[ToolDefinition]>,
    max_results: usize,
    /// If no tool matches all words, return the tools that match most of them.
    is_lenient: bool,
}

#[async_trait]
impl ToolHandler for ToolSearchHandler {
    async fn call(
        &self,
        _ctx: &ToolContext,
        input: JsonObject,
    ) -> Result<ToolOutput, HandlerError> {
        let query = input
            .get("query")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let limit = input
            .get("limit")
            .and_then(Value::as_u64)
            .and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(self.max_results).min(self.max_results);
        let mut matches = search(&self.tools, query, limit);
        if matches.is_empty() && self.is_lenient {
            matches = search_any(&self.tools, query, limit);
        }
        let tool_summary = |tool: &&ToolDefinition| json!({"name": tool.name, "description": head(&tool.description, MAX_DESCRIPTION_CHARS)});
        Ok(ToolOutput::from(json!({
            "query": query,
            "results": matches.iter().map(tool_summary).collect::<Vec<_>>(),
            "selectedTools": matches.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        })))
    }
}

/// Returns the tools that contain all words of `query`. Matches in the name are ranked first.
fn search<'a>(tools: &'a [ToolDefinition], query: &str, limit: usize) -> Vec<&'a ToolDefinition> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().collect();
    let mut matches: Vec<(usize, &ToolDefinition)> = Vec::new();
    for tool in tools {
        let (name, description) = (tool.name.to_lowercase(), tool.description.to_lowercase());
        if words
            .iter()
            .all(|word| name.contains(word) || description.contains(word))
        {
            let not_in_name = words.iter().filter(|word| !name.contains(**word)).count();
            matches.push((not_in_name, tool));
        }
    }
    matches.sort_by_key(|(not_in_name, _)| *not_in_name);
    matches
        .into_iter()
        .map(|(_, tool)| tool)
        .take(limit)
        .collect()
}

/// Returns the tools that contain any word of `query`, best matches first.
fn search_any<'a>(
    tools: &'a [ToolDefinition],
    query: &str,
    limit: usize,
) -> Vec<&'a ToolDefinition> {
    let query = query.to_lowercase();
    // Short words occur in nearly every description.
    let words: Vec<&str> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 2)
        .collect();
    let score = |tool: &ToolDefinition| {
        let (name, description) = (tool.name.to_lowercase(), tool.description.to_lowercase());
        let tools_with_word = |word: &&str| {
            2 * usize::from(name.contains(*word)) + usize::from(description.contains(*word))
        };
        words.iter().map(tools_with_word).sum::<usize>()
    };
    let mut matches: Vec<(usize, &ToolDefinition)> = tools
        .iter()
        .map(|tool| (score(tool), tool))
        .filter(|(score, _)| *score > 0)
        .collect();
    matches.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    matches
        .into_iter()
        .map(|(_, tool)| tool)
        .take(limit)
        .collect()
}

impl ToolSearch {
    /// Returns the combined results of the searches in a step; `None` if there are none.
    fn selection_of_step(&self, results: &[ToolCallResult]) -> Option<ToolSelection> {
        let searches = results
            .iter()
            .filter(|result| result.tool_name == self.tool.name.as_str());
        let selections = searches
            .filter(|result| result.status == ToolCallStatus::Ok)
            .filter_map(|result| ToolSelection::deserialize(result.output.as_ref()?).ok());
        selections.reduce(|mut all, more| {
            all.selected_tools.extend(more.selected_tools);
            all
        })
    }

    /// Returns the result of the last searching step of this turn, if any. The result is kept as a
    /// note, because a turn may have thousands of steps.
    fn selection_of_turn(&self, turn: &mut TurnContext) -> Option<ToolSelection> {
        turn.note::<FoundTools>()
            .0
            .get(self.tool.name.as_str())
            .cloned()
    }

    /// Returns the tools that a search selected: in this turn, else in the stored state; empty if
    /// there are none.
    async fn load_selection(&self, turn: &mut TurnContext) -> Result<ToolSelection, TurnError> {
        if let Some(selection) = self.selection_of_turn(turn) {
            return Ok(selection);
        }
        let stored = if self.persist_selection {
            turn.state(NAME).await?
        } else {
            None
        };
        Ok(stored
            .and_then(|stored| ToolSelection::deserialize(stored).ok())
            .unwrap_or_default())
    }

    /// Returns the catalog of a step. An equal selection returns the cached catalog.
    fn narrow_catalog(&self, catalog: &ToolCatalog, selection: &ToolSelection) -> ToolCatalog {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |cached: &CachedCatalog| {
            Arc::ptr_eq(&cached.of, catalog.definitions()) && cached.selection == *selection
        };
        if let Some(cached) = offered.iter().find(|cached| is_same(cached)) {
            return cached.catalog.clone();
        }
        let narrowed = self.choose_tools(catalog, selection);
        if offered.len() == MAX_CACHED_CATALOGS {
            offered.remove(0);
        }
        let of = Arc::clone(catalog.definitions());
        offered.push(CachedCatalog {
            of,
            selection: selection.clone(),
            catalog: narrowed.clone(),
        });
        narrowed
    }

    /// Returns the tools of a step: without `deferredTools` only the search tool and the selected
    /// tools, otherwise all tools except unselected deferred tools.
    fn choose_tools(&self, catalog: &ToolCatalog, selection: &ToolSelection) -> ToolCatalog {
        let is_search = |tool: &RegisteredTool| tool.name == self.tool.name;
        let is_selected =
            |tool: &RegisteredTool| selection.selected_tools.contains(tool.name.as_str());
        if !self.deferred.is_empty() {
            return catalog
                .filtered(|tool| is_selected(tool) || !self.deferred.contains(tool.name.as_str()));
        }
        let narrowed = catalog.filtered(|tool| is_search(tool) || is_selected(tool));
        // After a reload, none of the selected tools may be left.
        let is_empty = narrowed.names().all(|name| name == self.tool.name.as_str());
        if is_empty && self.initial_tools == InitialTools::All {
            catalog.clone()
        } else {
            narrowed
        }
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

    async fn turn(
        &self,
        context: &mut TurnContext,
        next: TurnNext<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let outcome = next.run(context).await;
        if self.persist_selection
            && let Some(selection) = self.selection_of_turn(context)
        {
            context.set_state(NAME, json!(selection));
        }
        outcome
    }

    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        let selection = self.load_selection(context.turn()).await?;
        context.catalog = self.narrow_catalog(&context.catalog, &selection);
        let outcome = next.run(context).await?;
        if let Some(mut selected) = self.selection_of_step(&outcome.results) {
            if !self.deferred.is_empty() {
                selected.selected_tools.extend(selection.selected_tools);
            }
            context
                .turn()
                .note::<FoundTools>()
                .0
                .insert(self.tool.name.to_string(), selected);
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

    fn find_names(query: &str, limit: usize) -> Vec<String> {
        search(&tools(), query, limit)
            .into_iter()
            .map(|tool| tool.name.clone())
            .collect()
    }

    #[test]
    fn a_match_contains_all_words_ignoring_case() {
        assert_eq!(find_names("WEATHER", 9), ["weather__now"]);
        assert_eq!(find_names("send message", 9), ["mail__send"]);
        assert_eq!(find_names("send weather", 9), Vec::<String>::new());
    }

    #[test]
    fn name_matches_rank_above_description_matches() {
        assert_eq!(find_names("mail", 9), ["mail__send", "file-system__read"]);
        assert_eq!(find_names("mail", 1), ["mail__send"]);
    }
}

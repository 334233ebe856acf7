//! `tool-search`: the model looks for tools, and its next steps are offered what it found instead of the whole catalog.
//!
//! Each search looks through all tools of the agent, also those that the selection hides: a selection can grow again.
//!
//! Where tools are deferred, only these are hidden, and what was found stays for the conversation.

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
use crate::tooling::registry::{Catalog, RegisteredTool, ToolLimits, ToolName};
use crate::turn::step::{StepContext, StepOutcome};
use crate::turn::{TurnContext, TurnOutcome};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::limits::head;
use goondan_core::ports::model::ToolDefinition;
use goondan_core::ports::tool::{
    ToolCallResult, ToolCallStatus, ToolContext, ToolError, ToolHandler, ToolOutput,
};

pub(super) const NAME: &str = "tool-search";

/// Where in the config the tools stand that are to be looked for.
pub(super) const DEFERRED: &str = "deferredTools";

/// Characters of a description among the results. The next step shows the whole of it.
const MAX_DESCRIPTION: usize = 300;

/// What the search says of itself where nothing is deferred.
const SELECTS: &str = "Looks for tools by words in their names and descriptions. The tools that it finds are the ones that can \
                       be called from the next step on, beside this one; a search that finds nothing lifts the selection.";

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
    /// Tools that are offered once they were found; the others always are. Those with `defer` are added to them.
    deferred_tools: BTreeSet<String>,
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
            deferred_tools: BTreeSet::new(),
        }
    }
}

struct ToolSearch {
    tool: Arc<RegisteredTool>,
    persist_selection: bool,
    initial_tools: InitialTools,
    /// Empty where the selection is all that is offered.
    deferred: BTreeSet<String>,
    /// What was offered last, so that the same is offered again: a client encodes it once.
    offered: Mutex<Vec<Offered>>,
}

/// What a selection leaves of a catalog.
struct Offered {
    of: Arc<[ToolDefinition]>,
    selection: Selection,
    catalog: Catalog,
}

/// So many of them are kept: one for each conversation that goes on.
const KEPT: usize = 32;

/// What is kept from turn to turn.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Selection {
    selected_tools: BTreeSet<String>,
}

/// What the last step of the turn that searched has found, by the name of the search.
#[derive(Default)]
struct Found(BTreeMap<String, Selection>);

pub(super) fn make(
    config: JsonObject,
    tools: &Catalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    let config: Config = decode(config)?;
    let name = tool_name(&config.tool_name, tools)?;
    let is_there = |name: &String| tools.get(name).is_some();
    let deferred: BTreeSet<String> = config
        .deferred_tools
        .iter()
        .filter(|name| is_there(name))
        .cloned()
        .collect();
    // What is offered anyway need not be looked for.
    let hidden = |tool: &ToolDefinition| deferred.is_empty() || deferred.contains(&tool.name);
    let searched = match deferred.is_empty() {
        true => Arc::clone(tools.definitions()),
        false => tools
            .definitions()
            .iter()
            .filter(|tool| hidden(tool))
            .cloned()
            .collect(),
    };
    let handler = Search {
        tools: searched,
        max_results: config.max_results.get(),
        is_lenient: !deferred.is_empty(),
    };
    let spec = export(name.export(), &config, &deferred);
    // The results are bounded by `maxResults`.
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

fn tool_name(name: &str, tools: &Catalog) -> Result<ToolName, ConfigProblem> {
    let problem = |message: String, suggestion: &str| ConfigProblem {
        field: "toolName".to_owned(),
        message,
        suggestion: Some(suggestion.to_owned()),
    };
    let parsed: ToolName =
        name.parse()
            .map_err(|error: crate::tooling::registry::NotAToolName| {
                problem(
                    error.to_string(),
                    "leave it out, or write a name such as tool-search__search",
                )
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
        return Err(problem(
            format!("the agent has another tool `{name}`"),
            "choose another name",
        ));
    }
    Ok(parsed)
}

/// What a model has to know of tools that it does not see: whose they are, and how many.
fn hidden_words(deferred: &BTreeSet<String>) -> String {
    let mut by_resource: BTreeMap<&str, usize> = BTreeMap::new();
    for name in deferred {
        *by_resource
            .entry(name.split("__").next().unwrap_or_default())
            .or_default() += 1;
    }
    let counts: Vec<String> = by_resource
        .iter()
        .map(|(name, count)| format!("{name} ({count})"))
        .collect();
    format!(
        "Looks for more tools by words in their names and descriptions, or by a name. There are more of: {}. Those that \
         it finds can be called from the next step on.",
        counts.join(", ")
    )
}

fn export(name: &str, config: &Config, deferred: &BTreeSet<String>) -> ExportSpec {
    let description = match deferred.is_empty() {
        true => SELECTS.to_owned(),
        false => hidden_words(deferred),
    };
    let words = match deferred.is_empty() {
        true => "Words that must all occur, in any case.",
        false => "Words, in any case; the tools in which most of them occur are found.",
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
                    "description": words,
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
        read_only: true,
        idempotent: true,
        ..ExportSpec::default()
    }
}

/// The handler: looks through all tools of the agent.
struct Search {
    tools: Arc<[ToolDefinition]>,
    max_results: usize,
    /// Where no tool has all words, those with most of them are found.
    is_lenient: bool,
}

#[async_trait]
impl ToolHandler for Search {
    async fn call(&self, _ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        let query = input
            .get("query")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let limit = input
            .get("limit")
            .and_then(Value::as_u64)
            .and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(self.max_results).min(self.max_results);
        let mut found = search(&self.tools, query, limit);
        if found.is_empty() && self.is_lenient {
            found = search_any(&self.tools, query, limit);
        }
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
        if words
            .iter()
            .all(|word| name.contains(word) || description.contains(word))
        {
            let not_in_name = words.iter().filter(|word| !name.contains(**word)).count();
            found.push((not_in_name, tool));
        }
    }
    found.sort_by_key(|(not_in_name, _)| *not_in_name);
    found
        .into_iter()
        .map(|(_, tool)| tool)
        .take(limit)
        .collect()
}

/// The tools in which any word of `query` occurs, those in which most do first.
fn search_any<'a>(
    tools: &'a [ToolDefinition],
    query: &str,
    limit: usize,
) -> Vec<&'a ToolDefinition> {
    let query = query.to_lowercase();
    // A short word is in everything.
    let words: Vec<&str> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 2)
        .collect();
    let score = |tool: &ToolDefinition| {
        let (name, description) = (tool.name.to_lowercase(), tool.description.to_lowercase());
        let of_word = |word: &&str| {
            2 * usize::from(name.contains(*word)) + usize::from(description.contains(*word))
        };
        words.iter().map(of_word).sum::<usize>()
    };
    let mut found: Vec<(usize, &ToolDefinition)> = tools
        .iter()
        .map(|tool| (score(tool), tool))
        .filter(|(score, _)| *score > 0)
        .collect();
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found
        .into_iter()
        .map(|(_, tool)| tool)
        .take(limit)
        .collect()
}

impl ToolSearch {
    /// What the searches among the calls of a step have found; `None` where there are none.
    fn found_in(&self, results: &[ToolCallResult]) -> Option<Selection> {
        let searches = results
            .iter()
            .filter(|result| result.tool_name == self.tool.name.as_str());
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
        let kept = if self.persist_selection {
            turn.state(NAME).await?
        } else {
            None
        };
        Ok(kept
            .and_then(|kept| Selection::deserialize(kept).ok())
            .unwrap_or_default())
    }

    /// What a step offers: the same catalog as before where it is chosen in the same way.
    fn narrowed(&self, catalog: &Catalog, selection: &Selection) -> Catalog {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &Offered| {
            Arc::ptr_eq(&known.of, catalog.definitions()) && known.selection == *selection
        };
        if let Some(known) = offered.iter().find(|known| is_same(known)) {
            return known.catalog.clone();
        }
        let made = self.choose(catalog, selection);
        if offered.len() == KEPT {
            offered.remove(0);
        }
        let of = Arc::clone(catalog.definitions());
        offered.push(Offered {
            of,
            selection: selection.clone(),
            catalog: made.clone(),
        });
        made
    }

    fn choose(&self, catalog: &Catalog, selection: &Selection) -> Catalog {
        let is_search = |tool: &RegisteredTool| tool.name == self.tool.name;
        let is_selected =
            |tool: &RegisteredTool| selection.selected_tools.contains(tool.name.as_str());
        if !self.deferred.is_empty() {
            return catalog
                .filtered(|tool| is_selected(tool) || !self.deferred.contains(tool.name.as_str()));
        }
        let narrowed = catalog.filtered(|tool| is_search(tool) || is_selected(tool));
        // Of a selection nothing may be left after a reload.
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
            && let Some(selection) = self.found_in_turn(context)
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
        let selection = self.selection(context.turn()).await?;
        context.catalog = self.narrowed(&context.catalog, &selection);
        let outcome = next.run(context).await?;
        if let Some(mut found) = self.found_in(&outcome.results) {
            if !self.deferred.is_empty() {
                found.selected_tools.extend(selection.selected_tools);
            }
            context
                .turn()
                .note::<Found>()
                .0
                .insert(self.tool.name.to_string(), found);
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
        search(&tools(), query, limit)
            .into_iter()
            .map(|tool| tool.name.clone())
            .collect()
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

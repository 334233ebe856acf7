//! `provider: scripted`: reads the script of a Model resource, from a file or from its options.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use goondan_core::ports::model::{ModelClient, ModelError};
use goondan_spec::kinds::Model;
use goondan_spec::{Resource, ResourceId};
use serde_json::Value;

use super::{ModelScript, ScriptReply, ScriptState, ScriptedClient, lock};
use crate::errors::configuration_error;
use crate::files::read_inside;

/// The option with the path of a script.
const SCRIPT_FIELD: &str = "spec.options.script";
/// Maximum size of a script, in bytes, as for any YAML file of a bundle.
const MAX_SCRIPT_BYTES: u64 = 1024 * 1024;

/// Reply of a scripted model without a script.
const ECHO_REPLY: &str = "You said: {{ input }}\n\nI am the scripted model and repeat your input. \
    Script my replies in `options.script`, or set another `provider` to use a real model.";

/// The scripts in use, by Model. After a reload, an unchanged script continues at its position.
#[derive(Debug, Default)]
pub(crate) struct PlayingScripts {
    playing: Mutex<BTreeMap<ResourceId, PlayingScript>>,
}

/// A script and the positions in it.
#[derive(Debug, Clone)]
struct PlayingScript {
    script: Arc<ModelScript>,
    state: Arc<ScriptState>,
}

impl PlayingScripts {
    /// Returns a client for `model`, whose provider is `scripted`.
    pub(crate) fn client(
        &self,
        model: &Resource<Model>,
        root: &Path,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let script = script_of(model, root)?;
        let mut playing = lock(&self.playing);
        let current = match playing.get(&model.id) {
            Some(current) if *current.script == script => current.clone(),
            _ => {
                let fresh = PlayingScript {
                    script: Arc::new(script),
                    state: Arc::default(),
                };
                playing.insert(model.id.clone(), fresh.clone());
                fresh
            }
        };
        Ok(Arc::new(ScriptedClient {
            script: current.script,
            state: current.state,
            log: None,
        }))
    }
}

/// Returns the script of `model`; without a script, one that repeats the input.
fn script_of(model: &Resource<Model>, root: &Path) -> Result<ModelScript, ModelError> {
    let inline = &model.spec.options.inline_script;
    match model.spec.options.script.as_deref() {
        Some(_) if !inline.is_empty() => Err(configuration_error(
            format!(
                "{} has both options.script and a script in options",
                model.id
            ),
            "use either a file in options.script, or agents, rules and default in options",
        )),
        Some(path) => {
            let text = read_inside(root, path, MAX_SCRIPT_BYTES)
                .map_err(|error| error.within(SCRIPT_FIELD, None))?;
            parse_file(&model.id, path, &text)
        }
        None if inline.is_empty() => Ok(ModelScript {
            default: Some(ScriptReply::text(ECHO_REPLY)),
            ..ModelScript::default()
        }),
        // JSON is YAML, so both report errors in the same words.
        None => goondan_spec::yaml::from_str(&Value::Object(inline.clone()).to_string()).map_err(
            |error| {
                configuration_error(
                    format!(
                        "the script in the options of {} is invalid: {}",
                        model.id, error.message
                    ),
                    SCRIPT_SHAPE,
                )
            },
        ),
    }
}

/// Description of the format, as a suggestion.
const SCRIPT_SHAPE: &str = "a script has agents (lists of replies by agent), rules ({when, reply}) and \
    default; \
                     a reply has one of text, calls, rawCalls, error";

/// Parses the script file `path`, whose content is `text`.
fn parse_file(model: &ResourceId, path: &str, text: &str) -> Result<ModelScript, ModelError> {
    goondan_spec::yaml::from_str(text).map_err(|error| {
        let suggestion = error.suggestion.unwrap_or_else(|| SCRIPT_SHAPE.to_owned());
        let message = format!("the script of {model} is invalid: {}", error.message);
        let position = error
            .line
            .zip(error.column)
            .map(|(line, column)| (path.to_owned(), line, column));
        configuration_error(message, suggestion).within(SCRIPT_FIELD, position)
    })
}

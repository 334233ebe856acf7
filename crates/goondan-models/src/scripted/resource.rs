//! `provider: scripted`: the script that a Model resource names or holds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use goondan_core::ports::model::{ModelClient, ModelError};
use goondan_spec::kinds::Model;
use goondan_spec::{Resource, ResourceId};
use serde_json::Value;

use super::{Reply, Script, ScriptState, ScriptedClient, locked};
use crate::errors::configuration;
use crate::files::read_inside;

/// The option that names a script.
const FIELD: &str = "spec.options.script";
/// The largest script, in bytes: as for any YAML file of a bundle.
const LIMIT: u64 = 1024 * 1024;

/// What the scripted model says when nobody wrote it a script.
const ECHO: &str = "You said: {{ input }}\n\nI am the scripted model: I repeat what I am told. Give me lines with \
                    `options.script`, or set another `provider` to talk to a real model.";

/// The scripts that are being played, by Model: a script that a reload leaves alone goes on where it was.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    playing: Mutex<BTreeMap<ResourceId, Playing>>,
}

/// A script and how far it is.
#[derive(Debug, Clone)]
struct Playing {
    script: Arc<Script>,
    state: Arc<ScriptState>,
}

impl Scripts {
    /// A client for `model`, whose provider is `scripted`.
    pub(crate) fn client(
        &self,
        model: &Resource<Model>,
        root: &Path,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let script = script_of(model, root)?;
        let mut playing = locked(&self.playing);
        let current = match playing.get(&model.id) {
            Some(known) if *known.script == script => known.clone(),
            _ => {
                let fresh = Playing {
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

fn script_of(model: &Resource<Model>, root: &Path) -> Result<Script, ModelError> {
    let inline = &model.spec.options.inline_script;
    match model.spec.options.script.as_deref() {
        Some(_) if !inline.is_empty() => Err(configuration(
            format!(
                "{} has both options.script and a script in options",
                model.id
            ),
            "keep one: a file named by options.script, or agents, rules and default in options",
        )),
        Some(path) => {
            let text = read_inside(root, path, LIMIT).map_err(|error| error.within(FIELD, None))?;
            parse_file(&model.id, path, &text)
        }
        None if inline.is_empty() => Ok(Script {
            default: Some(Reply::text(ECHO)),
            ..Script::default()
        }),
        // JSON is YAML, so both report errors in the same words.
        None => goondan_spec::yaml::from_str(&Value::Object(inline.clone()).to_string()).map_err(
            |error| {
                configuration(
                    format!(
                        "the script in the options of {} is not right: {}",
                        model.id, error.message
                    ),
                    SHAPE,
                )
            },
        ),
    }
}

const SHAPE: &str = "a script has agents (lists of replies by agent), rules ({when, reply}) and default; \
                     a reply has one of text, calls, rawCalls, error";

/// Reads a script's text; the only place that knows how.
fn parse_file(model: &ResourceId, path: &str, text: &str) -> Result<Script, ModelError> {
    goondan_spec::yaml::from_str(text).map_err(|error| {
        let suggestion = error.suggestion.unwrap_or_else(|| SHAPE.to_owned());
        let message = format!("the script of {model} is not right: {}", error.message);
        let place = error
            .line
            .zip(error.column)
            .map(|(line, column)| (path.to_owned(), line, column));
        configuration(message, suggestion).within(FIELD, place)
    })
}

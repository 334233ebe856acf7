//! Built-in extensions: names and constructors.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Middleware, context_message, inter_agent_response_format, logging, message_compaction,
    message_window, required_tools_guard, tool_search,
};
use crate::tooling::registry::ToolCatalog;
use goondan_core::JsonObject;

/// Built-in extension: `Extension/<name>` of `@goondan/base`, and the entry `builtin:<name>`.
pub(super) struct BuiltinExtension {
    pub(super) name: &'static str,
    pub(super) make: MiddlewareFactory,
}

/// Constructor of middleware from a config and the agent's tools.
type MiddlewareFactory = fn(JsonObject, &ToolCatalog) -> Result<Arc<dyn Middleware>, ConfigProblem>;

/// Error in the config of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigProblem {
    /// Path in the config, such as `maxMessages` or `requiredTools[0]`; empty for the whole config.
    pub(super) field: String,
    pub(super) message: String,
    pub(super) suggestion: Option<String>,
}

/// All built-in extensions, sorted by name.
const BUILTINS: &[BuiltinExtension] = &[
    BuiltinExtension {
        name: context_message::NAME,
        make: context_message::make,
    },
    BuiltinExtension {
        name: inter_agent_response_format::NAME,
        make: inter_agent_response_format::make,
    },
    BuiltinExtension {
        name: logging::NAME,
        make: logging::make,
    },
    BuiltinExtension {
        name: message_compaction::NAME,
        make: message_compaction::make,
    },
    BuiltinExtension {
        name: message_window::NAME,
        make: message_window::make,
    },
    BuiltinExtension {
        name: required_tools_guard::NAME,
        make: required_tools_guard::make,
    },
    BuiltinExtension {
        name: tool_search::NAME,
        make: tool_search::make,
    },
];

/// Returns the names of the built-in extensions, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|builtin| builtin.name)
}

/// Returns a built-in extension; `None` for an unknown name.
pub(super) fn find(name: &str) -> Option<&'static BuiltinExtension> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

/// Decodes a config; omitted fields get their defaults. Fails with the path of the invalid field.
pub(super) fn decode<C: DeserializeOwned>(config: JsonObject) -> Result<C, ConfigProblem> {
    serde_path_to_error::deserialize(Value::Object(config)).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { String::new() } else { path };
        ConfigProblem {
            field,
            message: error.into_inner().to_string(),
            suggestion: None,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(name: &str, config: Value) -> ConfigProblem {
        let Value::Object(config) = config else {
            unreachable!("a config is an object")
        };
        let extension = (find(name).unwrap().make)(config, &ToolCatalog::new(Vec::new()));
        extension.err().expect("the config is invalid")
    }

    #[test]
    fn builtins_are_sorted_and_accept_an_empty_config() {
        assert!(names().is_sorted());
        for builtin in BUILTINS {
            let extension =
                (builtin.make)(JsonObject::new(), &ToolCatalog::new(Vec::new())).unwrap();
            assert_eq!(extension.name(), builtin.name);
        }
    }

    #[test]
    fn every_extension_rejects_an_unknown_field() {
        for name in names() {
            let problem = problem(name, json!({"nope": 1}));
            assert_eq!(problem.field, "nope", "{name}");
            assert!(
                problem.message.starts_with("unknown field `nope`"),
                "{name}: {}",
                problem.message
            );
        }
    }

    #[test]
    fn an_invalid_value_is_reported_with_its_field() {
        for (name, config, field) in [
            (
                "context-message",
                json!({"includeSwarmCatalog": "yes"}),
                "includeSwarmCatalog",
            ),
            (
                "inter-agent-response-format",
                json!({"includeRequestMetadata": 1}),
                "includeRequestMetadata",
            ),
            ("logging", json!({"level": "loud"}), "level"),
            ("message-compaction", json!({"mode": "shrink"}), "mode"),
            (
                "message-compaction",
                json!({"maxCharacters": 0}),
                "maxCharacters",
            ),
            ("message-window", json!({"maxMessages": 0}), "maxMessages"),
            (
                "message-window",
                json!({"maxMessages": "80"}),
                "maxMessages",
            ),
            (
                "required-tools-guard",
                json!({"requiredTools": ["a__b", 1]}),
                "requiredTools[1]",
            ),
            (
                "required-tools-guard",
                json!({"requiredTools": ["a__b"]}),
                "requiredTools[0]",
            ),
            ("tool-search", json!({"toolName": "search"}), "toolName"),
            ("tool-search", json!({"maxResults": -1}), "maxResults"),
        ] {
            assert_eq!(
                problem(name, config.clone()).field,
                field,
                "{name}: {config}"
            );
        }
    }

    /// The error about an unknown field lists the valid fields.
    #[test]
    fn each_config_field_is_documented() {
        let docs = include_str!("../../../../docs/extensions.md");
        for name in names() {
            let section = docs
                .split("\n## ")
                .find(|section| section.starts_with(&format!("{name}\n")));
            let section = section.unwrap_or_else(|| panic!("{name} is not documented"));
            let message = problem(name, json!({"nope": 1})).message;
            let fields: Vec<&str> = message.split('`').skip(1).step_by(2).skip(1).collect();
            let documented = section
                .lines()
                .filter(|line| line.starts_with("| `"))
                .count();
            assert!(
                fields
                    .iter()
                    .all(|field| section.contains(&format!("\n| `{field}` |"))),
                "{name}: {fields:?}"
            );
            assert_eq!(documented, fields.len(), "{name}: {message}");
        }
    }
}

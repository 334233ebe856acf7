//! What a server says that it has, made fit to be offered to a model.
//!
//! All of it is the text of a stranger: it is bounded, freed of what can't be seen, and what it promises is taken as a reason
//! to ask at the most. A tool without hints is taken for one that can do everything its server can.

use std::collections::BTreeSet;

use rmcp::model::{Tool as Told, ToolAnnotations};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::{Definition, Way};
use crate::listing::Listing;
use crate::names;
use goondan_core::JsonObject;
use goondan_core::ports::model::ToolDefinition;
use goondan_spec::kinds::{ExportSpec, Permission, is_own_format};
use goondan_spec::shown::{Escaper, Kept, line};

/// Tools of one server at most.
pub(crate) const MAX_TOOLS: usize = 1_000;
/// Characters of a description.
const MAX_DESCRIPTION: usize = 4_000;
/// Bytes of the schema of a tool's arguments.
const MAX_SCHEMA: usize = 64 << 10;
/// How deep a schema may go.
const MAX_DEPTH: usize = 64;
/// Sentences about what is not as the server says.
const MAX_NOTES: usize = 20;
/// Characters of a name in a message.
const MAX_SHOWN: usize = 80;

/// The form in which catalogs are kept; another one is not read.
const FORMAT: u32 = 1;

/// The tools of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Catalog {
    format: u32,
    /// The revision of the protocol that was spoken.
    pub protocol: String,
    /// What the server calls itself.
    pub server: String,
    /// Its tools, in its own order.
    pub tools: Vec<Listed>,
    /// What is not as the server says, a sentence each.
    pub notes: Vec<String>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// What the server calls it.
    pub own: String,
    /// What it is here.
    pub export: ExportSpec,
    /// What the server says of its effects.
    pub hints: Hints,
}

/// What a server says of the effects of a tool. It may be wrong, or a lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Twice is the same as once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It reaches out into the world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Catalog {
    /// What `listing` amounts to.
    pub(crate) fn new(
        definition: &Definition,
        protocol: &str,
        server: &str,
        listing: Listing,
    ) -> Catalog {
        let Listing {
            tools: mut told,
            mut notes,
        } = listing;
        if told.len() > MAX_TOOLS {
            notes.push(format!(
                "Of its {} tools the first {MAX_TOOLS} are taken.",
                told.len()
            ));
            told.truncate(MAX_TOOLS);
        }
        let own: Vec<&str> = told.iter().map(|tool| tool.name.as_ref()).collect();
        let assigned = names::assign(definition.name(), &own);
        let mut tools = Vec::new();
        for (tool, name) in told.iter().zip(assigned) {
            let own = short(&tool.name);
            let Some(name) = name else {
                notes.push(format!("It lists `{own}` twice; the first one is taken."));
                continue;
            };
            if name != names::plain(&tool.name) {
                notes.push(format!(
                    "Its tool `{own}` is called `{name}` here: its own name is too long, or taken."
                ));
            }
            match listed(definition, tool, name) {
                Ok(listed) => tools.push(listed),
                Err(why) => notes.push(format!("Its tool `{own}` is left out: {why}.")),
            }
        }
        let more = notes.len().saturating_sub(MAX_NOTES);
        if more > 0 {
            notes.truncate(MAX_NOTES);
            notes.push(format!("There are {more} more notes of that kind."));
        }
        let server = line(server.chars().take(MAX_SHOWN).collect::<String>()).to_string();
        Catalog {
            format: FORMAT,
            protocol: protocol.to_owned(),
            server,
            tools,
            notes,
        }
    }

    /// What its schemas take up of every request that offers them, in tokens, roughly.
    pub fn tokens(&self) -> usize {
        let size = |listed: &Listed| {
            let ExportSpec {
                name,
                description,
                parameters,
                ..
            } = &listed.export;
            let (name, description) = (name.clone(), description.clone());
            ToolDefinition {
                name,
                description,
                parameters: parameters.clone(),
            }
            .tokens()
        };
        self.tools.iter().map(size).sum()
    }

    /// Whether it can be read by this version of the program.
    pub(crate) fn is_readable(&self) -> bool {
        self.format == FORMAT
    }
}

fn listed(definition: &Definition, told: &Told, name: String) -> Result<Listed, String> {
    let hints = told.annotations.as_ref().map(Hints::of).unwrap_or_default();
    let description = told
        .description
        .as_deref()
        .filter(|text| !text.trim().is_empty());
    let title = told
        .title
        .as_deref()
        .or_else(|| told.annotations.as_ref()?.title.as_deref());
    let description = description.or(title).unwrap_or(&told.name);
    let export = ExportSpec {
        name,
        description: cleaned(description, MAX_DESCRIPTION),
        parameters: Value::Object(parameters(&told.input_schema)?),
        permissions: permissions(&definition.way, hints),
        // Nor `read_only` or `idempotent`: they let a call be made again, or without a question. A stranger's word is not enough
        // for that.
        ..ExportSpec::default()
    };
    Ok(Listed {
        own: told.name.to_string(),
        export,
        hints,
    })
}

impl Hints {
    fn of(told: &ToolAnnotations) -> Hints {
        Hints {
            read_only: told.read_only_hint,
            destructive: told.destructive_hint,
            idempotent: told.idempotent_hint,
            open_world: told.open_world_hint,
        }
    }
}

/// What a call needs: to talk to the network, for what comes back may be from anywhere, and for a program to run it. One
/// that says that it destroys needs to write, too.
fn permissions(way: &Way, hints: Hints) -> BTreeSet<Permission> {
    let mut permissions = BTreeSet::from([Permission::Network]);
    if matches!(way, Way::Program { .. }) {
        permissions.insert(Permission::Execute);
    }
    if hints.destructive == Some(true) && hints.read_only != Some(true) {
        permissions.insert(Permission::Write);
    }
    permissions
}

/// A schema of type object, without the formats that mean something to a policy: those are not a stranger's to state.
fn parameters(schema: &JsonObject) -> Result<JsonObject, String> {
    let size = serde_json::to_vec(schema)
        .map(|text| text.len())
        .unwrap_or(usize::MAX);
    if size > MAX_SCHEMA {
        return Err(format!(
            "the schema of its arguments has {size} bytes, more than {MAX_SCHEMA}"
        ));
    }
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err("its arguments are no object".to_owned()),
    }
    let mut parameters = schema.clone();
    parameters.insert("type".to_owned(), Value::from("object"));
    let mut value = Value::Object(parameters);
    tidy(&mut value, 0)?;
    match value {
        Value::Object(parameters) => Ok(parameters),
        _ => Err("its arguments are no object".to_owned()),
    }
}

fn tidy(value: &mut Value, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!(
            "the schema of its arguments is more than {MAX_DEPTH} levels deep"
        ));
    }
    match value {
        Value::Object(fields) => {
            if fields
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(is_own_format)
            {
                fields.shift_remove("format");
            }
            for (key, value) in fields.iter_mut() {
                match value {
                    Value::String(text)
                        if matches!(key.as_str(), "description" | "title" | "$comment") =>
                    {
                        *text = cleaned(text, MAX_DESCRIPTION);
                    }
                    other => tidy(other, depth + 1)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| tidy(item, depth + 1)),
        _ => Ok(()),
    }
}

/// The text of a stranger for a model: nothing in it is hidden, and it ends somewhere.
pub(crate) fn cleaned(text: &str, most: usize) -> String {
    let text = Escaper::new(Kept::Writing).escape(text.trim()).into_owned();
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// A name for a message.
pub(crate) fn short(name: &str) -> String {
    line(name.chars().take(MAX_SHOWN).collect::<String>()).to_string()
}

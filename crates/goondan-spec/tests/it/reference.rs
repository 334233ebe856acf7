//! `docs/reference.md` is generated from the schemas, and its examples use every field.

use std::fmt::Write as _;

use crate::support::examples::example;
use crate::support::fields::{Field, fields, fields_inside};
use goondan_spec::schema::schemas;
use goondan_spec::{Kind, RenamedField, renamed_fields, yaml};
use serde_json::Value;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");

const INTRODUCTION: &str = "\
# Reference: all resources and their fields

<!-- Made from the JSON Schemas: do not edit. `UPDATE_DOCS=1 cargo test -p goondan-spec --test it reference` rewrites it. -->

A project is a directory with a `goondan.yaml`. Every YAML document in the project's files defines one resource. `gdn` reads these files:

* `goondan.yaml`, and files named `models.yaml`, `agents.yaml`, `tools.yaml` and so on (the name of a kind, in the singular or the
  plural), in any directory;
* every `*.yaml` and `*.yml` file directly in a directory named `models`, `agents`, `tools`, `extensions`, `connectors`, `connections`,
  `swarms` or `resources`. The case of the extension does not matter, but the name must be UTF-8. Files in subdirectories of these directories
  are not read, unless their own directory has such a name.

It skips files that `.gitignore` excludes, files and directories whose names begin with a dot, and the directories `dist`, `node_modules` and
`target`. Paths in resources are relative to the project directory and stay inside it.

Three tasks need no kind of their own. Agents call each other with [`Tool/agents`](tools.md#agents). A schedule is a Connection with
[`Connector/cron`](connections.md#cron). An MCP server is a Tool with [`spec.mcp`](mcp.md). Each call of a called agent also follows the
[permissions of its callers](permissions.md#agents-that-call-agents).

A field that is not on this page is an error. [YAML](yaml.md) describes the YAML that `gdn` reads, [Limits](limits.md) lists every limit of the
program, and `gdn schema` prints the JSON Schemas that this page is made from.
";

/// Links to further reading for each kind.
const FURTHER_READING: [(Kind, &str); 8] = [
    (
        Kind::Model,
        "[Models](models.md) lists the providers and their `options`.",
    ),
    (
        Kind::Agent,
        "[Permissions](permissions.md) explains `permissions`.",
    ),
    (
        Kind::Swarm,
        "[Limits](limits.md) lists all other limits. [Durability](durability.md#idle-instances) explains `lifecycle`.",
    ),
    (
        Kind::Tool,
        "[Built-in tools](tools.md) need no Tool resource. [Hosts](hosts.md) explains entries in JavaScript, TypeScript and Python, [native tools](native-tools.md) libraries and `build`.",
    ),
    (
        Kind::Extension,
        "[Extensions](extensions.md) lists the built-in ones and their `config`, and explains how to write one.",
    ),
    (
        Kind::Connector,
        "[Connections](connections.md) lists the built-in ones.",
    ),
    (
        Kind::Connection,
        "[Connections](connections.md) has a section for each platform.",
    ),
    (
        Kind::Package,
        "A project without a Package is fine. If there is one, it is the first document of `goondan.yaml`.",
    ),
];

fn schema(kind: Kind) -> Value {
    let file = format!("{}.schema.json", kind.as_str().to_lowercase());
    schemas()
        .into_iter()
        .find(|(name, _)| *name == file)
        .unwrap()
        .1
}

/// Returns the fields of a kind's `spec`.
fn spec(kind: Kind) -> Vec<Field> {
    let schema = schema(kind);
    fields(&schema, &schema["properties"]["spec"], "spec")
}

/// Returns the fields of a definition with its own section.
fn shared(name: &str) -> Vec<Field> {
    let root = schema(Kind::Connection);
    fields_inside(&root, &root["$defs"][name])
}

/// Returns the fields of every document outside `spec`.
fn envelope() -> Vec<Field> {
    let mut schema = schema(Kind::Agent);
    schema["properties"]["spec"] =
        serde_json::json!({"type": "object", "description": "What the kind defines."});
    let mut all = fields(&schema, &schema, "");
    let kind = all.iter_mut().find(|field| field.path == "kind").unwrap();
    kind.kind = "kind".to_owned();
    let spec = all.iter_mut().find(|field| field.path == "spec").unwrap();
    spec.text.push_str(" A Package may do without.");
    all
}

fn table(page: &mut String, fields: &[Field]) {
    page.push_str("\n| field | type | default | meaning |\n|---|---|---|---|\n");
    let mut explained: Vec<&[(String, String)]> = Vec::new();
    for Field {
        path,
        kind,
        required,
        default,
        text,
        values,
    } in fields
    {
        let default = match default {
            Some(Value::String(text)) => format!("`{text}`"),
            Some(value) => format!("`{value}`"),
            None if *required => "**required**".to_owned(),
            None => "–".to_owned(),
        };
        let meanings = if explained.contains(&values.as_slice()) {
            String::new()
        } else {
            meanings(values)
        };
        explained.push(values);
        let text = format!("{text}{meanings}").replace('|', "\\|");
        writeln!(page, "| `{path}` | {kind} | {default} | {text} |").unwrap();
    }
}

/// Returns the values of an enumeration, as sentences.
fn meanings(values: &[(String, String)]) -> String {
    let meaning = |(value, text): &(String, String)| {
        format!("{value}: {}", lower(text.trim_end_matches('.')))
    };
    let all: Vec<String> = values.iter().map(meaning).collect();
    if all.is_empty() {
        String::new()
    } else {
        format!(" {}.", all.join("; "))
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n| kind | what it is |\n|---|---|\n");
    for kind in Kind::ALL {
        let text = schema(kind)["description"].as_str().unwrap().to_owned();
        writeln!(
            page,
            "| [{kind}](#{}) | {text} |",
            kind.as_str().to_lowercase()
        )
        .unwrap();
    }
    page.push_str("\n## Every document\n");
    table(&mut page, &envelope());
    for (kind, further_reading) in FURTHER_READING {
        let text = schema(kind)["description"].as_str().unwrap().to_owned();
        write!(page, "\n## {kind}\n\n{text} {further_reading}").unwrap();
        page.truncate(page.trim_end().len());
        page.push('\n');
        table(&mut page, &spec(kind));
        write!(page, "\nExample:\n\n```yaml\n{}```\n", example(kind)).unwrap();
    }
    page.push_str("\n## References\n\nA reference names another resource. The short form is the string `Kind/name`, such as `Model/main`, or only the name. Lists of references also take a map with `ref`. The long form is a map:\n");
    table(&mut page, &shared("ObjectRef"));
    page.push_str("\n## Value sources\n\nA value source is a map with either `value` or `valueFrom`. `valueFrom` has either `env` or `secretRef`. [Secrets](secrets.md) explains where `gdn` looks up secrets.\n");
    table(&mut page, &shared("ValueSource"));
    page.push_str("\n## Older names\n\nThese names are still accepted, and `gdn validate --fix` replaces them. A field under both names is an error. A number under an older name is in the unit of that name. Under the current name, the value states its unit: `ms`, `s`, `m`, `h` or `d` for durations, `MiB` or `GiB` for sizes.\n\n| kind | map | older name | current name | example |\n|---|---|---|---|---|\n");
    for field in renamed_fields() {
        let RenamedField {
            kind,
            map,
            name,
            older,
            example,
        } = field;
        let example = example.map_or_else(|| "–".to_owned(), |value| format!("`{name}: {value}`"));
        writeln!(
            page,
            "| {kind} | `{map}` | `{older}` | `{name}` | {example} |"
        )
        .unwrap();
    }
    page
}

#[test]
fn the_reference_page_is_up_to_date() {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, page()).unwrap();
    }
    let command = "UPDATE_DOCS=1 cargo test -p goondan-spec --test it reference";
    assert!(
        std::fs::read_to_string(PAGE).unwrap_or_default() == page(),
        "docs/reference.md is stale: run {command}"
    );
}

/// Editors show each description next to the field.
#[test]
fn every_field_has_a_description() {
    let shared = ["ObjectRef", "ValueSource"].map(shared).concat();
    let mut all = [envelope(), shared, Kind::ALL.map(spec).concat()].concat();
    assert!(all.len() > 100, "{}", all.len());
    all.retain(|field| {
        !is_sentence(&field.text) || field.values.iter().any(|(_, text)| !is_sentence(text))
    });
    assert!(all.is_empty(), "{all:#?}");
}

fn is_sentence(text: &str) -> bool {
    text.len() > 4
        && text.ends_with('.')
        && text.starts_with(|c: char| c.is_uppercase() || c == '`')
}

#[test]
fn each_example_uses_every_field() {
    for kind in Kind::ALL {
        let documents: Vec<Value> = yaml::documents_from_str(example(kind)).unwrap();
        assert!(
            documents
                .iter()
                .all(|document| document["kind"] == kind.as_str()),
            "{kind}"
        );
        for field in spec(kind) {
            let path: Vec<&str> = field.path.split('.').collect();
            assert!(
                documents.iter().any(|document| has(document, &path)),
                "no example of a {kind} has `{}`",
                field.path
            );
        }
    }
}

/// Returns true if there is a value at `path`.
fn has(value: &Value, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return true;
    };
    match first.strip_suffix("[]") {
        Some(list) => value[list]
            .as_array()
            .is_some_and(|items| items.iter().any(|item| has(item, rest))),
        None if *first == "<name>" => value
            .as_object()
            .is_some_and(|map| map.values().any(|value| has(value, rest))),
        None => value.get(first).is_some_and(|value| has(value, rest)),
    }
}

//! Fields with two names, and resources that a project omits.

use std::path::Path;

use super::support::{files, load_files};
use goondan_spec::{
    BasePackage, Bundle, KnownFiles, LoadInput, LoadResult, load_expanded, renamed_fields, repair,
};

/// A project with the older names of fields in every kind.
const OLDER: &str = "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: openai
  model: gpt
  options: {timeoutSeconds: 1.5, totalTimeoutSeconds: 3600, maxRetryWaitMs: 30000}
  limits: {requestsPerMinute: 5}
  pricing: {input: 3, cachedInput: 0.3, cacheWrite: 3.75, output: 15}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/t}]
  permissions:
    rules:
      - {permission: read, action: allow}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: t}
spec:
  entry: ./t.js
  timeoutMs: 90000
  config:
    limits: {cpuSeconds: 30, memoryMib: 2048}
  exports:
    - name: e
      description: Does it.
      parameters: {type: object}
      permissions: [read]
      optionalPermissions: [network]
      timeoutMs: 250
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/a
  agents: [{ref: Agent/a}]
  limits: {tokensPerMinute: 7}
  policy:
    budget: {maxDurationSeconds: 7200}
    turnBudget: {maxDurationSeconds: 60}
    untrusted: [network]
    lifecycle: {ttlSeconds: 86400}
";

/// The same project after `--fix`.
const CURRENT: &str = "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: openai
  model: gpt
  options: {timeout: 1500ms, totalTimeout: 1h, maxRetryWait: 30s}
  rateLimits: {requestsPerMinute: 5}
  pricing: {inputPerMillion: 3, cachedInputPerMillion: 0.3, cacheWritePerMillion: 3.75, outputPerMillion: 15}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/t}]
  permissions:
    rules:
      - {requires: read, action: allow}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: t}
spec:
  entry: ./t.js
  timeout: 90s
  config:
    resources: {cpuTime: 30s, memory: 2GiB}
  exports:
    - name: e
      description: Does it.
      parameters: {type: object}
      requires: [read]
      optionallyRequires: [network]
      timeout: 250ms
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/a
  agents: [{ref: Agent/a}]
  rateLimits: {tokensPerMinute: 7}
  policy:
    runBudget: {maxDuration: 2h}
    turnBudget: {maxDuration: 1m}
    untrustedSources: [network]
    lifecycle: {ttlSeconds: 86400}
";

fn project(text: &str) -> goondan_spec::MemoryFiles {
    files(&[
        ("goondan.yaml", text),
        ("t.js", "export const handlers = {}"),
    ])
}

fn bundle(text: &str) -> Bundle {
    let loaded = load_files(&project(text));
    assert!(loaded.bundle.is_some(), "{:#?}", loaded.diagnostics);
    loaded.bundle.unwrap()
}

/// Returns the diagnostics as `LINE:COLUMN FIELD: MESSAGE`.
fn messages(text: &str) -> Vec<String> {
    let loaded = load_files(&project(text));
    let messages = loaded.diagnostics.iter().map(|found| {
        let at = found.position.unwrap();
        let field = found.field.as_deref().unwrap_or_default();
        format!("{}:{} {field}: {}", at.line, at.column, found.message)
    });
    messages.collect()
}

fn expanded(text: &str) -> (LoadResult, String) {
    let base = BasePackage::default();
    let input = LoadInput {
        root: Path::new("/p"),
        files: &project(text),
        base: &base,
    };
    load_expanded(input, &KnownFiles::default())
}

fn repaired(text: &str) -> Option<String> {
    let base = BasePackage::default();
    let repairs = repair::repair(LoadInput {
        root: Path::new("/p"),
        files: &project(text),
        base: &base,
    });
    repairs.into_iter().next().map(|repair| repair.after)
}

#[test]
fn older_and_current_names_have_the_same_meaning() {
    let (older, current) = (bundle(OLDER), bundle(CURRENT));
    assert_eq!(older.models()[0].spec, current.models()[0].spec);
    assert_eq!(older.agents()[0].spec, current.agents()[0].spec);
    assert_eq!(older.tools()[0].spec, current.tools()[0].spec);
    assert_eq!(older.swarms()[0].spec, current.swarms()[0].spec);
    let tool = &current.tools()[0].spec;
    assert_eq!(tool.timeout.as_secs(), 90);
    assert_eq!(tool.config["limits"]["memoryMib"], 2048);
}

#[test]
fn older_names_load_without_warnings_and_are_renamed_by_the_fix() {
    let loaded = load_files(&project(OLDER));
    assert!(loaded.diagnostics.is_empty(), "{:#?}", loaded.diagnostics);
    assert_eq!(repaired(OLDER).as_deref(), Some(CURRENT));
    assert_eq!(repaired(CURRENT), None);
}

#[test]
fn messages_show_the_name_in_the_file() {
    let older = OLDER.replace("timeoutMs: 90000", "timeoutMs: 0");
    assert_eq!(
        messages(&older),
        ["26:14 spec.timeoutMs: `spec.timeoutMs` must be an integer of at least 1, but is 0."]
    );
    let current = CURRENT.replace("timeout: 90s", "timeout: 0s");
    assert_eq!(
        messages(&current),
        ["26:12 spec.timeout: `spec.timeout` must be an integer of at least 1, but is 0."]
    );
}

#[test]
fn a_field_under_both_names_and_a_value_without_a_unit_are_errors() {
    let both = CURRENT.replace("timeout: 90s", "timeout: 90s\n  timeoutMs: 5");
    assert_eq!(
        messages(&both),
        ["27:3 spec.timeoutMs: `spec.timeoutMs` and `timeout` are the same field."]
    );
    for (value, shown) in [
        ("90", "90, without a unit"),
        ("soon", "`soon`"),
        ("[1s]", "a list"),
    ] {
        let found = messages(&CURRENT.replace("90s", value));
        let expected = format!(
            "26:12 spec.timeout: `spec.timeout` must be a duration such as `30s` or `5m`, but is \
             {shown}."
        );
        assert_eq!(found, [expected], "{value}");
    }
    let part = CURRENT.replace("maxDuration: 1m", "maxDuration: 1500ms");
    assert!(
        messages(&part)[0].contains("whole seconds"),
        "{:?}",
        messages(&part)
    );
}

#[test]
fn field_names_in_library_config_are_not_renamed() {
    let library = CURRENT.replace("./t.js", "./t.so").replace(
        "    resources: {cpuTime: 30s, memory: 2GiB}",
        "    resources: {memory: 2GiB}\n    limits: {memory: 5GiB}",
    );
    let base = BasePackage::default();
    let memory = project(&library).file("/p/t.so", "");
    let input = LoadInput {
        root: Path::new("/p"),
        files: &memory,
        base: &base,
    };
    let loaded = goondan_spec::load(input);
    let bundle = loaded
        .bundle
        .unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
    let config = &bundle.tools()[0].spec.config;
    assert_eq!(config["resources"]["memory"], "2GiB");
    assert_eq!(config["limits"]["memory"], "5GiB");
}

#[test]
fn ttl_with_a_duration_equals_ttl_seconds() {
    let written = CURRENT.replace("{ttlSeconds: 86400}", "{ttl: 1d}");
    assert_eq!(
        bundle(&written).swarms()[0].spec,
        bundle(CURRENT).swarms()[0].spec
    );
    assert_eq!(repaired(&written), None);
}

/// A renamed field that is not in a schema would have no effect.
#[test]
fn every_renamed_field_is_in_a_schema_or_in_config() {
    for field in renamed_fields() {
        if field.map.contains(".config") {
            continue;
        }
        let file = format!("{}.schema.json", field.kind.as_str().to_lowercase());
        let schemas = goondan_spec::schema::schemas();
        let (_, schema) = schemas.iter().find(|(name, _)| *name == file).unwrap();
        let text = schema.to_string();
        let older = format!("\"{}\":{{", field.older);
        let current = format!("\"{}\":{{", field.name);
        assert!(
            text.contains(&older) && text.contains(&current),
            "{field:?}"
        );
    }
}

const SHORT: &str = "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: helper}
spec:
  model: anthropic/claude-sonnet-4-5
  prompt: {system: You help.}
";

const EXPANDED: &str = "\
apiVersion: goondan.ai/v1
kind: Agent
metadata:
  name: helper
spec:
  modelConfig:
    modelRef: Model/helper
  prompt:
    system: \"You help.\"
---
apiVersion: goondan.ai/v1
kind: Model
metadata:
  name: helper
spec:
  provider: anthropic
  model: claude-sonnet-4-5
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata:
  name: default
spec:
  entryAgent: Agent/helper
  agents:
    - Agent/helper
";

#[test]
fn an_agent_with_a_provider_model_expands_to_a_project() {
    let (loaded, written) = expanded(SHORT);
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(written, EXPANDED);
    let (short, long) = (loaded.bundle.unwrap(), bundle(EXPANDED));
    assert_eq!(short.models()[0].spec, long.models()[0].spec);
    assert_eq!(short.agents()[0].spec, long.agents()[0].spec);
    assert_eq!(short.swarms()[0].spec, long.swarms()[0].spec);
    assert_eq!(expanded(EXPANDED).1, EXPANDED);
}

#[test]
fn an_expanded_project_loads_again_and_masks_secrets() {
    let with_key = CURRENT.replace(
        "  model: gpt\n",
        "  model: gpt\n  apiKey: {value: hidden}\n",
    );
    let (_, written) = expanded(&with_key);
    assert!(!written.contains("hidden"), "{written}");
    let (first, second) = (bundle(CURRENT), bundle(&written));
    assert_eq!(first.tools()[0].spec, second.tools()[0].spec);
    assert_eq!(first.swarms()[0].spec, second.swarms()[0].spec);
}

#[test]
fn errors_have_positions_in_the_short_form() {
    let unknown = SHORT.replace("anthropic/claude-sonnet-4-5", "missing");
    assert_eq!(
        messages(&unknown),
        ["5:10 spec.model: There is no `Model/missing`."]
    );
    let both = SHORT.replace("  prompt", "  modelConfig: {modelRef: Model/x}\n  prompt");
    assert!(
        messages(&both).contains(
            &"5:3 spec.model: `spec.model` and `spec.modelConfig` both name the model.".to_owned()
        ),
        "{:?}",
        messages(&both)
    );
    let params = SHORT.replace(
        "  prompt",
        "  modelConfig: {params: {temperature: 9}}\n  prompt",
    );
    let found = messages(&params);
    assert!(
        found[0].starts_with("6:39 spec.modelConfig.params.temperature"),
        "{found:?}"
    );
}

#[test]
fn two_agents_without_a_swarm_get_no_default_swarm() {
    let second = SHORT.replace("helper", "other");
    let two = bundle(&format!("{SHORT}---\n{second}"));
    assert!(two.swarms().is_empty());
    assert_eq!(two.models().len(), 2);
}

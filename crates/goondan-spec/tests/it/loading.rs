//! Exact diagnostics of invalid bundles, and the contents of a valid bundle.

use std::time::Duration;

use super::support::{VALID_PROJECT, files, found, load_files, load_texts};
use crate::support::examples::project;
use goondan_spec::kinds::{
    AgentWorkdir, ModelApi, ModelOptions, ModelParams, Permission, PermissionAction,
    ReasoningEffort, ToolBuild, ToolEntry,
};
use goondan_spec::{Bundle, Diagnostic, Kind, LoadResult, ResourceId, TextOrSource, ValueSource};

fn bundle(loaded: LoadResult) -> Bundle {
    loaded
        .bundle
        .unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics))
}

fn diagnostic<'l>(loaded: &'l LoadResult, field: &str) -> &'l Diagnostic {
    let found = loaded
        .diagnostics
        .iter()
        .find(|diagnostic| diagnostic.field.as_deref() == Some(field));
    found.unwrap_or_else(|| panic!("no diagnostic about {field}: {:#?}", loaded.diagnostics))
}

fn local(kind: Kind, name: &str) -> ResourceId {
    ResourceId {
        package: None,
        kind,
        name: name.to_owned(),
    }
}

#[test]
fn a_dangling_reference_has_a_line_and_a_suggestion() {
    let loaded = load_texts(&[(
        "goondan.yaml",
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: scripted, model: any}\n---\n\
         apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: assistant}\nspec:\n  modelConfig: {modelRef: Model/m}\n  \
         tools:\n    - ref: Tool/bsh\n---\napiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {name: default}\n\
         spec: {entryAgent: Agent/assistant, agents: [{ref: Agent/assistant}]}\n",
    )]);
    assert_eq!(
        found(&loaded),
        ["E_CONFIG_REF_NOT_FOUND goondan.yaml:12 spec.tools[0].ref"]
    );
    assert_eq!(
        loaded.diagnostics[0].resource.as_deref(),
        Some("Agent/assistant")
    );
    assert_eq!(loaded.diagnostics[0].position.unwrap().column, 12);
    assert!(
        loaded.diagnostics[0]
            .suggestion
            .as_ref()
            .unwrap()
            .contains("Tool/bash")
    );
    assert!(
        loaded.diagnostics[0]
            .help_url
            .as_ref()
            .unwrap()
            .ends_with("errors.md#e_config_ref_not_found")
    );
}

#[test]
fn every_error_is_found_in_one_run() {
    let loaded = load_texts(&[
        (
            "goondan.yaml",
            "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: scripted, modle: any}\n---\n\
             apiVersion: goondan.ai/v2\nkind: Agent\nmetadata: {name: a}\nspec: {modelConfig: {modelRef: Model/none}}\n---\n\
             apiVersion: goondan.ai/v1\nkind: Workflow\nmetadata: {name: w}\nspec: {agentRef: Agent/none}\n",
        ),
        (
            "tools/bad.yaml",
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: Bad_Name}\nspec:\n  entry: builtin:text-transform\n  \
             exports:\n    - {name: a__b, description: d, parameters: {type: object}}\n    \
             - {name: x, description: d, parameters: {type: 7}}\n",
        ),
    ]);
    assert!(loaded.bundle.is_none());
    assert_eq!(
        found(&loaded),
        [
            "E_CONFIG_SCHEMA_INVALID goondan.yaml:4 spec.model",
            "E_CONFIG_SCHEMA_INVALID goondan.yaml:4 spec.modle",
            "E_CONFIG_UNSUPPORTED_API_VERSION goondan.yaml:6 apiVersion",
            "E_CONFIG_UNKNOWN_KIND goondan.yaml:12 kind",
            "E_CONFIG_INVALID_NAME tools/bad.yaml:3 metadata.name",
            "E_CONFIG_SCHEMA_INVALID tools/bad.yaml:7 spec.exports[0].name",
            "E_CONFIG_SCHEMA_INVALID tools/bad.yaml:8 spec.exports[1].name",
            "E_CONFIG_INVALID_PARAMETERS tools/bad.yaml:8 spec.exports[1].parameters.type",
        ]
    );
    assert!(
        diagnostic(&loaded, "spec.modle")
            .suggestion
            .as_ref()
            .unwrap()
            .contains("model")
    );
}

#[test]
fn a_missing_field_is_reported_at_the_key_of_its_map() {
    let loaded = load_texts(&[(
        "goondan.yaml",
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata:\n  labels: {a: b}\nspec:\n  provider: openai\n",
    )]);
    assert_eq!(
        found(&loaded),
        [
            "E_CONFIG_SCHEMA_INVALID goondan.yaml:3 metadata.name",
            "E_CONFIG_SCHEMA_INVALID goondan.yaml:5 spec.model"
        ]
    );
    let loaded = load_texts(&[(
        "goondan.yaml",
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec:\n  provider: openai\n",
    )]);
    assert_eq!(
        found(&loaded),
        ["E_CONFIG_SCHEMA_INVALID goondan.yaml:4 spec.model"]
    );
}

#[test]
fn comments_anchors_block_text_bom_and_crlf_are_read() {
    let text = "# a comment\napiVersion: goondan.ai/v1   # another\nkind: Model\nmetadata: {name: m}\n\
         spec: {provider: scripted, model: any, options: &o {maxRetries: 0, note: \"a # b\"}}\n---\n\
         apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: assistant, labels: {tier: \"1\"}}\nspec:\n  \
         modelConfig: {modelRef: {kind: Model, name: m}, params: {temperature: 0.5}}\n  prompt:\n    system: |\n      \
         You are terse.\n\n      Really: \"terse\".\n  tools: [{ref: Tool/json-query}]\n---\n\
         apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {name: default}\n\
         spec: {entryAgent: \"Agent/assistant\", agents: [ref: Agent/assistant]}\n";
    for text in [
        text.to_owned(),
        format!("\u{feff}{text}"),
        text.replace('\n', "\r\n"),
    ] {
        let bundle = bundle(load_texts(&[("goondan.yaml", &text)]));
        let agent = &bundle.agents()[&local(Kind::Agent, "assistant")];
        assert_eq!(
            agent.spec.prompt.as_ref().unwrap().text,
            "You are terse.\n\nReally: \"terse\".\n"
        );
        assert_eq!(agent.spec.params.temperature, Some(0.5));
        assert_eq!(agent.labels["tier"], "1");
        assert_eq!(
            agent.spec.tools[0].tool,
            ResourceId::base(Kind::Tool, "json-query")
        );
        assert_eq!(bundle.models()[0].spec.options.max_retries, Some(0));
    }
}

#[test]
fn a_value_source_must_have_exactly_one_source() {
    let sources = [
        "{value: k, valueFrom: {env: K}}",
        "{valueFrom: {env: K, secretRef: {ref: Secret/a, key: b}}}",
        "{}",
        "{valueFrom: {secretRef: {ref: vault/a, key: b}}}",
    ];
    for source in sources {
        let text = format!(
            "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: m}}\nspec: {{provider: openai, model: x, apiKey: {source}}}\n"
        );
        let loaded = load_texts(&[("goondan.yaml", &text)]);
        assert_eq!(loaded.diagnostics.len(), 1, "{source}");
        assert!(
            found(&loaded)[0].starts_with("E_CONFIG_INVALID_VALUE_SOURCE goondan.yaml:4"),
            "{source}"
        );
    }
}

#[test]
fn entry_paths_must_stay_inside_the_bundle() {
    for (entry, code) in [
        ("../evil.so", "E_CONFIG_PATH_ESCAPE"),
        ("/usr/lib/evil.so", "E_CONFIG_PATH_ESCAPE"),
        ("a/../../evil.so", "E_CONFIG_PATH_ESCAPE"),
        ("C:/evil.dll", "E_CONFIG_PATH_ESCAPE"),
        ("./tools/nothing-here", "E_CONFIG_ENTRY_NOT_FOUND"),
    ] {
        let text = format!(
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t}}\n\
             spec: {{entry: \"{entry}\", exports: [{{name: x, description: d, parameters: {{type: object}}}}]}}\n"
        );
        assert_eq!(
            found(&load_texts(&[("goondan.yaml", &text)])),
            [format!("{code} goondan.yaml:4 spec.entry")]
        );
    }
}

#[test]
fn one_error_causes_no_follow_up_errors() {
    let text = VALID_PROJECT.replace("provider: scripted, ", "").replace(
        "apiVersion: goondan.ai/v1\nkind: Agent",
        "apiVersion: v2\nkind: Agent",
    );
    let loaded = load_texts(&[("goondan.yaml", &text)]);
    assert_eq!(
        found(&loaded),
        [
            "E_CONFIG_SCHEMA_INVALID goondan.yaml:4 spec.provider",
            "E_CONFIG_UNSUPPORTED_API_VERSION goondan.yaml:6 apiVersion"
        ]
    );
}

#[test]
fn a_local_resource_takes_precedence_over_a_built_in_one() {
    let tool = "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: fs}\nspec: {entry: 'builtin:fs', exports: [{name: read}]}\n";
    let text = VALID_PROJECT.replace(
        "modelRef: Model/m}}",
        "modelRef: Model/m}, tools: [{ref: Tool/fs}, {ref: {kind: Tool, name: bash}}]}",
    );
    let bundle = bundle(load_texts(&[("goondan.yaml", &text), ("tools.yaml", tool)]));
    let tools = &bundle.agents()[0].spec.tools;
    assert_eq!(tools[0].tool, local(Kind::Tool, "fs"));
    assert_eq!(tools[1].tool, ResourceId::base(Kind::Tool, "bash"));
    assert!(
        bundle
            .tools()
            .contains_key(&ResourceId::base(Kind::Tool, "fs"))
    );
}

#[test]
fn exports_select_and_override_the_exports_of_the_entry() {
    let tool = "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: look}\nspec:\n  entry: builtin:fs\n  exports:\n    \
         - {name: read, description: Looks., permissions: [read, network]}\n";
    let bundle = bundle(load_texts(&[
        ("goondan.yaml", VALID_PROJECT),
        ("tools.yaml", tool),
    ]));
    let look = &bundle.tools()[&local(Kind::Tool, "look")].spec;
    assert_eq!(look.entry, ToolEntry::Builtin("fs".into()));
    assert_eq!(look.exports.len(), 1);
    assert_eq!(look.exports[0].description, "Looks.");
    assert_eq!(
        look.exports[0].permissions,
        [Permission::Read, Permission::Network].into()
    );
    assert!(
        look.exports[0].read_only && look.exports[0].parameters["properties"]["path"].is_object()
    );
    assert_eq!(
        look.timeout,
        Duration::from_secs(5),
        "the timeout of the built-in tool"
    );
    let whole = &bundle.tools()[&ResourceId::base(Kind::Tool, "fs")].spec;
    assert_eq!(
        (
            whole.exports.len(),
            whole.error_message_limit,
            whole.output_limit
        ),
        (2, 1_000, 100_000)
    );
}

#[test]
fn an_executable_tool_declares_its_own_export() {
    let files = files(&[
        ("goondan.yaml", VALID_PROJECT),
        ("tools/greet/tool.yaml", "name: greet\ndescription: Greets\nentrypoint: run\n"),
    ])
    .file(
        "/p/tools.yaml",
        "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: hi}\nspec: {entry: ./tools/greet}\n",
    )
    .file("/p/tools/greet/run", "");
    let bundle = bundle(load_files(&files));
    let tool = &bundle.tools()[&local(Kind::Tool, "hi")].spec;
    assert_eq!(tool.entry, ToolEntry::Executable("tools/greet".into()));
    assert_eq!(tool.exports[0].name, "greet");
    assert_eq!(
        bundle.files(),
        [
            "goondan.yaml",
            "tools.yaml",
            "tools/greet/run",
            "tools/greet/tool.yaml"
        ]
    );
}

fn params() -> ModelParams {
    ModelParams {
        temperature: Some(0.7),
        max_tokens: Some(2000),
        top_p: Some(0.9),
        top_k: Some(40),
        stop: vec!["</article>".to_owned()],
        seed: Some(7),
        presence_penalty: Some(0.2),
        frequency_penalty: Some(0.4),
        reasoning_effort: Some(ReasoningEffort::Low),
    }
}

fn options() -> ModelOptions {
    ModelOptions {
        max_retries: Some(3),
        timeout_seconds: Some(300.0),
        total_timeout_seconds: Some(1800.0),
        max_retry_wait_ms: Some(30_000),
        headers: vec![
            ("X-Team".to_owned(), TextOrSource::Plain("red".to_owned())),
            (
                "X-Gateway-Token".to_owned(),
                TextOrSource::Source(ValueSource::Env("GATEWAY_TOKEN".to_owned())),
            ),
        ],
        body: [("service_tier".to_owned(), "flex".into())]
            .into_iter()
            .collect(),
        reasoning_effort: Some(ReasoningEffort::Medium),
        api: Some(ModelApi::Responses),
        strict: Some(false),
        ..ModelOptions::default()
    }
}

#[test]
fn every_field_is_loaded() {
    let bundle = bundle(load_files(&project()));
    let id = |kind, name: &str| ResourceId {
        package: Some("@acme/newsroom".into()),
        kind,
        name: name.into(),
    };
    let writer = &bundle.agents()[&id(Kind::Agent, "writer")].spec;
    assert_eq!(writer.params, params());
    let model = |name| &bundle.models()[&id(Kind::Model, name)].spec;
    assert_eq!(model("writer-model").options, options());
    assert_eq!(model("practice").options.inline_script.len(), 3);
    assert_eq!(
        model("recorded").files().collect::<Vec<_>>(),
        ["cassettes/writer.jsonl"]
    );
    assert_eq!(
        model("recorded").options.ignore,
        [goondan_spec::kinds::RequestPart::Params]
    );
    let pricing = model("editor-model").pricing.as_ref().unwrap();
    assert_eq!((pricing.cached_input, pricing.cache_write), (0.3, 3.75));
    let pricing = model("writer-model").pricing.as_ref().unwrap();
    assert_eq!((pricing.cached_input, pricing.cache_write), (0.125, 1.25));
    assert_eq!(
        writer.prompt.as_ref().unwrap().file.as_deref(),
        Some("prompts/writer.md")
    );
    assert_eq!(writer.workdir, AgentWorkdir::Project);
    assert_eq!(writer.required_tools, ["text-utils__slugify"]);
    let permissions = writer.permissions.as_ref().unwrap();
    assert_eq!(
        (permissions.default, permissions.rules.len()),
        (PermissionAction::Ask, 3)
    );
    assert_eq!(writer.tools[2].tool, ResourceId::base(Kind::Tool, "bash"));
    let tool = &bundle.tools()[&id(Kind::Tool, "text-utils")].spec;
    assert_eq!(
        tool.entry,
        ToolEntry::Library("tools/text-utils/target/release/libtext_utils.so".into())
    );
    let build = tool.build.as_ref().unwrap();
    assert_eq!(
        (tool.timeout, build.command.to_string()),
        (Duration::from_secs(30), "cargo build --release".into())
    );
    assert!(
        tool.exports[1].parameters.is_null(),
        "the library declares the parameters"
    );
    let extension = &bundle.extensions()[&id(Kind::Extension, "short-memory")].spec;
    assert_eq!(
        (
            &extension.config["maxMessages"],
            &extension.config["pinned"]
        ),
        (&20.into(), &true.into())
    );
    let swarm = &bundle.swarms()[0].spec;
    assert_eq!(
        (
            swarm.instance_key.as_deref(),
            swarm.policy.max_steps_per_turn
        ),
        (Some("newsroom"), 12)
    );
    assert_eq!(swarm.policy.lifecycle.ttl, Duration::from_secs(86400));
    assert_eq!(bundle.connections()[0].spec.ingress.len(), 3);
    assert_eq!(
        bundle.package().unwrap().spec.version.as_deref(),
        Some("1.2.0")
    );
}

#[test]
fn build_settings_are_loaded_before_the_tool_is_built() {
    let text = "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: x}\nspec:\n  entry: ./tools/x/target/release/x\n  \
        build: {command: [cargo, build], cwd: tools/x, sources: ['src/**/*.rs'], timeoutMs: 5000}\n";
    let files = files(&[("goondan.yaml", text)]).file("/p/tools/x/Cargo.toml", "");
    let loaded = load_files(&files);
    assert_eq!(
        found(&loaded),
        ["W_CONFIG_NOT_READY goondan.yaml:5 spec.entry"]
    );
    assert!(
        loaded.diagnostics[0]
            .suggestion
            .as_ref()
            .unwrap()
            .starts_with("run `gdn build`")
    );
    let [
        ToolBuild {
            tool, entry, build, ..
        },
    ] = loaded.builds.as_slice()
    else {
        panic!("{:?}", loaded.builds)
    };
    assert_eq!(
        (tool.name.as_str(), entry.as_str()),
        ("x", "tools/x/target/release/x")
    );
    assert_eq!(
        (build.command.to_string().as_str(), build.cwd.as_deref()),
        ("cargo build", Some("tools/x"))
    );
    assert_eq!(
        (build.sources.as_slice(), build.timeout),
        (&["src/**/*.rs".to_owned()][..], Duration::from_secs(5))
    );
    let loaded = load_files(&files.file("/p/tools/x/target/release/libx.so", ""));
    assert_eq!(bundle(loaded).builds().len(), 1);
}

#[test]
fn an_unbuilt_tool_is_an_error_only_if_an_agent_uses_it() {
    let tool = "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: x}\nspec: {entry: ./x, build: {command: [make]}}\n";
    let unused = load_texts(&[("goondan.yaml", &format!("{VALID_PROJECT}{tool}"))]);
    assert!(
        found(&unused)[0].starts_with("W_CONFIG_NOT_READY")
            && bundle(unused).tools().keys().all(|id| id.name != "x")
    );
    let text = VALID_PROJECT.replace(
        "modelRef: Model/m}}",
        "modelRef: Model/m}, tools: [{ref: Tool/x}]}",
    );
    let used = load_texts(&[("goondan.yaml", &format!("{text}{tool}"))]);
    assert!(found(&used)[0].starts_with("E_CONFIG_ENTRY_NOT_FOUND"));
    // An agent that can't be read may use the tool.
    let broken = load_texts(&[(
        "goondan.yaml",
        &format!(
            "{}{tool}",
            VALID_PROJECT.replace("modelRef: Model/m}}", "modelRef: Model/m}, tools: 1}")
        ),
    )]);
    assert!(
        found(&broken)
            .iter()
            .any(|line| line.starts_with("E_CONFIG_ENTRY_NOT_FOUND")),
        "{:?}",
        found(&broken)
    );
}

#[test]
fn permission_rules_without_a_default_extend_the_default_rules() {
    let text = VALID_PROJECT.replace(
        "modelRef: Model/m}}",
        "modelRef: Model/m}, permissions: {rules: [{tool: 'fs__*', action: deny}]}}",
    );
    let bundle = bundle(load_texts(&[("goondan.yaml", &text)]));
    let permissions = bundle.agents()[0].spec.permissions.as_ref().unwrap();
    let actions: Vec<_> = permissions
        .rules
        .iter()
        .map(|rule| (rule.permission, rule.action))
        .collect();
    assert_eq!(permissions.default, PermissionAction::Allow);
    assert_eq!(
        actions,
        [
            (Some(Permission::Execute), PermissionAction::Ask),
            (Some(Permission::Network), PermissionAction::Ask),
            (None, PermissionAction::Deny)
        ]
    );
}

#[test]
fn a_nested_project_is_not_loaded() {
    let nested = "apiVersion: goondan.ai/v1\nkind: Package\nmetadata: {name: inner}\nspec: {}\n";
    let files = [
        ("goondan.yaml", VALID_PROJECT),
        ("examples/inner/goondan.yaml", nested),
        ("examples/inner/tools/broken.yaml", "kind: ["),
        (
            "team/goondan.yaml",
            "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: more}\nspec: {provider: a, model: b}\n",
        ),
    ];
    let bundle = bundle(load_texts(&files));
    assert_eq!(bundle.files(), ["goondan.yaml", "team/goondan.yaml"]);
    assert_eq!(bundle.models().len(), 2);
}

#[test]
fn a_custom_tool_manifest_is_not_a_resource_file() {
    let files = [
        ("goondan.yaml", VALID_PROJECT),
        ("tools/x/tool.yaml", "name: x\nentrypoint: ../../sh\n"),
        ("tools/y/tool.yaml", "name: [\n"),
    ];
    assert!(bundle(load_texts(&files)).files() == ["goondan.yaml"]);
    let real = [
        ("goondan.yaml", VALID_PROJECT),
        ("a/tool.yaml", "kind: Tool\n"),
    ];
    assert!(load_texts(&real).bundle.is_none());
}

#[test]
fn secrets_do_not_appear_in_any_output() {
    let text = VALID_PROJECT.replace(
        "model: any}",
        "model: any, apiKey: {value: sk-hidden, valueFrom: {env: A}}}",
    );
    let loaded = load_texts(&[("goondan.yaml", &text)]);
    let shown = goondan_spec::render::pretty(&loaded.diagnostics, &loaded.sources, true);
    assert!(loaded.bundle.is_none() && shown.contains("apiKey"));
    for text in [
        shown,
        format!("{loaded:?}"),
        goondan_spec::render::json(&loaded.diagnostics),
    ] {
        assert!(!text.contains("sk-hidden"));
    }
    let valid = VALID_PROJECT.replace("model: any}", "model: any, apiKey: {value: sk-hidden}}");
    assert!(
        !format!("{:?}", bundle(load_texts(&[("goondan.yaml", &valid)]))).contains("sk-hidden")
    );
}

#[test]
fn a_schema_refused_by_the_provider_is_a_warning_with_a_position() {
    let tool = "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: t}\nspec:\n  entry: ./libt.so\n  exports:\n    - name: run\n      \
         parameters:\n        type: object\n        properties:\n          tags: {type: array}\n";
    let text = VALID_PROJECT.replace("scripted", "openai").replace(
        "modelRef: Model/m}}",
        "modelRef: Model/m}, tools: [{ref: Tool/t}]}",
    );
    let loaded = load_texts(&[
        ("goondan.yaml", &text),
        ("tools/t.yaml", tool),
        ("libt.so", ""),
    ]);
    assert!(loaded.bundle.is_some());
    assert_eq!(
        found(&loaded),
        ["W_CONFIG_PROVIDER_SCHEMA tools/t.yaml:11 spec.exports[0].parameters.properties.tags"]
    );
}

#[test]
fn a_warning_about_a_refused_schema_shows_the_sent_schema() {
    let tool = "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: t}\nspec:\n  entry: ./libt.so\n  exports:\n    - name: run\n      \
         parameters:\n        type: object\n        properties: {a: {type: string}, b: {type: string}}\n        \
         anyOf: [{required: [a]}, {required: [b]}]\n";
    let text = VALID_PROJECT.replace("scripted", "anthropic").replace(
        "modelRef: Model/m}}",
        "modelRef: Model/m}, tools: [{ref: Tool/t}]}",
    );
    let loaded = load_texts(&[
        ("goondan.yaml", &text),
        ("tools/t.yaml", tool),
        ("libt.so", ""),
    ]);
    insta::assert_snapshot!(goondan_spec::render::pretty(
        &loaded.diagnostics,
        &loaded.sources,
        false
    ));
}

//! Invalid bundles with one kind of error each. Each load ends in a diagnostic with a code;
//! snapshots contain the rendered output.

use std::io::ErrorKind;
use std::path::Path;

use super::support::{VALID_PROJECT, base, files};
use goondan_spec::render::pretty;
use goondan_spec::{LoadInput, MemoryFiles, load};

/// Returns a document of the given kind with the name `x`.
fn document(kind: &str, spec: &str) -> String {
    format!("apiVersion: goondan.ai/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n{spec}\n")
}

/// Returns a valid bundle with one more document.
fn with(kind: &str, spec: &str) -> MemoryFiles {
    files(&[
        ("goondan.yaml", VALID_PROJECT),
        ("more/resources.yaml", &document(kind, spec)),
    ])
}

fn manifest(content: impl Into<Vec<u8>>) -> MemoryFiles {
    MemoryFiles::new().file("/p/goondan.yaml", content)
}

/// Loads `root`, and compares the rendered diagnostics with the committed snapshot.
fn check(name: &str, files: &MemoryFiles, root: &str) {
    let loaded = load(LoadInput {
        root: Path::new(root),
        files,
        base: &base(),
    });
    assert!(!loaded.diagnostics.is_empty(), "{name}: no diagnostic");
    let has_error = loaded
        .diagnostics
        .iter()
        .any(goondan_spec::Diagnostic::is_error);
    assert_eq!(loaded.bundle.is_none(), has_error, "{name}");
    let text = pretty(&loaded.diagnostics, &loaded.sources, false);
    assert!(text.len() < 20_000, "{name}: {} bytes", text.len());
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, text);
    });
}

fn check_all(cases: Vec<(&str, MemoryFiles)>) {
    for (name, files) in cases {
        check(name, &files, "/p");
    }
}

#[test]
fn paths_without_a_bundle_are_reported() {
    check("no_such_path", &MemoryFiles::new().directory("/q"), "/p");
    check(
        "no_such_manifest",
        &files(&[("models.yaml", VALID_PROJECT)]),
        "/p/goondan.yaml",
    );
    check(
        "another_file",
        &files(&[("agents.yaml", VALID_PROJECT)]),
        "/p/agents.yaml",
    );
    check("a_device", &MemoryFiles::new().device("/p"), "/p");
    check_all(vec![
        ("empty_folder", MemoryFiles::new().directory("/p")),
        ("empty_file", manifest("")),
        ("only_comments", manifest("# to do\n---\n# more\n---\n")),
        (
            "manifest_is_a_folder",
            MemoryFiles::new().file("/p/goondan.yaml/x", ""),
        ),
        (
            "unreadable_file",
            manifest(VALID_PROJECT).unreadable("/p/tools.yaml", ErrorKind::PermissionDenied),
        ),
        (
            "unreadable_root",
            MemoryFiles::new().unreadable("/p", ErrorKind::PermissionDenied),
        ),
        (
            "dangling_link",
            manifest(VALID_PROJECT).link("/p/agents.yaml", "nowhere.yaml"),
        ),
        (
            "link_in_a_circle",
            manifest(VALID_PROJECT)
                .link("/p/agents.yaml", "tools.yaml")
                .link("/p/tools.yaml", "agents.yaml"),
        ),
        (
            "link_out_of_the_bundle",
            manifest(VALID_PROJECT)
                .file("/other/t.yaml", "")
                .link("/p/tools.yaml", "/other/t.yaml"),
        ),
        (
            "folder_link_out_of_the_bundle",
            manifest(VALID_PROJECT)
                .directory("/other/tools")
                .link("/p/tools", "/other/tools"),
        ),
        (
            "device_as_a_file",
            manifest(VALID_PROJECT).device("/p/tools.yaml"),
        ),
    ]);
}

#[test]
fn invalid_yaml_is_reported() {
    check_all(vec![
        (
            "tab_indent",
            manifest("apiVersion: goondan.ai/v1\nkind: Model\nmetadata:\n\tname: m\n"),
        ),
        ("unclosed_bracket", manifest("spec: {agents: [a, b\n")),
        (
            "unclosed_quote",
            manifest("kind: \"Model\nmetadata: {name: m}\n"),
        ),
        ("stray_colon", manifest("kind: Model: x\n")),
        (
            "missing_space",
            manifest("kind:Model\nmetadata: {name: m}\n"),
        ),
        (
            "bad_indent",
            manifest("metadata:\n  name: m\n labels: {}\n"),
        ),
        ("list_ends_in_a_key", manifest("- a\nkind: Model\n")),
        ("at_sign", manifest("name: @scope/x\n")),
        ("backtick", manifest("name: `x`\n")),
        ("unknown_escape", manifest("path: \"C:\\dir\"\n")),
        ("unknown_alias", manifest("a: *b\n")),
        ("unknown_tag", manifest("a: !env HOME\n")),
        (
            "duplicate_key",
            manifest("kind: Model\nmetadata: {name: a}\nkind: Agent\n"),
        ),
        ("list_as_a_key", manifest("? [a, b]\n: c\n")),
        ("empty_key", manifest("~: x\n")),
        ("not_a_number", manifest("a: .nan\n")),
        ("merge_of_text", manifest("a: {<<: text}\n")),
        ("directive", manifest("%FOO bar\n")),
        ("nul_bytes", manifest("kind: Mo\0del\n")),
        (
            "invalid_utf8",
            manifest(b"kind: Model # caf\xe9\nmetadata: {name: m}\n"),
        ),
        ("utf16", manifest(b"\xff\xfek\0i\0n\0d\0")),
        (
            "windows_line_ends",
            manifest("kind: Model\r\nmetadata: {name: m\r\n"),
        ),
        (
            "one_broken_document_of_three",
            manifest(format!("{VALID_PROJECT}---\nkind: [\n---\nkind: Modle\n")),
        ),
        (
            "merge_conflict",
            manifest("<<<<<<< HEAD\nkind: Model\n=======\nkind: Agent\n>>>>>>> other\n"),
        ),
        ("code_fence", manifest("```yaml\nkind: Model\n```\n")),
        (
            "json_with_comments",
            manifest("{\n  \"kind\": \"Model\", // why\n  \"metadata\": {}\n}\n"),
        ),
    ]);
}

#[test]
fn oversized_yaml_is_reported() {
    let bomb: String = (b'b'..=b'h').fold(
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned(),
        |text, letter| {
            let (letter, before) = (letter as char, (letter - 1) as char);
            text + &format!(
                "{letter}: &{letter} [{}]\n",
                vec![format!("*{before}"); 10].join(",")
            )
        },
    );
    let deep: String = (0..1_000)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    check_all(vec![
        ("fifty_megabytes", manifest("# more\n".repeat(7_500_000))),
        ("deep_flow", manifest("[".repeat(10_000))),
        ("deep_list", manifest("- ".repeat(10_000))),
        ("deep_map", manifest(deep)),
        (
            "many_unknown_fields",
            manifest((0..60_000).fold(document("Model", ""), |text, number| {
                text + &format!("  f{number}: x\n")
            })),
        ),
        (
            "many_bad_items",
            manifest(document(
                "Agent",
                &format!("  tools:\n{}", "    - 7\n".repeat(60_000)),
            )),
        ),
        (
            "long_glob",
            with(
                "Agent",
                &format!(
                    "  modelConfig: {{modelRef: Model/m}}\n  permissions: {{rules: [{{tool: \"{}\", action: deny}}]}}",
                    "{a,b}".repeat(20_000)
                ),
            ),
        ),
        ("deep_flow_map", manifest("{a: ".repeat(10_000))),
        ("alias_bomb", manifest(bomb)),
        ("too_many_documents", manifest("---\na: 1\n".repeat(1_001))),
        (
            "long_line",
            manifest(format!("kind: [{}\n", "é".repeat(300_000))),
        ),
        ("long_key", manifest(format!("{}: x\n", "k".repeat(3_000)))),
        (
            "long_name",
            manifest(format!(
                "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: {}}}\nspec: {{provider: a, model: b}}\n",
                "n".repeat(100_000)
            )),
        ),
    ]);
}

#[test]
fn documents_that_are_not_resources_are_reported() {
    let metadata = |text: &str| {
        manifest(format!(
            "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {text}\nspec: {{provider: a, model: b}}\n"
        ))
    };
    check_all(vec![
        ("scalar_document", manifest("hello\n")),
        ("list_document", manifest("- kind: Model\n- kind: Agent\n")),
        ("number_document", manifest("42\n")),
        ("missing_envelope", manifest("foo: bar\n")),
        (
            "missing_kind",
            manifest("apiVersion: goondan.ai/v1\nmetadata: {name: a}\nspec: {}\n"),
        ),
        (
            "missing_spec",
            manifest("apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: a}\n"),
        ),
        (
            "unsupported_version",
            manifest(
                "apiVersion: goondan.io/v1\nkind: Agent\nmetadata: {name: a}\nspec: {modelConfig: {modelRef: Model/none}}\n",
            ),
        ),
        (
            "unknown_kind",
            manifest("apiVersion: goondan.ai/v1\nkind: Agnet\nmetadata: {name: a}\nspec: {}\n"),
        ),
        (
            "kind_is_a_list",
            manifest("apiVersion: goondan.ai/v1\nkind: [Model]\nmetadata: {name: a}\nspec: {}\n"),
        ),
        ("name_in_capitals", metadata("{name: My Model}")),
        (
            "name_is_emoji",
            metadata("{name: \"🤖\", labels: {a: \"😀\"}}"),
        ),
        ("name_is_a_number", metadata("{name: 42}")),
        ("name_missing", metadata("{labels: {a: b}}")),
        (
            "label_is_a_number",
            metadata("{name: a, labels: {version: 2}}"),
        ),
        ("unknown_metadata", metadata("{name: a, label: {a: b}}")),
        (
            "duplicate_name",
            files(&[
                ("goondan.yaml", VALID_PROJECT),
                (
                    "models.yaml",
                    &VALID_PROJECT[..VALID_PROJECT.find("---").unwrap()],
                ),
            ]),
        ),
        (
            "package_elsewhere",
            files(&[
                ("goondan.yaml", VALID_PROJECT),
                ("tools/p.yaml", &document("Package", "  version: 1.0.0")),
            ]),
        ),
        (
            "two_packages",
            manifest(format!(
                "{}---\n{}",
                document("Package", "  version: 1.0.0"),
                document("Package", "  version: 2.0.0")
            )),
        ),
        (
            "package_depends_on_itself",
            manifest(document(
                "Package",
                "  dependencies: [{name: x, version: ^1.0.0}]",
            )),
        ),
        (
            "packages_in_a_circle",
            manifest(document(
                "Package",
                "  dependencies: [{name: y, version: '1'}]",
            ))
            .file(
                "/p/lib/y/goondan.yaml",
                document("Package", "  dependencies: [{name: x, version: '1'}]")
                    .replace("name: x}", "name: y}"),
            ),
        ),
    ]);
}

#[test]
fn errors_in_models_and_connections_are_reported() {
    let key = |source: &str| {
        with(
            "Model",
            &format!("  provider: openai\n  model: gpt\n  apiKey: {source}"),
        )
    };
    check_all(vec![
        ("missing_fields", with("Model", "  modle: gpt")),
        ("wrong_types", with("Model", "  provider: [openai]\n  model: 5\n  options: none\n  capabilities: {streaming: yes}")),
        (
            "misspelled_options",
            with(
                "Model",
                "  provider: openai\n  model: gpt\n  options:\n    maxRetry: 5\n    timeoutSecond: 3\n    reasoningEfort: high\n    service_tier: flex\n    timeoutMs: 100\n    organization: org\n    temperature: 1",
            ),
        ),
        (
            "options_of_wrong_types",
            with(
                "Model",
                "  provider: openai\n  model: gpt\n  options:\n    maxRetries: -1\n    timeoutSeconds: 0\n    maxRetryWaitMs: soon\n    headers: {X-Team: [red], a b: c, X-Lines: \"a\\nb\", X-Key: {valueFrom: {evn: KEY}}}\n    body: text\n    reasoningEffort: hihg\n    api: grpc\n    promptCaching: yes\n    script: 7\n    rules: {}\n    ignore: [param]",
            ),
        ),
        (
            "misspelled_capabilities",
            with(
                "Model",
                "  provider: openai\n  model: gpt\n  capabilities:\n    toolCaling: false\n    telepathy: true",
            ),
        ),
        ("endpoint_without_scheme", with("Model", "  provider: openai\n  model: gpt\n  endpoint: localhost:8080")),
        ("key_as_text", key("sk-do-not-show-me")),
        ("key_both_ways", key("{value: sk-do-not-show-me, valueFrom: {env: KEY}}")),
        ("key_nowhere", key("{}")),
        ("key_misspelt", key("{valeu: sk-do-not-show-me}")),
        ("key_with_a_dollar", key("{valueFrom: {env: \"$KEY or so\"}}")),
        ("key_of_another_scheme", key("{valueFrom: {secretRef: {ref: vault/a, key: b}}}")),
        ("key_in_broken_yaml", manifest("spec:\n  apiKey: {value: sk-do-not-show-me, [}\n")),
        ("connection_to_nothing", with("Connection", "  connectorRef: Connector/slack\n  config: {a: 1}\n  ingress: {rules: [{match: {}}]}")),
        (
            "connection_with_both_keys",
            with("Connector", "  entry: in.so\n  events: [{name: message}]").file("/p/in.so", "").file(
                "/p/connections.yaml",
                "apiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {name: c}\nspec:\n  connectorRef: Connector/x\n  ingress:\n    rules:\n      - match: {event: mesage}\n        route: {instanceKey: a, instanceKeyProperty: b}\n      - route: {instanceKeyPrefix: p}\n",
            ),
        ),
        ("connector_without_events", with("Connector", "  entry: in.so\n  events: []\n  triggers: []").file("/p/in.so", "")),
    ]);
}

#[test]
fn errors_in_agents_and_swarms_are_reported() {
    let agent = |fields: &str| {
        with(
            "Agent",
            &format!("  modelConfig: {{modelRef: Model/m}}\n{fields}"),
        )
    };
    check_all(vec![
        ("dangling_reference", agent("  tools:\n    - ref: Tool/bsh")),
        ("dangling_package", agent("  tools: [{ref: {kind: Tool, name: bash, package: \"@x/y\"}}]")),
        ("reference_as_text", agent("  tools: [Tool/bash]")),
        ("reference_without_kind", agent("  tools: [{ref: bash}]")),
        ("reference_of_another_kind", agent("  tools: [{ref: Extension/compaction}]")),
        ("reference_of_no_kind", agent("  tools: [{ref: Tol/bash}]")),
        ("reference_with_two_slashes", agent("  tools: [{ref: Tool/a/b}]")),
        ("reference_is_a_number", agent("  tools: [{ref: 7}]")),
        ("space_that_yaml_does_not_know", with("Agent", "  modelConfig:\n    modelRef:\u{a0}Model/m")),
        (
            "references_into_a_file_that_is_broken",
            files(&[
                ("goondan.yaml", VALID_PROJECT),
                ("agents.yaml", "kind: [\n"),
                ("more/resources.yaml", &document("Swarm", "  entryAgent: Agent/lost\n  agents: [{ref: Agent/lost}]")),
            ]),
        ),
        ("list_is_text", agent("  tools: Tool/bash")),
        ("unknown_export_in_a_reference", agent("  tools: [{ref: Tool/bash, exports: [exce]}]")),
        ("tool_twice", agent("  tools: [{ref: Tool/bash}, {ref: Tool/bash, exports: [exec]}]")),
        ("two_prompts", agent("  prompt: {system: a, systemRef: b.md}")),
        ("prompt_missing", agent("  prompt: {systemRef: prompts/none.md}")),
        ("prompt_outside", agent("  prompt: {systemRef: ../secret.md}")),
        ("prompt_not_text", agent("  prompt: {systemRef: a.png}").file("/p/a.png", [0x89, b'P', 0xff])),
        (
            "bad_params",
            with("Agent", "  modelConfig: {modelRef: Model/m, params: {temperature: 3, maxTokens: 0, topP: high}}"),
        ),
        (
            "misspelled_params",
            with(
                "Agent",
                "  modelConfig:\n    modelRef: Model/m\n    params: {temprature: 0.1, max_tokens: 10, service_tier: flex}",
            ),
        ),
        (
            "params_out_of_range",
            with(
                "Agent",
                "  modelConfig:\n    modelRef: Model/m\n    params:\n      topK: 0\n      stop: [a, \"\", 1]\n      seed: 1.5\n      presencePenalty: 3\n      frequencyPenalty: -2.1\n      reasoningEffort: huge",
            ),
        ),
        (
            "bad_fallbacks",
            with(
                "Agent",
                "  modelConfig:\n    modelRef: Model/dollar\n    fallbacks: [{ref: Model/dollar}, {ref: Model/euro}, {ref: Model/nobody}, Model/euro]",
            )
            .file(
                "/p/models.yaml",
                format!(
                    "{}---\n{}",
                    document("Model", "  {provider: scripted, model: a, pricing: {input: 1, output: 1}}").replace("name: x", "name: dollar"),
                    document("Model", "  {provider: scripted, model: b, pricing: {input: 1, output: 1, currency: EUR}}").replace("name: x", "name: euro"),
                ),
            ),
        ),
        (
            "bad_permissions",
            agent(
                "  tools: [{ref: Tool/bash}]\n  permissions:\n    default: maybe\n    rules:\n      - {action: deny}\n      - {tool: \"bash__*\", args: {comand: \"rm *\"}, action: deny}\n      - {tool: \"[\", action: allow}",
            ),
        ),
        ("required_tool_missing", agent("  tools: [{ref: Tool/bash}]\n  requiredTools: [bash__exce]")),
        ("hooks", agent("  hooks: []")),
        ("workdir_outside", agent("  workdir: /tmp")),
        ("workdir_without_a_repository", agent("  workdir: repository")),
        ("workdir_above", agent("  workdir: ../other")),
        ("workdir_above_the_repository", agent("  workdir: ../other").directory("/p/.git").file("/other/x", "")),
        (
            "money_that_nobody_can_count",
            with(
                "Swarm",
                "  entryAgent: Agent/assistant\n  agents: [{ref: Agent/assistant}]\n  policy: {budget: {maxCost: 1}, turnBudget: {maxCost: 0}}",
            ),
        ),
        ("instructions_without_a_folder", agent("  prompt: {instructions: [AGENTS.md]}")),
        (
            "instructions_are_no_name",
            agent("  prompt: {instructions: [./AGENTS.md, 'a\"b', 7]}\n  workdir: project").file("/p/AGENTS.md", "x"),
        ),
        ("instructions_of_nothing", agent("  prompt: {instructions: []}\n  workdir: project")),
        (
            "instructions_by_a_link_outside",
            agent("  prompt: {instructions: [AGENTS.md]}\n  workdir: project")
                .file("/other/secret.md", "x")
                .link("/p/AGENTS.md", "/other/secret.md"),
        ),
        (
            "instructions_too_long",
            agent("  prompt: {instructions: [AGENTS.md]}\n  workdir: docs")
                .file("/p/AGENTS.md", "a".repeat(40_000))
                .file("/p/docs/AGENTS.md", "b".repeat(40_000)),
        ),
        ("entry_agent_missing", with("Swarm", "  entryAgent: Agent/assistant\n  agents: []")),
        (
            "entry_agent_not_a_member",
            with("Agent", "  modelConfig: {modelRef: Model/m}")
                .file("/p/swarms.yaml", document("Swarm", "  entryAgent: Agent/x\n  agents: [{ref: Agent/assistant}]")),
        ),
        (
            "bad_policy",
            with(
                "Swarm",
                "  entryAgent: Agent/assistant\n  agents: [{ref: Agent/assistant}]\n  policy: {maxStepsPerTurn: 1.5, maxInstances: -1, lifecycle: {ttl: 5}, shutdown: 30}",
            ),
        ),
    ]);
}

#[test]
fn errors_in_tools_and_extensions_are_reported() {
    let entry = |entry: &str| with("Tool", &format!("  entry: {entry}"));
    let parameters = |schema: &str| {
        with(
            "Tool",
            &format!(
                "  entry: builtin:fs\n  exports:\n    - name: read\n      parameters: {schema}"
            ),
        )
    };
    check_all(vec![
        ("unknown_builtin", entry("builtin:text-transfrom")),
        ("entry_outside", entry("../evil.so")),
        ("entry_absolute", entry("/usr/lib/evil.so")),
        ("entry_not_built", entry("./tools/text-utils")),
        (
            "entry_not_built_yet",
            entry("./tools/text-utils\n  build: cargo build --release"),
        ),
        ("build_of_a_builtin", entry("builtin:fs\n  build: make")),
        (
            "bad_build",
            entry(
                "./tools/text-utils\n  build: {comand: make, cwd: ./nowhere, sources: ['[a', src/**], timeoutMs: 0}",
            ),
        ),
        ("build_is_a_number", entry("./tools/text-utils\n  build: 1")),
        (
            "entry_link_outside",
            entry("./tools/x")
                .file("/evil.so", "")
                .link("/p/tools/libx.so", "/evil.so"),
        ),
        (
            "entry_is_a_script",
            entry("./tools/run.sh").file("/p/tools/run.sh", ""),
        ),
        (
            "entry_is_a_bare_folder",
            entry("./tools/x").file("/p/tools/x/README.md", ""),
        ),
        (
            "entry_is_a_crate",
            entry("./tools/x").file("/p/tools/x/Cargo.toml", ""),
        ),
        ("entry_typescript", entry("./tools/x.ts")),
        ("entry_wasm", entry("./tools/x.wasm")),
        ("entry_mcp", entry("mcp:filesystem")),
        (
            "entry_and_a2a",
            entry("builtin:fs\n  a2a: {url: https://a.example}"),
        ),
        (
            "mcp_and_a2a",
            with(
                "Tool",
                "  mcp: {url: https://a.example}\n  a2a: {url: https://a.example}",
            ),
        ),
        (
            "a2a_over_the_network_unencrypted",
            with("Tool", "  a2a: {url: http://a.example, header: {}}"),
        ),
        (
            "a2a_without_url",
            with(
                "Tool",
                "  a2a: {headers: {A: 1}}\n  exports: [{name: asks}]",
            ),
        ),
        (
            "custom_tool_broken",
            entry("./tools/x").file(
                "/p/tools/x/tool.yaml",
                "name: X\nentrypoint: ../../bin/sh\nparameters:\n  - {name: n, type: text}\n",
            ),
        ),
        (
            "custom_tool_without_program",
            entry("./tools/x").file(
                "/p/tools/x/tool.yaml",
                "name: x\ndescription: d\nentrypoint: run\n",
            ),
        ),
        (
            "double_underscore",
            with("Tool", "  entry: builtin:fs\n  exports: [{name: re__ad}]"),
        ),
        (
            "unknown_export",
            with("Tool", "  entry: builtin:fs\n  exports: [{name: raed}]"),
        ),
        (
            "export_twice",
            with(
                "Tool",
                "  entry: builtin:fs\n  exports: [{name: read}, {name: read}]",
            ),
        ),
        (
            "export_fields",
            with(
                "Tool",
                "  entry: builtin:fs\n  exports:\n    - {name: read, permissions: [fly], readonly: true, description: a, descriptionFile: b}",
            ),
        ),
        (
            "tool_name_too_long",
            with(
                "Tool",
                &format!(
                    "  entry: builtin:fs\n  exports: [{{name: {}}}]",
                    "n".repeat(62)
                ),
            ),
        ),
        ("parameters_of_the_wrong_type", parameters("{type: array}")),
        ("parameters_without_a_type", parameters("{properties: {}}")),
        (
            "parameters_with_an_unknown_type",
            parameters("{type: object, properties: {a: {type: text}}}"),
        ),
        (
            "parameters_with_required_inside",
            parameters("{type: object, properties: {a: {type: string, required: true}}}"),
        ),
        (
            "parameters_with_a_bad_pattern",
            parameters("{type: object, properties: {a: {type: string, pattern: \"(\"}}}"),
        ),
        (
            "timeout_in_seconds",
            with(
                "Tool",
                "  entry: builtin:fs\n  timeoutMs: 30s\n  outputLimit: 0",
            ),
        ),
        (
            "extension_unknown",
            with("Extension", "  entry: builtin:compation"),
        ),
        (
            "extension_missing",
            with("Extension", "  entry: ./ext/none.js"),
        ),
        (
            "extension_in_a_library_unused",
            with("Extension", "  entry: ./ext/liba.so").file("/p/ext/liba.so", ""),
        ),
    ]);
}

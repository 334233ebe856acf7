//! The choice of a swarm, its required variables, and the diff of two bundles.

use std::collections::HashMap;

use super::support::{VALID_PROJECT, files, load_files, load_texts};
use goondan_spec::{
    AgentChange, AgentEffect, AgentPart, Bundle, BundleSnapshot, Code, Environment, Fingerprint,
    diff,
};

fn bundle(texts: &[(&str, &str)]) -> Bundle {
    let loaded = load_texts(texts);
    loaded
        .bundle
        .unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics))
}

fn environment(names: &[&str]) -> Environment {
    names
        .iter()
        .map(|name| ((*name).to_owned(), "set".to_owned()))
        .collect()
}

fn swarm(name: &str, agent: &str) -> String {
    format!(
        "---\napiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: {name}}}\nspec: {{entryAgent: Agent/{agent}, agents: [{{ref: Agent/{agent}}}]}}\n"
    )
}

/// Returns two swarms, each with one agent and one model.
fn two_swarms() -> String {
    let model = |name: &str, key: &str| {
        format!(
            "---\napiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: {name}}}\nspec: {{provider: openai, model: x, apiKey: {{valueFrom: {key}}}}}\n"
        )
    };
    let agent = |name: &str, model: &str| {
        format!(
            "---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: {name}}}\nspec: {{modelConfig: {{modelRef: Model/{model}}}}}\n"
        )
    };
    [
        model("one", "{env: ONE_KEY}"),
        model("two", "{secretRef: {ref: Secret/two}}"),
        agent("a", "one"),
        agent("b", "two"),
        swarm("first", "a"),
        swarm("second", "b"),
    ]
    .concat()
}

#[test]
fn a_swarm_is_chosen_by_name_as_default_or_as_the_only_one() {
    let single = bundle(&[(
        "goondan.yaml",
        &VALID_PROJECT.replace("name: default", "name: only"),
    )]);
    assert_eq!(single.choose_swarm(None).unwrap().id.name, "only");
    let several = bundle(&[(
        "goondan.yaml",
        &(VALID_PROJECT.to_owned() + &swarm("other", "assistant")),
    )]);
    assert_eq!(several.choose_swarm(None).unwrap().id.name, "default");
    assert_eq!(
        several.choose_swarm(Some("other")).unwrap().id.name,
        "other"
    );
    let wrong = several.choose_swarm(Some("othre")).unwrap_err();
    assert_eq!(
        (wrong.code, wrong.suggestion.as_deref()),
        (Code::NO_SWARM, Some("did you mean `other`?"))
    );
    let unclear = bundle(&[("goondan.yaml", &two_swarms())]);
    assert!(
        unclear
            .choose_swarm(None)
            .unwrap_err()
            .suggestion
            .unwrap()
            .contains("`first` or `second`")
    );
    let none = bundle(&[("goondan.yaml", VALID_PROJECT.split("---").next().unwrap())]);
    assert_eq!(none.choose_swarm(None).unwrap_err().code, Code::NO_SWARM);
}

#[test]
fn only_models_of_the_chosen_swarm_need_their_variables() {
    let bundle = bundle(&[("goondan.yaml", &two_swarms())]);
    let missing = |swarm: &str, set: &[&str]| {
        let id = bundle.choose_swarm(Some(swarm)).unwrap().id.clone();
        bundle.missing_environment(&id, &environment(set))
    };
    let first = missing("first", &[]);
    assert_eq!(first.len(), 1);
    assert_eq!(
        (first[0].code, first[0].position.unwrap().line),
        (Code::ENV_MISSING, 5)
    );
    assert_eq!(first[0].field.as_deref(), Some("spec.apiKey"));
    assert!(first[0].message.contains("ONE_KEY") && missing("first", &["ONE_KEY"]).is_empty());
    let second = missing("second", &["ONE_KEY"]);
    assert!(
        second[0].message.contains("GOONDAN_SECRET_TWO_APIKEY"),
        "{second:?}"
    );
    assert!(missing("second", &["SECRET_TWO"]).is_empty());
}

#[test]
fn only_connections_of_the_chosen_swarm_need_their_variables() {
    let connection = "---\napiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {name: c}\nspec: {entry: c.so, events: [{name: e}]}\n\
        ---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {name: k}\n\
        spec: {connectorRef: Connector/c, swarmRef: Swarm/other, secrets: {token: {valueFrom: {env: TOKEN}}}}\n";
    let text = format!("{VALID_PROJECT}{}{connection}", swarm("other", "assistant"));
    let loaded = load_files(&files(&[("goondan.yaml", &text), ("c.so", "")]));
    let bundle = loaded.bundle.unwrap();
    let missing = |swarm| {
        bundle
            .missing_environment(
                &bundle.choose_swarm(Some(swarm)).unwrap().id,
                &environment(&[]),
            )
            .len()
    };
    assert_eq!((missing("default"), missing("other")), (0, 1));
}

/// A tool or extension decides which fields of its config accept a value source, so all count.
#[test]
fn value_sources_in_a_config_are_secrets() {
    let from = |name: &str| format!("{{valueFrom: {{env: {name}}}}}");
    let document = |kind: &str, name: &str, spec: &str| {
        format!(
            "---\napiVersion: goondan.ai/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    };
    let text = [
        document("Model", "m", "{provider: openai, model: x}"),
        document("Tool", "one", &format!("{{entry: builtin:bash, config: {{token: {{value: literal-one}}, deep: [{{url: {}}}]}}}}", from("A"))),
        document("Tool", "two", "{entry: builtin:fs, config: {token: {valueFrom: {secretRef: {ref: Secret/bank, key: pin}}}}}"),
        document("Extension", "e", &format!("{{entry: e.so, config: {{token: {}, other: {{value: no-secret}}}}}}", from("B"))),
        document("Agent", "a", &format!("{{modelConfig: {{modelRef: Model/m}}, tools: [{{ref: Tool/one}}, {{ref: Tool/two}}], extensions: [{{ref: Extension/e, config: {{key: {}}}}}]}}", from("C"))),
        swarm("default", "a"),
    ]
    .concat();
    let loaded = load_files(&files(&[("goondan.yaml", &text), ("e.so", "")]));
    let bundle = loaded
        .bundle
        .unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
    let values = [
        ("A", "secret-a"),
        ("B", "secret-b"),
        ("C", "secret-c"),
        ("SECRET_BANK_PIN", "secret-d"),
    ];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let secrets = bundle.secrets(&values.into_iter().collect());
    let mut secrets: Vec<&str> = secrets.iter().map(|secret| secret.expose()).collect();
    secrets.sort_unstable();
    assert_eq!(
        secrets,
        [
            "literal-one",
            "secret-a",
            "secret-b",
            "secret-c",
            "secret-d"
        ]
    );
    let default = bundle.choose_swarm(None).unwrap().id.clone();
    assert_eq!(
        bundle.secret_refs(&default),
        [("bank".to_owned(), "pin".to_owned())]
    );
    // A missing variable is reported later, when the tool is opened.
    assert!(
        bundle
            .missing_environment(&default, &environment(&[]))
            .is_empty()
    );
}

#[test]
fn a_short_secret_is_a_warning_without_its_value() {
    let connection = "---\napiVersion: goondan.ai/v1\nkind: Connector\nmetadata: {name: c}\nspec: {entry: c.so, events: [{name: e}]}\n\
        ---\napiVersion: goondan.ai/v1\nkind: Connection\nmetadata: {name: k}\n\
        spec: {connectorRef: Connector/c, config: {mode: {value: qq}}, secrets: {again: {valueFrom: {env: ONE_KEY}}, token: {value: qqqqqqq}}}\n";
    let text = two_swarms() + connection;
    let loaded = load_files(&files(&[("goondan.yaml", &text), ("c.so", "")]));
    let bundle = loaded.bundle.unwrap();
    let warnings = |one: &str, two: &str| {
        let values = [("ONE_KEY", one), ("SECRET_TWO", two)];
        let environment = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        bundle.short_secrets(&environment.into_iter().collect())
    };
    let messages = |one, two| -> Vec<String> {
        let warnings = warnings(one, two).into_iter();
        warnings.map(|warning| warning.message).collect()
    };
    let whole_words = "secrets of fewer than eight characters are masked only as whole words.";
    let token =
        format!("The value of `spec.secrets.token` is too short to be protected: {whole_words}");
    assert_eq!(
        messages("qqq", "qqqq"),
        [
            "The value of `ONE_KEY` is too short to be protected: secrets of fewer than four characters are not masked.".to_owned(),
            format!("The value of `apiKey` of `Secret/two` is too short to be protected: {whole_words}"),
            token.clone(),
        ]
    );
    assert_eq!(messages("long enough", ""), [token]);
    let first = &warnings("qqq", "")[0];
    assert_eq!(
        (first.code, first.is_error(), first.field.as_deref()),
        (Code::SHORT_SECRET, false, Some("spec.apiKey"))
    );
    assert_eq!(first.position.map(|place| place.line), Some(5));
    assert!(!format!("{:?}", warnings("qqq", "qqqq")).contains("qqq"));
}

fn snapshot(bundle: &Bundle, environment: Option<&Environment>) -> BundleSnapshot {
    let swarm = &bundle.choose_swarm(None).unwrap().id;
    BundleSnapshot::of(bundle, swarm, &HashMap::new(), environment)
}

#[test]
fn the_diff_of_bundles_ignores_the_file_layout() {
    let agent = VALID_PROJECT.replace(
        "modelRef: Model/m}}",
        "modelRef: Model/m}, prompt: {systemRef: p.md}, \
        permissions: {rules: [{tool: bash__exec, action: ask}]}}",
    );
    let before = bundle(&[("goondan.yaml", &agent), ("p.md", "One.")]);
    let moved: Vec<&str> = agent.split("---\n").collect();
    let same = bundle(&[
        ("a/models.yaml", moved[0]),
        (
            "goondan.yaml",
            &format!("# new\n{}\n---\n{}", moved[1], moved[2]),
        ),
        ("p.md", "One."),
    ]);
    let before = snapshot(&before, None);
    assert!(diff(&before, &snapshot(&same, None)).is_empty());
    let after = agent
        .replace("name: default", "name: main")
        .replace("model: any", "model: other");
    let after = bundle(&[("goondan.yaml", &after), ("p.md", "Two.")]);
    let plan = diff(&before, &snapshot(&after, None));
    assert_eq!(plan.added, ["Swarm/main"]);
    assert_eq!(plan.changed, ["Model/m", "Agent/assistant"]);
    assert_eq!(plan.removed, ["Swarm/default"]);
    let next_turn = vec![AgentPart::Prompt, AgentPart::Model];
    let effect = AgentEffect::Changed {
        next_step: Vec::new(),
        next_turn,
    };
    assert_eq!(
        plan.agents,
        [AgentChange {
            name: "assistant".to_owned(),
            effect
        }]
    );
    assert!(!plan.limits);
}

#[test]
fn tool_changes_apply_at_the_next_step_and_limits_are_flagged() {
    let tool = "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {name: t}\nspec: {entry: t.so, timeoutMs: 1000}\n";
    let text = VALID_PROJECT.replace(
        "modelRef: Model/m}}",
        "modelRef: Model/m}, tools: [{ref: Tool/t}]}",
    ) + tool;
    let before = bundle(&[("goondan.yaml", &text), ("t.so", "")]);
    let swarm = before.choose_swarm(None).unwrap().id.clone();
    let tool = before
        .tools()
        .keys()
        .find(|id| id.name == "t")
        .unwrap()
        .clone();
    let built =
        |content: &str| HashMap::from([(tool.clone(), Fingerprint::of_bytes(content.as_bytes()))]);
    let (old, new) = (
        BundleSnapshot::of(&before, &swarm, &built("1"), None),
        BundleSnapshot::of(&before, &swarm, &built("2"), None),
    );
    let plan = diff(&old, &new);
    assert_eq!(plan.changed, ["Tool/t"]);
    let effect = AgentEffect::Changed {
        next_step: vec![AgentPart::Tools],
        next_turn: Vec::new(),
    };
    assert_eq!(
        plan.agents,
        [AgentChange {
            name: "assistant".to_owned(),
            effect
        }]
    );
    let limits = bundle(&[
        (
            "goondan.yaml",
            &text.replace("agents: [", "policy: {maxStepsPerTurn: 3}, agents: ["),
        ),
        ("t.so", ""),
    ]);
    let plan = diff(
        &old,
        &BundleSnapshot::of(&limits, &swarm, &built("1"), None),
    );
    assert!(
        plan.limits && plan.agents.is_empty() && plan.changed == ["Swarm/default"],
        "{plan:?}"
    );
}

#[test]
fn added_and_removed_agents_are_in_the_diff() {
    let other = VALID_PROJECT
        .split("---\n")
        .nth(1)
        .unwrap()
        .replace("name: assistant", "name: other");
    let both = format!("{VALID_PROJECT}---\n{other}");
    let both = both.replace(
        "agents: [{ref: Agent/assistant}]",
        "agents: [{ref: Agent/assistant}, {ref: Agent/other}]",
    );
    let (one, both) = (
        bundle(&[("goondan.yaml", VALID_PROJECT)]),
        bundle(&[("goondan.yaml", &both)]),
    );
    let (one, both) = (snapshot(&one, None), snapshot(&both, None));
    let change = |effect| {
        vec![AgentChange {
            name: "other".to_owned(),
            effect,
        }]
    };
    assert_eq!(diff(&one, &both).agents, change(AgentEffect::Added));
    assert_eq!(diff(&both, &one).agents, change(AgentEffect::Draining));
}

#[test]
fn secrets_change_a_snapshot_only_with_an_environment() {
    let with = |key: &str| {
        bundle(&[(
            "goondan.yaml",
            &VALID_PROJECT.replace("model: any", &format!("model: any, apiKey: {key}")),
        )])
    };
    let named = with("{valueFrom: {env: KEY}}");
    let key = |value: &str| {
        [("KEY".to_owned(), value.to_owned())]
            .into_iter()
            .collect::<Environment>()
    };
    let plan = diff(
        &snapshot(&named, Some(&key("1"))),
        &snapshot(&named, Some(&key("2"))),
    );
    assert_eq!(plan.changed, ["Model/m"]);
    let inline = |value: &str| with(&format!("{{value: {value}}}"));
    assert_eq!(
        snapshot(&inline("one"), None),
        snapshot(&inline("two"), None)
    );
    let seen = |value| snapshot(&inline(value), Some(&Environment::default()));
    assert_eq!(diff(&seen("one"), &seen("two")).changed, ["Model/m"]);
}

#[test]
fn a_changed_variable_in_a_tool_config_changes_the_tool() {
    let tool = |source: &str| {
        format!(
            "{VALID_PROJECT}---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t}}\nspec: {{entry: t.so, config: {{hooks: \
             [{{url: {{valueFrom: {source}}}}}]}}}}\n"
        )
    };
    let set = |name: &str, value: &str| {
        [(name.to_owned(), value.to_owned())]
            .into_iter()
            .collect::<Environment>()
    };
    for (source, name) in [
        ("{env: HOOK}", "HOOK"),
        ("{secretRef: {ref: Secret/hook}}", "SECRET_HOOK"),
    ] {
        let bundle = bundle(&[("goondan.yaml", &tool(source)), ("t.so", "")]);
        let changed = |name: &str| {
            let (one, two) = (set(name, "1"), set(name, "2"));
            diff(
                &snapshot(&bundle, Some(&one)),
                &snapshot(&bundle, Some(&two)),
            )
            .changed
        };
        assert_eq!(changed(name), ["Tool/t"]);
        assert!(changed("UNRELATED").is_empty());
    }
}

#[test]
fn a_snapshot_survives_serialization() {
    let snapshot = snapshot(&bundle(&[("goondan.yaml", VALID_PROJECT)]), None);
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(
        serde_json::from_str::<BundleSnapshot>(&text).unwrap(),
        snapshot
    );
}

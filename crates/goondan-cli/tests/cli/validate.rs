//! `gdn validate`.

use serde_json::Value;

use crate::sandbox::Sandbox;

const WRONG: &str = "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, temprature: 1}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools:
    - ref: Tool/bahs
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

fn wrong() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("p/goondan.yaml", WRONG);
    sandbox
}

#[test]
fn every_format_shows_every_mistake() {
    let sandbox = wrong();
    for format in ["pretty", "short", "json", "github"] {
        let outcome = sandbox.gdn(&["validate", "p", "--format", format]);
        assert_eq!(outcome.code, 4);
        sandbox.settings().bind(|| insta::assert_snapshot!(format!("validate {format}"), outcome.report()));
    }
    let json: Value = serde_json::from_str(&sandbox.gdn(&["validate", "p", "--json"]).stdout).unwrap();
    assert_eq!((&json["valid"], json["errors"].as_array().unwrap().len()), (&false.into(), 2));
}

#[test]
fn a_manifest_is_as_good_as_its_folder() {
    let sandbox = wrong();
    let by_file = sandbox.gdn(&["validate", "p/goondan.yaml", "--format", "short"]);
    let by_folder = sandbox.gdn(&["validate", "p", "--format", "short"]);
    assert_eq!(by_file.stdout, by_folder.stdout);
}

#[test]
fn strict_fails_on_warnings() {
    let sandbox = Sandbox::new();
    let unused = WRONG.replace(", temprature: 1", "").replace("  tools:\n    - ref: Tool/bahs\n", "")
        + "---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: spare}\nspec: {modelConfig: {modelRef: Model/m}}\n";
    sandbox.write("p/goondan.yaml", &unused);
    assert_eq!(sandbox.gdn(&["validate", "p"]).code, 0);
    assert_eq!(sandbox.gdn(&["validate", "p", "--strict"]).code, 4);
}

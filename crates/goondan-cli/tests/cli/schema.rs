//! `gdn schema`.

use serde_json::Value;

use crate::sandbox::Sandbox;

#[test]
fn schema_accepts_kinds_in_any_case() {
    let sandbox = Sandbox::new();
    let schema: Value = serde_json::from_str(sandbox.gdn(&["schema", "Agent"]).ok()).unwrap();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert_eq!(
        sandbox.gdn(&["schema", "agent"]).ok(),
        sandbox.gdn(&["schema", "AGENT"]).ok()
    );
    let unknown = sandbox.gdn(&["schema", "robot"]);
    sandbox
        .settings()
        .bind(|| insta::assert_snapshot!("no such schema", unknown.report()));
}

#[test]
fn schema_writes_all_schemas_to_a_directory() {
    let sandbox = Sandbox::new();
    let written = sandbox.gdn(&["schema", "--out", "deep/schemas"]);
    for path in written.ok().lines() {
        let text = std::fs::read_to_string(sandbox.dir().join(path)).unwrap();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{path}");
    }
    let any =
        std::fs::read_to_string(sandbox.dir().join("deep/schemas/goondan.schema.json")).unwrap();
    assert_eq!(any, sandbox.gdn(&["schema"]).ok());
}

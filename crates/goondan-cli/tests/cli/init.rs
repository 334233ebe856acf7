//! What `gdn init` writes is valid and runs.

use crate::sandbox::Sandbox;

#[test]
fn every_template_validates_and_runs_without_a_key() {
    let answers = [
        ("default", "HELLO THERE\n"),
        ("multi-agent", "The worker says: HELLO THERE\n"),
        ("minimal", "You said: Hello there\n"),
    ];
    for (template, answer) in answers {
        let sandbox = Sandbox::new();
        let created = sandbox.gdn(&["init", "My Swarm", "--template", template]);
        sandbox.settings().bind(|| insta::assert_snapshot!(format!("init {template}"), created.ok()));
        let checked = sandbox.gdn(&["validate", "My Swarm", "--strict"]);
        assert_eq!(checked.code, 0, "{template}: {checked:#?}");
        let ran = sandbox.gdn(&["run", "My Swarm", "--input", "Hello there"]);
        assert_eq!(ran.ok(), answer);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn what_is_there_is_kept_unless_forced() {
    let sandbox = Sandbox::new();
    sandbox.write("p/goondan.yaml", "mine\n");
    let refused = sandbox.gdn(&["init", "p"]);
    sandbox.settings().bind(|| insta::assert_snapshot!("init over a project", refused.report()));
    assert_eq!(std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap(), "mine\n");
    sandbox.gdn(&["init", "p", "--force"]).ok();
    assert!(std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap().contains("kind: Package"));
}

#[test]
fn the_name_goes_into_the_package() {
    let sandbox = Sandbox::new();
    sandbox.gdn(&["init", "p", "--name", "support-desk", "-t", "minimal"]).ok();
    let text = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
    assert!(text.contains("name: support-desk\n") && !text.contains("__NAME__"));
    let refused = sandbox.gdn(&["init", "q", "--name", "Support Desk"]);
    assert_eq!(refused.code, 2);
    assert!(!sandbox.dir().join("q").exists(), "a refused command writes nothing");
}

#[test]
fn git_makes_a_repository_that_ignores_secrets() {
    let sandbox = Sandbox::new();
    sandbox.gdn(&["init", "p", "--git"]).ok();
    assert!(sandbox.dir().join("p/.git").is_dir());
    assert!(std::fs::read_to_string(sandbox.dir().join("p/.gitignore")).unwrap().contains(".env\n"));
}

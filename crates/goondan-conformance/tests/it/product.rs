//! The conformance cases of this repository, and the schema of the case format.

use std::path::{Path, PathBuf};

use goondan_conformance::RuleCoverage;
use goondan_conformance::case::ConformanceCase;
use goondan_conformance::discover::discover;
use serde_json::{Value, json};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_implemented_rule_has_a_case() {
    let found = discover(&[repository().join("tests/conformance")]);
    assert_eq!(found.errors, []);
    let coverage = RuleCoverage::of(found.cases.iter().map(|located| &located.case));
    let is_implemented = |id: &str| {
        id.starts_with(['L', 'T', 'A', 'M', 'E']) || ["C1", "C2", "C2b", "C3", "C4"].contains(&id)
    };
    let missing: Vec<&str> = coverage
        .missing()
        .map(|rule| rule.id)
        .filter(|id| is_implemented(id))
        .collect();
    assert!(missing.is_empty(), "rules without a case: {missing:?}");
}

#[test]
fn every_case_has_about_and_rules() {
    for located in discover(&[repository().join("tests/conformance")]).cases {
        let ConformanceCase {
            case, about, rules, ..
        } = located.case;
        assert!(
            !about.is_empty() && !rules.is_empty(),
            "{case} needs `about` and `rules`"
        );
    }
}

/// With `UPDATE_SCHEMAS=1`, writes the schema file first.
#[test]
fn the_case_schema_is_up_to_date() {
    let path = repository().join("schemas/conformance-case.schema.json");
    let generated = format!("{:#}\n", goondan_conformance::case::schema());
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let command = "UPDATE_SCHEMAS=1 cargo test -p goondan-conformance --test it product";
    assert_eq!(committed, generated, "the schema is stale: run {command}");
}

#[test]
fn the_case_schema_accepts_all_cases_and_rejects_invalid_ones() {
    let schema =
        jsonschema::draft202012::new(&goondan_conformance::case::schema()).expect("a schema");
    let directory = repository().join("tests/conformance");
    let files: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for case in goondan::internal::yaml::documents_from_str::<Value>(&text).unwrap() {
            let problems: Vec<String> = schema
                .iter_errors(&case)
                .map(|error| format!("{error} at {}", error.instance_path()))
                .collect();
            assert!(problems.is_empty(), "{}: {problems:?}", case["case"]);
        }
    }
    let invalid_cases = [
        json!({"case": "x", "fils": {}}),
        json!({"about": "no name"}),
        json!({"case": "x", "steps": [{"send": {"inptu": "a"}}]}),
        json!({"case": "x", "models": {"a": [{"txt": "a"}]}}),
        json!({"case": "x", "expect": {"toolResults": [{"a": {"$contians": "b"}}]}}),
        json!({"case": "x", "files": {"a": {"contnt": "b"}}}),
    ];
    for invalid_case in invalid_cases {
        assert!(!schema.is_valid(&invalid_case), "{invalid_case}");
    }
}

//! `docs/errors.md` explains every code and no other; `docs/yaml.md` says how values are read.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use goondan_spec::{Code, Diagnostic, yaml};

fn sections() -> Vec<(String, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let page = std::fs::read_to_string(path).unwrap();
    let sections = page.split("\n### ").skip(1);
    sections
        .map(|section| section.split_once('\n').unwrap())
        .map(|(code, text)| (code.to_owned(), text.to_owned()))
        .collect()
}

#[test]
fn every_code_has_a_section_that_says_when_and_how_to_fix_it() {
    let sections = sections();
    for code in Code::ALL {
        let (_, text) =
            sections.iter().find(|(title, _)| title == code.0).unwrap_or_else(|| panic!("{code} is not explained"));
        assert!(text.contains("**When.**") && text.contains("**Fix.**"), "{code}");
    }
    for (title, _) in &sections {
        assert!(Code::ALL.iter().any(|code| code.0 == title), "{title} does not exist");
    }
}

#[test]
fn the_help_link_leads_to_the_section() {
    for (title, _) in sections() {
        let code = Code::ALL.iter().find(|code| code.0 == title).unwrap();
        let url = Diagnostic::new(*code, "").help_url.unwrap();
        assert_eq!(url.split('#').nth(1).unwrap(), title.to_lowercase());
    }
}

/// The rows of the table below a heading of `docs/yaml.md`: what is written in the first cell, and the second cell.
fn yaml_rows(heading: &str) -> Vec<(Vec<String>, String)> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/yaml.md")).unwrap();
    let section = page.split("\n## ").find_map(|section| section.strip_prefix(heading)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split(" | ");
        let written = cells.next().unwrap().replace("`` `a` ``", "`\u{60}a\u{60}`");
        let written = written.trim().trim_matches('`').split("`, `").map(str::to_owned).collect();
        (written, cells.next().unwrap().trim().to_owned())
    })
    .collect()
}

fn read_value(written: &str) -> Result<serde_json::Value, yaml::YamlError> {
    let document: serde_json::Value = yaml::from_str(&format!("value: {written}\n"))?;
    Ok(document["value"].clone())
}

#[test]
fn yaml_is_read_as_the_page_says() {
    let rows = yaml_rows("How values are read");
    assert!(rows.len() > 6, "{rows:#?}");
    for (written, kind) in rows {
        for written in written {
            let found = match read_value(&written).unwrap() {
                serde_json::Value::String(_) => "text",
                serde_json::Value::Number(_) => "number",
                serde_json::Value::Bool(_) => "true or false",
                _ => "nothing",
            };
            assert_eq!(found, kind, "{written}");
        }
    }
}

#[test]
fn yaml_is_refused_as_the_page_says() {
    let rows = yaml_rows("What is refused");
    assert!(rows.len() > 6, "{rows:#?}");
    for written in rows.into_iter().flat_map(|(written, _)| written) {
        assert!(read_value(&written).is_err(), "{written}");
    }
    assert!(yaml::from_str::<serde_json::Value>("a:\n\tb: 1\n").is_err());
}

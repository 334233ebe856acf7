//! Checks of the documentation: `docs/errors.md` is generated from the table of codes, links have a
//! target, and YAML is read as `docs/yaml.md` describes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use goondan_spec::{Diagnostic, yaml};

use goondan_spec::codes::{explanations, markdown};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// With `UPDATE_DOCS=1`, the test writes the page.
#[test]
fn the_errors_page_is_up_to_date() {
    let path = repository().join("docs/errors.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, markdown()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    let hint = "docs/errors.md is stale: UPDATE_DOCS=1 cargo test -p goondan-spec writes it again";
    assert!(committed == markdown(), "{hint}");
}

/// Returns the anchors of a page, as GitHub generates them from headings.
fn anchors(page: &str) -> Vec<String> {
    let mut in_code = false;
    let mut anchors = Vec::new();
    for line in page.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !in_code) else {
            continue;
        };
        let kept = heading.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || ['_', '-', ' '].contains(c));
        anchors.push(kept.collect::<String>().to_lowercase().replace(' ', "-"));
    }
    anchors
}

/// Returns the text of each page in `docs`, by file name.
fn pages() -> HashMap<String, String> {
    let files = std::fs::read_dir(repository().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let named = |path: PathBuf| {
        (
            path.file_name().unwrap().to_str().unwrap().to_owned(),
            std::fs::read_to_string(&path).unwrap(),
        )
    };
    pages.map(named).collect()
}

/// Returns the error of the link `target`, such as `secrets.md`; `None` if the link is valid.
fn broken(pages: &HashMap<String, String>, target: &str) -> Option<String> {
    let (page, anchor) = target
        .split_once('#')
        .map_or((target, None), |(page, anchor)| (page, Some(anchor)));
    let Some(text) = pages.get(page) else {
        return Some(format!("{target}: the page does not exist"));
    };
    let heading_exists =
        anchor.is_none_or(|anchor| anchors(text).iter().any(|known| known == anchor));
    (!heading_exists).then(|| format!("{target}: the heading does not exist"))
}

#[test]
fn every_help_link_targets_an_existing_heading() {
    let pages = pages();
    let home = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/");
    for row in explanations() {
        let url = Diagnostic::new(row.code, "").help_url.unwrap();
        assert_eq!(broken(&pages, url.strip_prefix(home).unwrap()), None);
        assert_eq!(
            row.more.and_then(|more| broken(&pages, more)),
            None,
            "{}",
            row.code
        );
    }
}

#[test]
fn links_between_pages_are_valid() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (name, text) in &pages {
        for rest in text.split("](").skip(1) {
            let target = rest.split(')').next().unwrap();
            let target = if target.starts_with('#') {
                format!("{name}{target}")
            } else {
                target.to_owned()
            };
            if target
                .split('#')
                .next()
                .is_some_and(|page| page.ends_with(".md") && !page.contains('/'))
            {
                wrong.extend(broken(&pages, &target).map(|why| format!("{name}: {why}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_code_has_one_explanation_in_sentences() {
    let mut seen = std::collections::HashSet::new();
    for row in explanations() {
        assert!(
            seen.insert(row.code),
            "{} occurs twice in the table",
            row.code
        );
        for text in [row.meaning, row.why, row.next] {
            assert!(
                text.starts_with(|c: char| c.is_uppercase() || c == '`') && text.ends_with('.'),
                "{}: {text}",
                row.code
            );
            assert!(
                !text.contains("  ") && !text.contains('\n'),
                "{}: {text}",
                row.code
            );
        }
        for shown in row
            .example
            .iter()
            .flat_map(|example| [example.wrong, example.right])
        {
            assert!(
                shown.ends_with('\n') && !shown.contains("```"),
                "{}: {shown}",
                row.code
            );
        }
    }
}

/// Returns the rows of the table below a heading of `docs/yaml.md`: the examples in the first cell,
/// and the second cell.
fn yaml_rows(heading: &str) -> Vec<(Vec<String>, String)> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/yaml.md"))
        .unwrap();
    let section = page
        .split("\n## ")
        .find_map(|section| section.strip_prefix(heading))
        .unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split(" | ");
        let written = cells
            .next()
            .unwrap()
            .replace("`` `a` ``", "`\u{60}a\u{60}`");
        let written = written
            .trim()
            .trim_matches('`')
            .split("`, `")
            .map(str::to_owned)
            .collect();
        (written, cells.next().unwrap().trim().to_owned())
    })
    .collect()
}

fn read_value(written: &str) -> Result<serde_json::Value, yaml::YamlError> {
    let document: serde_json::Value = yaml::from_str(&format!("value: {written}\n"))?;
    Ok(document["value"].clone())
}

#[test]
fn yaml_values_are_read_as_documented() {
    let rows = yaml_rows("How values are read");
    assert!(rows.len() > 6, "{rows:#?}");
    for (written, kind) in rows {
        for written in written {
            let found = match read_value(&written).unwrap() {
                serde_json::Value::String(_) => "string",
                serde_json::Value::Number(_) => "number",
                serde_json::Value::Bool(_) => "boolean",
                _ => "nothing",
            };
            assert_eq!(found, kind, "{written}");
        }
    }
}

#[test]
fn yaml_is_refused_as_documented() {
    let rows = yaml_rows("What is refused");
    assert!(rows.len() > 6, "{rows:#?}");
    for written in rows.into_iter().flat_map(|(written, _)| written) {
        assert!(read_value(&written).is_err(), "{written}");
    }
    assert!(yaml::from_str::<serde_json::Value>("a:\n\tb: 1\n").is_err());
}

/// Returns the text of all Rust files and conformance test cases below a directory.
fn sources(directory: &Path) -> String {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let texts = entries.map(|entry| {
        let path = entry.path();
        let name = path.to_string_lossy().into_owned();
        match path.is_dir() {
            true if name.ends_with("/target") => String::new(),
            true => sources(&path),
            false if name.ends_with(".rs") || name.ends_with(".case.yaml") => {
                std::fs::read_to_string(&path).unwrap_or_default()
            }
            false => String::new(),
        }
    });
    texts.collect()
}

#[test]
fn tests_named_in_the_docs_exist() {
    let sources = ["crates", "tests"]
        .map(|name| sources(&repository().join(name)))
        .concat();
    let (mut count, mut missing) = (0, Vec::new());
    for page in ["security", "permissions", "sandbox", "approvals", "secrets"] {
        let text = pages().remove(&format!("{page}.md")).unwrap();
        let (_, tests) = text.split_once("\n## Tests\n").expect("a table of tests");
        let rows = tests.lines().filter(|line| line.starts_with("| "));
        for cell in rows.skip(1).filter_map(|row| row.rsplit(" | ").next()) {
            for name in cell.split('`').skip(1).step_by(2) {
                count += 1;
                let definitions = [format!("fn {name}("), format!("case: {name}\n")];
                if !definitions
                    .iter()
                    .any(|text| sources.contains(text.as_str()))
                {
                    missing.push(format!("{page}.md: {name}"));
                }
            }
        }
    }
    assert!(missing.is_empty() && count > 40, "{count}: {missing:?}");
}

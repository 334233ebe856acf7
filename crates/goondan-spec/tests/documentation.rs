//! `docs/errors.md` is made from the table of codes, and what the table and the pages point at is there.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use goondan_spec::Diagnostic;
use goondan_spec::codes::{explanations, markdown};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Run with `UPDATE_DOCS=1` to write it.
#[test]
fn the_page_of_all_codes_is_fresh() {
    let path = repository().join("docs/errors.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, markdown()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    let hint = "docs/errors.md is stale: UPDATE_DOCS=1 cargo test -p goondan-spec writes it anew";
    assert!(committed == markdown(), "{hint}");
}

/// The anchors of a page, as GitHub makes them from headings.
fn anchors(page: &str) -> Vec<String> {
    let mut in_code = false;
    let mut anchors = Vec::new();
    for line in page.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !in_code) else { continue };
        let kept = heading.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || ['_', '-', ' '].contains(c));
        anchors.push(kept.collect::<String>().to_lowercase().replace(' ', "-"));
    }
    anchors
}

/// Every page below `docs`, by its name.
fn pages() -> HashMap<String, String> {
    let files = std::fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let named = |path: PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap())
    };
    pages.map(named).collect()
}

/// What is wrong with `target`, such as `security.md#secrets`.
fn broken(pages: &HashMap<String, String>, target: &str) -> Option<String> {
    let (page, anchor) = target.split_once('#').map_or((target, None), |(page, anchor)| (page, Some(anchor)));
    let Some(text) = pages.get(page) else { return Some(format!("{target}: there is no such page")) };
    let is_there = anchor.is_none_or(|anchor| anchors(text).iter().any(|known| known == anchor));
    (!is_there).then(|| format!("{target}: there is no such heading"))
}

#[test]
fn every_help_link_leads_to_a_heading_of_the_repository() {
    let pages = pages();
    let home = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/");
    for row in explanations() {
        let url = Diagnostic::new(row.code, "").help_url.unwrap();
        assert_eq!(broken(&pages, url.strip_prefix(home).unwrap()), None);
        assert_eq!(row.more.and_then(|more| broken(&pages, more)), None, "{}", row.code);
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (name, text) in &pages {
        for rest in text.split("](").skip(1) {
            let target = rest.split(')').next().unwrap();
            let target = if target.starts_with('#') { format!("{name}{target}") } else { target.to_owned() };
            if target.split('#').next().is_some_and(|page| page.ends_with(".md") && !page.contains('/')) {
                wrong.extend(broken(&pages, &target).map(|why| format!("{name}: {why}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_code_is_explained_in_sentences_and_once() {
    let mut seen = std::collections::HashSet::new();
    for row in explanations() {
        assert!(seen.insert(row.code), "{} stands in the table twice", row.code);
        for text in [row.meaning, row.why, row.next] {
            assert!(
                text.starts_with(|c: char| c.is_uppercase() || c == '`') && text.ends_with('.'),
                "{}: {text}",
                row.code
            );
            assert!(!text.contains("  ") && !text.contains('\n'), "{}: {text}", row.code);
        }
        for shown in row.example.iter().flat_map(|example| [example.wrong, example.right]) {
            assert!(shown.ends_with('\n') && !shown.contains("```"), "{}: {shown}", row.code);
        }
    }
}

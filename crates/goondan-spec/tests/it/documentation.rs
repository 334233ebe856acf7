//! `docs/errors.md` explains every code, and no other.

use goondan_spec::{Code, Diagnostic};

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

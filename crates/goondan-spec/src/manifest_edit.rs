//! Edits of the dependencies in a Package document that leave the rest of the file unchanged.

use crate::node::{NodeContent, YamlNode};
use crate::text::{line_end_at, with_line_end};
use crate::{document_split, yaml};

/// Optional prefix that some editors write.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Dependency to write.
#[derive(Debug, Clone, Copy)]
pub struct DependencySpec<'w> {
    /// Package name.
    pub name: &'w str,
    /// Version range.
    pub version: &'w str,
    /// Source. `None` for the registry.
    pub source: Option<&'w str>,
}

impl DependencySpec<'_> {
    /// Returns the fields of the dependency as YAML keys and quoted values.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let fields = [
            ("name", Some(self.name)),
            ("version", Some(self.version)),
            ("source", self.source),
        ];
        fields
            .into_iter()
            .filter_map(|(key, value)| Some((key, quote_string(value?))))
            .collect()
    }

    /// Formats one line: `{name: "a", version: "^1.0.0"}`.
    fn to_flow_map(self) -> String {
        let fields: Vec<String> = self
            .fields()
            .into_iter()
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        format!("{{{}}}", fields.join(", "))
    }

    /// Formats a list item whose dash is indented by `indent` spaces.
    fn to_list_item(self, indent: usize) -> String {
        let (first, next) = (" ".repeat(indent), " ".repeat(indent + 2));
        let fields = self.fields().into_iter().enumerate();
        let line = |(index, (key, value))| match index {
            0 => format!("{first}- {key}: {value}\n"),
            _ => format!("{next}{key}: {value}\n"),
        };
        fields.map(line).collect()
    }
}

/// Adds or replaces a dependency in the text of a `goondan.yaml`. A text without a Package gets one
/// with the name `package`.
///
/// Returns `None` if the text is too unusual for an automatic edit.
pub fn with_dependency(
    text: &str,
    package: &str,
    dependency: DependencySpec<'_>,
) -> Option<String> {
    let Some(document) = package_document(text) else {
        let name = quote_string(package);
        let head =
            format!("apiVersion: goondan.ai/v1\nkind: Package\nmetadata:\n  name: {name}\nspec:\n");
        let head = format!("{head}  dependencies:\n{}", dependency.to_list_item(4));
        return verified_edit(with_first_document(&head, text), dependency);
    };
    let text = without_dependency(text, dependency.name).unwrap_or_else(|| text.to_owned());
    let document = package_document(&text).unwrap_or(document);
    let edited = match document.entry("spec") {
        None => {
            let end = end_of_line(&text, end_of_value(&text, &document));
            insert(
                &text,
                end,
                &format!("spec:\n  dependencies:\n{}", dependency.to_list_item(4)),
            )
        }
        Some(spec) if matches!(spec.value.content, NodeContent::Null) => {
            let end = end_of_line(&text, spec.key_at.end);
            insert(
                &text,
                end,
                &format!("  dependencies:\n{}", dependency.to_list_item(4)),
            )
        }
        Some(spec) => insert_or_replace(&text, &spec.value, dependency)?,
    };
    verified_edit(edited, dependency)
}

/// Adds the dependency to `spec.dependencies`, or replaces the one with the same name; `None` if
/// the YAML has an unexpected form.
fn insert_or_replace(
    text: &str,
    spec: &YamlNode,
    dependency: DependencySpec<'_>,
) -> Option<String> {
    let is_flow = |node: &YamlNode| text[node.at.start..].starts_with(['{', '[']);
    let Some(list) = spec.entry("dependencies").map(|entry| &entry.value) else {
        let first = spec.entries()?.first();
        return Some(match first {
            _ if is_flow(spec) => {
                let comma = if first.is_some() { ", " } else { "" };
                insert(
                    text,
                    spec.at.start + 1,
                    &format!("dependencies: [{}]{comma}", dependency.to_flow_map()),
                )
            }
            first => {
                let indent = first?.key_at.column - 1;
                let line = text[..first?.key_at.start]
                    .rfind('\n')
                    .map_or(0, |at| at + 1);
                let key = " ".repeat(indent);
                insert(
                    text,
                    line,
                    &format!(
                        "{key}dependencies:\n{}",
                        dependency.to_list_item(indent + 2)
                    ),
                )
            }
        });
    };
    let NodeContent::List(items) = &list.content else {
        return None;
    };
    if is_flow(list) {
        let comma = if items.is_empty() { "" } else { ", " };
        return Some(insert(
            text,
            list.at.start + 1,
            &format!("{}{comma}", dependency.to_flow_map()),
        ));
    }
    // Inserts before the first item, because the end of a block list depends on comments and blank
    // lines.
    let line = text[..items.first()?.at.start]
        .rfind('\n')
        .map_or(0, |at| at + 1);
    let indent = text[line..].find('-')?;
    text[line..line + indent]
        .trim()
        .is_empty()
        .then(|| insert(text, line, &dependency.to_list_item(indent)))
}

/// Removes the dependency `name` from the text of a `goondan.yaml`.
///
/// Returns `None` if there is no such dependency, or if the text is too unusual for an automatic
/// edit.
pub fn without_dependency(text: &str, name: &str) -> Option<String> {
    let document = package_document(text)?;
    let entry = document.entry("spec")?.value.entry("dependencies")?;
    let NodeContent::List(items) = &entry.value.content else {
        return None;
    };
    let is_it =
        |item: &&YamlNode| item.entry("name").and_then(|entry| entry.value.text()) == Some(name);
    let index = items.iter().position(|item| is_it(&item))?;
    let item = &items[index];
    let edited = if text[entry.value.at.start..].starts_with('[') {
        let (start, end) = match (index, items.get(index + 1)) {
            (_, Some(next)) => (item.at.start, next.at.start),
            (0, None) => (item.at.start, end_of_value(text, item)),
            (_, None) => (
                end_of_value(text, &items[index - 1]),
                end_of_value(text, item),
            ),
        };
        format!("{}{}", &text[..start], &text[end..])
    } else {
        let end = match items.get(index + 1) {
            Some(next) => text[..next.at.start].rfind('\n').map_or(0, |at| at + 1),
            None => end_of_line(text, end_of_value(text, item)),
        };
        match items.len() {
            // Writes an empty list, because a key without a value is an error.
            1 => format!(
                "{} []{}{}",
                text[..end_of_line(text, entry.key_at.end)].trim_end(),
                line_end_at(text, entry.key_at.end),
                &text[end..]
            ),
            _ => format!(
                "{}{}",
                &text[..text[..item.at.start].rfind('\n').map_or(0, |at| at + 1)],
                &text[end..]
            ),
        }
    };
    let after = package_document(&edited)?;
    let dependencies_after = after
        .entry("spec")
        .and_then(|spec| spec.value.entry("dependencies"));
    let count = dependencies_after.map_or(0, |entry| {
        if let NodeContent::List(items) = &entry.value.content {
            items.len()
        } else {
            0
        }
    });
    (count + 1 == items.len()).then_some(edited)
}

/// Returns the end of a node: after its last bracket, or after the last value of a block.
fn end_of_value(text: &str, node: &YamlNode) -> usize {
    if text[node.at.start..].starts_with(['{', '[']) {
        return end_of_flow(text, node.at.start);
    }
    let last = match &node.content {
        NodeContent::Map(entries) => entries.last().map(|entry| (&entry.value, entry.key_at.end)),
        NodeContent::List(items) => items.last().map(|item| (item, item.at.end)),
        _ => None,
    };
    last.map_or(node.at.end, |(last, at_least)| {
        end_of_value(text, last).max(at_least)
    })
}

/// Returns the offset after the bracket that closes the one at `start`.
fn end_of_flow(text: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in text[start..].char_indices() {
        match (quote, c) {
            (Some('#'), '\n') => quote = None,
            (Some('"'), '"') if before == '\\' => {}
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if before.is_whitespace() || "[{,:".contains(before) => {
                quote = Some(c)
            }
            (None, '#') if before.is_whitespace() => quote = Some('#'),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return start + at + 1;
                }
            }
            _ => {}
        }
        before = c;
    }
    text.len()
}

/// Returns the name of the Package at the start of a `goondan.yaml`.
pub fn package_name(text: &str) -> Option<String> {
    let document = package_document(text)?;
    Some(
        document
            .entry("metadata")?
            .value
            .entry("name")?
            .value
            .text()?
            .to_owned(),
    )
}

/// Returns the first document if it is a Package. Positions are relative to `text`.
fn package_document(text: &str) -> Option<YamlNode> {
    for chunk in document_split::split_documents(text) {
        if let Some(mut document) = yaml::parse(chunk.text).ok()? {
            document.shift_positions(chunk.lines_before, chunk.bytes_before);
            let is_package =
                document.entry("kind").and_then(|kind| kind.value.text()) == Some("Package");
            return is_package.then_some(document);
        }
    }
    None
}

/// Returns `text` if it contains the dependency exactly once, as a check of the edit.
fn verified_edit(text: String, dependency: DependencySpec<'_>) -> Option<String> {
    let document = package_document(&text)?;
    let NodeContent::List(items) = &document
        .entry("spec")?
        .value
        .entry("dependencies")?
        .value
        .content
    else {
        return None;
    };
    let field = |item: &YamlNode, key: &str| {
        item.entry(key)
            .and_then(|entry| entry.value.text().map(str::to_owned))
    };
    let matching_items = items
        .iter()
        .filter(|item| field(item, "name").as_deref() == Some(dependency.name));
    let written_fields: Vec<_> = matching_items
        .map(|item| (field(item, "version"), field(item, "source")))
        .collect();
    let expected = (
        Some(dependency.version.to_owned()),
        dependency.source.map(str::to_owned),
    );
    (written_fields == [expected]).then_some(text)
}

/// Inserts `new` at byte `at`, with the line ends of the text. Starts a new line first if the text
/// ends without one.
fn insert(text: &str, at: usize, new: &str) -> String {
    let needs_line = at > 0 && at == text.len() && !text.ends_with('\n') && new.ends_with('\n');
    let line_end = line_end_at(text, at);
    format!(
        "{}{}{}{}",
        &text[..at],
        if needs_line { line_end } else { "" },
        with_line_end(new, line_end),
        &text[at..]
    )
}

/// Puts the document `head` before the documents of `text`, with the line ends of `text`. A byte
/// order mark stays first.
pub fn with_first_document(head: &str, text: &str) -> String {
    let rest = text.trim_start_matches(BYTE_ORDER_MARK);
    let mark = &text[..text.len() - rest.len()];
    let marker = if rest.trim_start().starts_with("---") || rest.trim().is_empty() {
        ""
    } else {
        "---\n"
    };
    let head = with_line_end(&format!("{head}{marker}"), line_end_at(rest, 0));
    format!("{mark}{head}{rest}")
}

/// Returns the offset after the line that contains `at`.
fn end_of_line(text: &str, at: usize) -> usize {
    let from = at.saturating_sub(usize::from(text[..at].ends_with('\n')));
    text[from..]
        .find('\n')
        .map_or(text.len(), |found| from + found + 1)
}

/// Returns the text as a YAML scalar in double quotes.
fn quote_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCY: DependencySpec<'_> = DependencySpec {
        name: "@a/b",
        version: "^1.0.0",
        source: Some("oci://h/b"),
    };

    fn added(text: &str) -> String {
        with_dependency(text, "here", DEPENDENCY).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn a_dependency_is_added_to_every_form_of_spec() {
        let head = "# top\napiVersion: goondan.ai/v1\nkind: Package\nmetadata: {name: here}\n";
        let rest = "---\napiVersion: goondan.ai/v1\nkind: Model\n";
        for spec in [
            "",
            "spec:\n",
            "spec: {}\n",
            "spec: {version: 1.0.0}\n",
            "spec:\n  version: 1.0.0 # one\n",
            "spec:\n  version: 1.0.0\n  dependencies: []\n",
            "spec:\n  dependencies: [{name: x, version: \"*\"}] # all\n",
            "spec:\n  dependencies:\n  - name: x\n    version: \"*\"\n",
            "spec:\n    # why\n    dependencies:\n        # x\n        - name: x\n          \
            version: \"*\"\n    version: 1.0.0\n",
            "spec:\n  dependencies:\n    - {name: \"@a/b\", version: 0.1.0}\n    - {name: y, \
            version: 0.1.0}\n",
            "spec:\n  dependencies:\n    - {name: \"@a/b\", version: 0.1.0}\n  version: 1.0.0\n",
        ] {
            for rest in ["", rest] {
                let text = format!("{head}{spec}{rest}");
                let after = added(&text);
                assert!(after.starts_with(head) && after.ends_with(rest), "{after}");
                let again = without_dependency(&after, "@a/b").unwrap_or_else(|| panic!("{after}"));
                assert_eq!(without_dependency(&again, "@a/b"), None);
                for comment in ["# one", "# all", "# why", "# x"] {
                    assert_eq!(text.contains(comment), again.contains(comment), "{again}");
                }
            }
        }
    }

    #[test]
    fn a_missing_package_document_is_added() {
        for text in [
            "",
            "apiVersion: goondan.ai/v1\nkind: Model\n",
            "---\nkind: Model\n",
            "# c\nkind: Model\n",
        ] {
            let after = added(text);
            assert_eq!(package_name(&after).as_deref(), Some("here"));
            assert!(after.ends_with(text));
        }
    }

    #[test]
    fn added_lines_use_the_line_ends_of_the_file() {
        for text in [
            "",
            "kind: Model\nmetadata: {name: a}\n",
            "kind: Package\n",
            "kind: Package\nspec:\n",
            "kind: Package\nspec:\n  version: 1.0.0",
            "kind: Package\nspec:\n  dependencies:\n    - name: x\n      version: \"*\"\n",
            "kind: Package\nspec:\n  dependencies: [{name: x, version: \"*\"}]\n",
        ] {
            let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
            let (after, expected) = (added(&windows), added(text));
            let line_end = if text.is_empty() { "\n" } else { "\r\n" };
            let expected = format!("\u{feff}{}", expected.replace('\n', line_end));
            assert_eq!(after, expected);
            let without = |text: &str| without_dependency(text, DEPENDENCY.name).unwrap();
            assert_eq!(
                without(&after),
                format!("\u{feff}{}", without(&added(text)).replace('\n', line_end))
            );
        }
    }

    #[test]
    fn an_invalid_package_spec_is_not_edited() {
        for text in [
            "kind: Package\nspec: 1\n",
            "kind: Package\nspec: {dependencies: x}\n",
        ] {
            assert_eq!(with_dependency(text, "here", DEPENDENCY), None, "{text}");
        }
    }
}

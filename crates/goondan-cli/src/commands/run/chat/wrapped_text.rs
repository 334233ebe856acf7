//! Wrapping of lines between words.

use crate::output::width::width;

/// Minimum columns for which lines are wrapped.
const MIN_WRAP_COLUMNS: usize = 20;

/// Wraps a line with styles between words, at most `columns` wide. Further rows are indented like
/// the text of the first row. A longer word is not divided here.
pub(super) fn wrap_line(line: &str, columns: usize) -> String {
    let visible_text = anstream::adapter::strip_str(line).to_string();
    if columns < MIN_WRAP_COLUMNS || visible_text.contains('\t') || width(&visible_text) <= columns
    {
        return line.to_owned();
    }
    let text = visible_text.trim_start();
    let bullet = if text.starts_with("• ") { 2 } else { 0 };
    let indent = (visible_text.len() - text.len() + bullet).min(columns / 2);
    let mut rows = String::new();
    let mut used = 0;
    for (number, word) in line.split(' ').enumerate() {
        let word_columns = width(&anstream::adapter::strip_str(word).to_string());
        if number > 0 && used + 1 + word_columns > columns && used > indent {
            rows.push('\n');
            rows.push_str(&" ".repeat(indent));
            used = indent;
        } else if number > 0 {
            rows.push(' ');
            used += 1;
        }
        rows.push_str(word);
        used += word_columns;
    }
    rows
}

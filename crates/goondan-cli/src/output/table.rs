//! Tables with aligned columns, for lists on standard output.

use goondan::internal::untrusted_text;

use super::style;

/// Table with a heading row. The last column is not padded.
#[derive(Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates a table that contains only the heading.
    pub(crate) fn new(heading: &[&str]) -> Self {
        TextTable {
            rows: vec![heading.iter().map(|&cell| cell.to_owned()).collect()],
        }
    }

    /// Adds a row. Cells may contain foreign text, but no styles.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(
            cells
                .into_iter()
                .map(|cell| untrusted_text::line(cell).to_string())
                .collect(),
        );
    }

    /// Renders the rows, the heading first.
    pub(crate) fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let mut lines: Vec<String> = self
            .rows
            .iter()
            .map(|row| padded_row(row, &widths))
            .collect();
        if let Some(heading) = lines.first_mut() {
            let bold = style::HEADING;
            *heading = format!("{bold}{heading}{bold:#}");
        }
        lines
    }

    /// Returns the width of the widest cell in a column, in characters.
    fn width(&self, column: usize) -> usize {
        self.rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    }
}

/// Joins the cells of a row, each padded to the width of its column.
fn padded_row(row: &[String], widths: &[usize]) -> String {
    let cells = row
        .iter()
        .zip(widths)
        .map(|(cell, &width)| format!("{cell:<width$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_characters() {
        let mut table = TextTable::new(&["NAME", "N"]);
        table.row(["größer".to_owned(), "1".to_owned()]);
        table.row(["a".to_owned(), "22".to_owned()]);
        assert_eq!(table.lines()[1..], ["größer  1", "a       22"]);
    }
}

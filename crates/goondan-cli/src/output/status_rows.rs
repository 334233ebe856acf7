//! Status rows below all other output: the prompt of a chat, and the current activity.
//!
//! The rows are part of the normal screen. Other output erases them, is written in their place, and
//! redraws them below. So only that output scrolls into the terminal's history.

use super::screen;
use super::width::width;

/// Start of a synchronized update: a terminal that supports it shows nothing until [`END_SYNC_UPDATE`].
const BEGIN_SYNC_UPDATE: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END_SYNC_UPDATE: &str = "\u{1b}[?25h\u{1b}[?2026l";

/// Status rows with gdn's styles, and the cursor position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StatusRows {
    /// Rows from top to bottom, each narrower than the terminal.
    pub(crate) rows: Vec<String>,
    /// Row of the cursor, and the byte offset in that row.
    pub(crate) cursor: (usize, usize),
}

/// Requested and drawn state of the rows.
#[derive(Debug, Default)]
pub(super) struct StatusRowState {
    requested: StatusRows,
    /// Width of each drawn row, and the drawn cursor position.
    drawn: Option<DrawnRows>,
    /// Start of a line that is not complete yet.
    pub(super) partial: String,
    /// Terminal width at the last repaint.
    columns: usize,
}

/// Rows on the screen: their widths, and the row and column of the cursor.
#[derive(Debug)]
struct DrawnRows {
    widths: Vec<usize>,
    cursor: (usize, usize),
}

impl StatusRowState {
    /// Sets the requested rows. Returns true if a repaint is needed.
    pub(super) fn want(&mut self, bottom: StatusRows, columns: usize) -> bool {
        let is_new = self.requested != bottom || self.columns != columns || self.drawn.is_none();
        self.requested = bottom;
        is_new
    }

    /// Returns the output that writes `lines` above the rows. `lines` is empty or ends with a line
    /// break.
    pub(super) fn repaint(&mut self, lines: &str, columns: usize, has_colour: bool) -> String {
        let mut out = String::from(BEGIN_SYNC_UPDATE);
        self.erase_rows(columns, &mut out);
        out.push_str(lines);
        self.draw(has_colour, &mut out);
        self.columns = columns;
        out.push_str(END_SYNC_UPDATE);
        out
    }

    /// Returns the output that erases the rows. They can be drawn again.
    pub(super) fn lift(&mut self, columns: usize) -> String {
        let mut out = String::from(BEGIN_SYNC_UPDATE);
        self.erase_rows(columns, &mut out);
        out.push_str(END_SYNC_UPDATE);
        out
    }

    /// Erases the drawn rows. A terminal that is narrower than before has wrapped them.
    fn erase_rows(&mut self, columns: usize, out: &mut String) {
        let Some(DrawnRows {
            widths,
            cursor: (row, column),
        }) = self.drawn.take()
        else {
            return;
        };
        let columns = columns.max(1);
        let up = widths[..row]
            .iter()
            .map(|width| width.div_ceil(columns).max(1))
            .sum::<usize>()
            + column / columns;
        out.push('\r');
        if up > 0 {
            out.push_str(&format!("\u{1b}[{up}A"));
        }
        out.push_str("\u{1b}[J");
    }

    /// Draws the rows. Line breaks first make room, so that nothing scrolls later. Then the
    /// terminal can save the cursor position itself, however wide it draws the characters before
    /// it.
    fn draw(&mut self, has_colour: bool, out: &mut String) {
        let StatusRows { rows, cursor } = &self.requested;
        if rows.is_empty() {
            return;
        }
        let extra_rows = rows.len() - 1;
        if extra_rows > 0 {
            out.push_str(&"\n".repeat(extra_rows));
            out.push_str(&format!("\u{1b}[{extra_rows}A"));
        }
        out.push('\r');
        let mut drawn_rows = DrawnRows {
            widths: Vec::with_capacity(rows.len()),
            cursor: (0, 0),
        };
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                out.push_str("\r\n");
            }
            if index == cursor.0 {
                let (before, after) =
                    row.split_at(row.floor_char_boundary(cursor.1.min(row.len())));
                out.push_str(&escape_row(before, has_colour));
                out.push_str("\u{1b}7");
                out.push_str(&escape_row(after, has_colour));
                drawn_rows.cursor = (index, width(&escape_row(before, false)));
            } else {
                out.push_str(&escape_row(row, has_colour));
            }
            drawn_rows.widths.push(width(&escape_row(row, false)));
        }
        out.push_str("\u{1b}8");
        self.drawn = Some(drawn_rows);
    }
}

/// Escapes everything in a row except gdn's own styles.
fn escape_row(row: &str, has_colour: bool) -> String {
    let row = screen::escape_terminal_text(row);
    if has_colour {
        row
    } else {
        anstream::adapter::strip_str(&row).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_rows(rows: &[&str], cursor: (usize, usize)) -> StatusRows {
        StatusRows {
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            cursor,
        }
    }

    /// Returns the rows on the terminal and its cursor position.
    fn shown(parser: &vt100::Parser) -> (Vec<String>, (u16, u16)) {
        let (_, columns) = parser.screen().size();
        let rows = parser
            .screen()
            .rows(0, columns)
            .map(|row| row.trim_end().to_owned());
        (rows.collect(), parser.screen().cursor_position())
    }

    /// Feeds text with CR LF line ends, as a terminal receives it.
    fn feed(parser: &mut vt100::Parser, text: &str) {
        parser.process(text.replace("\r\n", "\n").replace('\n', "\r\n").as_bytes());
    }

    #[test]
    fn output_is_written_above_the_status_rows() {
        let mut parser = vt100::Parser::new(5, 20, 100);
        let mut state = StatusRowState::default();
        assert!(state.want(status_rows(&["working", "a> 日本x"], (1, 9)), 20));
        feed(&mut parser, &state.repaint("", 20, true));
        for number in 1..=9 {
            feed(
                &mut parser,
                &state.repaint(&format!("line {number}\n"), 20, true),
            );
        }
        let (rows, cursor) = shown(&parser);
        assert_eq!(rows, ["line 7", "line 8", "line 9", "working", "a> 日本x"]);
        assert_eq!(cursor, (4, 7));
        state.want(status_rows(&["a> "], (0, 3)), 20);
        feed(&mut parser, &state.repaint("", 20, true));
        assert_eq!(shown(&parser).0, ["line 7", "line 8", "line 9", "a>", ""]);
        feed(&mut parser, &state.lift(20));
        assert_eq!(
            shown(&parser),
            (
                vec![
                    "line 7".into(),
                    "line 8".into(),
                    "line 9".into(),
                    "".into(),
                    "".into()
                ],
                (3, 0)
            )
        );
    }

    #[test]
    fn control_characters_in_a_status_row_are_escaped() {
        let mut state = StatusRowState::default();
        state.want(
            status_rows(&["x\u{1b}[2J\u{202e}\u{1b}[1mbold\u{1b}[0m"], (0, 0)),
            80,
        );
        let drawn = state.repaint("", 80, true);
        assert!(
            drawn.contains("x\\u{1b}[2J\\u{202e}\u{1b}[1mbold\u{1b}[0m"),
            "{drawn:?}"
        );
        let plain = state.repaint("", 80, false);
        assert!(
            plain.contains("x\\u{1b}[2J\\u{202e}bold") && !plain.contains("\u{1b}[1m"),
            "{plain:?}"
        );
    }
}

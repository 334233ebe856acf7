//! Rows that stand below everything that is written: the prompt of a chat, and what goes on.
//!
//! They are part of the normal screen. Whatever else is written takes them away, stands where they stood, and has them drawn again
//! below; so what was said scrolls into the terminal's own history, and these rows never do.

use super::screen;
use super::width::width;

/// What is drawn at once: the terminal shows nothing of it before its end, if it knows how.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END: &str = "\u{1b}[?25h\u{1b}[?2026l";

/// The rows, with our styles, and where the cursor stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bottom {
    /// From the top; each narrower than the terminal.
    pub(crate) rows: Vec<String>,
    /// The row of the cursor, and how many bytes of it stand before the cursor.
    pub(crate) cursor: (usize, usize),
}

/// What is to stand there, and what does.
#[derive(Debug, Default)]
pub(super) struct Below {
    wanted: Bottom,
    /// How wide each row is that stands there, and where the cursor is.
    drawn: Option<Drawn>,
    /// The beginning of a line whose end has not come.
    pub(super) partial: String,
    /// How many columns there were.
    columns: usize,
}

#[derive(Debug)]
struct Drawn {
    widths: Vec<usize>,
    cursor: (usize, usize),
}

impl Below {
    /// Takes `bottom` up; whether there is anything to draw.
    pub(super) fn want(&mut self, bottom: Bottom, columns: usize) -> bool {
        let is_new = self.wanted != bottom || self.columns != columns || self.drawn.is_none();
        self.wanted = bottom;
        is_new
    }

    /// What puts `lines` above the rows. They end with a line break, or there are none.
    pub(super) fn repaint(&mut self, lines: &str, columns: usize, has_colour: bool) -> String {
        let mut out = String::from(BEGIN);
        self.take_away(columns, &mut out);
        out.push_str(lines);
        self.draw(has_colour, &mut out);
        self.columns = columns;
        out.push_str(END);
        out
    }

    /// What leaves the screen without the rows. They can be drawn again.
    pub(super) fn lift(&mut self, columns: usize) -> String {
        let mut out = String::from(BEGIN);
        self.take_away(columns, &mut out);
        out.push_str(END);
        out
    }

    /// A terminal that has become narrower has wrapped what was too wide.
    fn take_away(&mut self, columns: usize, out: &mut String) {
        let Some(Drawn {
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

    /// Room is made first: once nothing scrolls any more, the terminal remembers the place of the cursor itself, however wide it
    /// takes the letters before it to be.
    fn draw(&mut self, has_colour: bool, out: &mut String) {
        let Bottom { rows, cursor } = &self.wanted;
        if rows.is_empty() {
            return;
        }
        let more = rows.len() - 1;
        if more > 0 {
            out.push_str(&"\n".repeat(more));
            out.push_str(&format!("\u{1b}[{more}A"));
        }
        out.push('\r');
        let mut drawn = Drawn {
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
                out.push_str(&seen(before, has_colour));
                out.push_str("\u{1b}7");
                out.push_str(&seen(after, has_colour));
                drawn.cursor = (index, width(&seen(before, false)));
            } else {
                out.push_str(&seen(row, has_colour));
            }
            drawn.widths.push(width(&seen(row, false)));
        }
        out.push_str("\u{1b}8");
        self.drawn = Some(drawn);
    }
}

/// The wall that all text passes: nothing gets through but our styles.
fn seen(row: &str, has_colour: bool) -> String {
    let row = screen::harmless(row);
    if has_colour {
        row
    } else {
        anstream::adapter::strip_str(&row).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bottom(rows: &[&str], cursor: (usize, usize)) -> Bottom {
        Bottom {
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            cursor,
        }
    }

    /// What a terminal of that size shows at the end, and where its cursor is.
    fn shown(parser: &vt100::Parser) -> (Vec<String>, (u16, u16)) {
        let (_, columns) = parser.screen().size();
        let rows = parser
            .screen()
            .rows(0, columns)
            .map(|row| row.trim_end().to_owned());
        (rows.collect(), parser.screen().cursor_position())
    }

    /// A terminal ends lines with both.
    fn feed(parser: &mut vt100::Parser, text: &str) {
        parser.process(text.replace("\r\n", "\n").replace('\n', "\r\n").as_bytes());
    }

    #[test]
    fn what_is_written_stands_above_and_the_rows_stay_below() {
        let mut parser = vt100::Parser::new(5, 20, 100);
        let mut below = Below::default();
        assert!(below.want(bottom(&["working", "a> 日本x"], (1, 9)), 20));
        feed(&mut parser, &below.repaint("", 20, true));
        for number in 1..=9 {
            feed(
                &mut parser,
                &below.repaint(&format!("line {number}\n"), 20, true),
            );
        }
        let (rows, cursor) = shown(&parser);
        assert_eq!(rows, ["line 7", "line 8", "line 9", "working", "a> 日本x"]);
        assert_eq!(cursor, (4, 7));
        below.want(bottom(&["a> "], (0, 3)), 20);
        feed(&mut parser, &below.repaint("", 20, true));
        assert_eq!(shown(&parser).0, ["line 7", "line 8", "line 9", "a>", ""]);
        feed(&mut parser, &below.lift(20));
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
    fn a_row_does_nothing_to_the_terminal() {
        let mut below = Below::default();
        below.want(
            bottom(&["x\u{1b}[2J\u{202e}\u{1b}[1mbold\u{1b}[0m"], (0, 0)),
            80,
        );
        let drawn = below.repaint("", 80, true);
        assert!(
            drawn.contains("x\\u{1b}[2J\\u{202e}\u{1b}[1mbold\u{1b}[0m"),
            "{drawn:?}"
        );
        let plain = below.repaint("", 80, false);
        assert!(
            plain.contains("x\\u{1b}[2J\\u{202e}bold") && !plain.contains("\u{1b}[1m"),
            "{plain:?}"
        );
    }
}

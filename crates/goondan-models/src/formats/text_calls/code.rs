//! Code blocks of Markdown, in which no call counts.

/// Marks that begin or end a code block.
const MIN_MARKS: usize = 3;

/// Position in a Markdown text, which arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct CodePosition {
    /// Fence of the open code block.
    open: Option<Fence>,
    line: Line,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: u8,
    length: usize,
}

/// Part of a line up to the position.
#[derive(Debug, Default)]
enum Line {
    /// White space.
    #[default]
    Start,
    /// Marks that may become a fence.
    Marks(Fence),
    /// A fence and text after it.
    Fence {
        fence: Fence,
        is_blank: bool,
        has_backtick: bool,
    },
    Other,
}

impl CodePosition {
    /// Moves to the end of `text`.
    pub(super) fn advance(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.advance_byte(byte));
    }

    /// Moves over a character that belongs to no fence.
    pub(super) fn leave_line_start(&mut self) {
        self.advance_byte(b'x');
    }

    /// Returns whether the position is in a code block, or in the line that begins one.
    pub(super) fn is_inside(&self) -> bool {
        let is_fence = match &self.line {
            Line::Marks(fence) => fence.length >= MIN_MARKS,
            Line::Fence { .. } => true,
            Line::Start | Line::Other => false,
        };
        self.open.is_some() || is_fence
    }

    fn advance_byte(&mut self, byte: u8) {
        if byte == b'\n' {
            self.end_line();
            return;
        }
        match &mut self.line {
            Line::Start => match byte {
                b'`' | b'~' => {
                    self.line = Line::Marks(Fence {
                        mark: byte,
                        length: 1,
                    })
                }
                _ if byte.is_ascii_whitespace() => {}
                _ => self.line = Line::Other,
            },
            Line::Marks(fence) if fence.mark == byte => fence.length += 1,
            Line::Marks(fence) if fence.length < MIN_MARKS => self.line = Line::Other,
            Line::Marks(fence) => {
                let is_blank = byte.is_ascii_whitespace();
                self.line = Line::Fence {
                    fence: *fence,
                    is_blank,
                    has_backtick: byte == b'`',
                };
            }
            Line::Fence {
                is_blank,
                has_backtick,
                ..
            } => {
                *is_blank &= byte.is_ascii_whitespace();
                *has_backtick |= byte == b'`';
            }
            Line::Other => {}
        }
    }

    /// A block ends with at least as many marks as it began with. Backticks after the marks are code within a line.
    fn end_line(&mut self) {
        let (fence, is_blank, has_backtick) = match std::mem::take(&mut self.line) {
            Line::Marks(fence) if fence.length >= MIN_MARKS => (fence, true, false),
            Line::Fence {
                fence,
                is_blank,
                has_backtick,
            } => (fence, is_blank, has_backtick),
            _ => return,
        };
        match self.open {
            None if fence.mark != b'`' || !has_backtick => self.open = Some(fence),
            Some(open) if open.mark == fence.mark && open.length <= fence.length && is_blank => {
                self.open = None;
            }
            _ => {}
        }
    }
}

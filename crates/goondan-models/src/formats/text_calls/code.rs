//! Code blocks of Markdown, in which no call counts.

/// Marks that begin or end a code block.
const MIN_MARKS: usize = 3;

/// Position in a Markdown text, which arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct CodePosition {
    /// Fence of the open code block.
    open: Option<CodeFence>,
    line: LinePrefix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CodeFence {
    mark: u8,
    length: usize,
}

/// Part of a line up to the position.
#[derive(Debug, Default)]
enum LinePrefix {
    /// White space.
    #[default]
    Start,
    /// Marks that may become a fence.
    Marks(CodeFence),
    /// A fence and text after it.
    Fence {
        fence: CodeFence,
        /// True if the text after the fence is white space.
        is_blank: bool,
        /// True if the text after the fence contains a backtick.
        has_backtick: bool,
    },
    /// Text without a fence.
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

    /// Returns true if the position is in a code block, or in the line that begins one.
    pub(super) fn is_inside(&self) -> bool {
        let is_fence = match &self.line {
            LinePrefix::Marks(fence) => fence.length >= MIN_MARKS,
            LinePrefix::Fence { .. } => true,
            LinePrefix::Start | LinePrefix::Other => false,
        };
        self.open.is_some() || is_fence
    }

    /// Moves over one byte. Fences consist of ASCII characters, so multibyte characters need no
    /// decoding.
    fn advance_byte(&mut self, byte: u8) {
        if byte == b'\n' {
            self.end_line();
            return;
        }
        match &mut self.line {
            LinePrefix::Start => {
                if matches!(byte, b'`' | b'~') {
                    self.line = LinePrefix::Marks(CodeFence {
                        mark: byte,
                        length: 1,
                    });
                } else if !byte.is_ascii_whitespace() {
                    self.line = LinePrefix::Other;
                }
            }
            LinePrefix::Marks(fence) => {
                if fence.mark == byte {
                    fence.length += 1;
                } else if fence.length < MIN_MARKS {
                    self.line = LinePrefix::Other;
                } else {
                    self.line = LinePrefix::Fence {
                        fence: *fence,
                        is_blank: byte.is_ascii_whitespace(),
                        has_backtick: byte == b'`',
                    };
                }
            }
            LinePrefix::Fence {
                is_blank,
                has_backtick,
                ..
            } => {
                *is_blank &= byte.is_ascii_whitespace();
                *has_backtick |= byte == b'`';
            }
            LinePrefix::Other => {}
        }
    }

    /// A block ends with at least as many marks as it began with. Backticks after the marks are code within a line.
    fn end_line(&mut self) {
        let (fence, is_blank, has_backtick) = match std::mem::take(&mut self.line) {
            LinePrefix::Marks(fence) if fence.length >= MIN_MARKS => (fence, true, false),
            LinePrefix::Fence {
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

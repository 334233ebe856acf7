//! Texts that attack a terminal, and a check of terminal output.

/// Control sequences and invisible characters. `gdn` itself writes none of them.
const HOSTILE_SEQUENCES: [&str; 56] = [
    "\u{1b}[2J",
    "\u{1b}[H",
    "\u{1b}[5A",
    "\u{1b}[1000D",
    "\u{1b}[8m",
    "\u{1b}[30;40m",
    "\u{1b}[38;2;0;0;0m",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://evil\u{1b}\\",
    "\u{1b}]52;c;aGk=\u{7}",
    "\u{1b}c",
    "\u{1b}7",
    "\u{1b}P+q\u{1b}\\",
    "\u{1b}[?1049h",
    "\u{1b}[6n",
    "\u{1b}",
    "\u{9b}2J",
    "\u{9d}0;t\u{9c}",
    "\u{90}q\u{9c}",
    "\u{85}",
    "\u{7}",
    "\u{8}\u{8}\u{8}",
    "\u{b}",
    "\u{c}",
    "\u{e}",
    "\r",
    "\u{7f}",
    "\u{ad}",
    "\u{34f}",
    "\u{61c}",
    "\u{115f}",
    "\u{1160}",
    "\u{17b4}",
    "\u{180e}",
    "\u{200b}",
    "\u{200c}",
    "\u{200d}",
    "\u{200e}",
    "\u{200f}",
    "\u{2028}",
    "\u{2029}",
    "\u{202a}\u{202c}",
    "\u{202d}",
    "\u{202e}",
    "\u{2060}",
    "\u{2064}",
    "\u{2066}\u{2069}",
    "\u{2067}",
    "\u{206a}",
    "\u{2800}",
    "\u{3164}",
    "\u{fe00}",
    "\u{feff}",
    "\u{ffa0}",
    "\u{e0041}\u{e007f}",
    "\u{1d173}",
];

/// Returns 224 texts: each sequence in four places.
pub(crate) fn hostile_texts() -> Vec<String> {
    let places = |sequence: &&str| {
        let sequence = *sequence;
        [
            format!("{sequence}key"),
            format!("key{sequence}"),
            format!("a{sequence}b{sequence}"),
            format!("x\nerror[E]: {sequence}y"),
        ]
    };
    HOSTILE_SEQUENCES.iter().flat_map(places).collect()
}

/// Sequences that `gdn` writes for styles, the status line and the prompt.
const OWN_SEQUENCES: &str = "[0m [1m [2m [4m [31m [32m [33m [36m [91m [93m [94m [96m [2K [K [J [1A [1B [3C [60C [?25l [?25h \
                    [?2004h [?2004l [?2026h [?2026l";

/// Asserts that `output` contains only visible text, line ends, tabs and the sequences of `gdn`.
#[track_caller]
pub(crate) fn assert_harmless(output: &str) {
    let mut rest = output.to_owned();
    for own in OWN_SEQUENCES.split(' ') {
        rest = rest.replace(&format!("\u{1b}{own}"), "");
    }
    // Terminals end lines with CR and LF, and the status line starts with CR.
    let found = rest
        .chars()
        .enumerate()
        .find(|&(_, c)| is_hidden(c) && !matches!(c, '\n' | '\t' | '\r'));
    if let Some((at, c)) = found {
        let around: String = rest.chars().skip(at.saturating_sub(60)).take(120).collect();
        panic!("{c:?} is not escaped in {around:?}");
    }
}

/// Returns true for hidden characters. The list is separate from the tested list of the program.
fn is_hidden(c: char) -> bool {
    matches!(u32::from(c),
        0..=0x1f | 0x7f..=0x9f | 0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f
        | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x2800 | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0
        | 0xfff9..=0xfffb | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

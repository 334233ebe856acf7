//! Makes up command lines.

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng};

/// What stands for itself, or nearly.
const WORDS: [&str; 30] = [
    "p1", "p2", "p2 a", "p3", "a", "a1", "*", "?1", "d/*", "*/*", ".h", "-n", "fail", "x=y", "A=1",
    "A=", "1", "2", "{}", "[", "]", "!", "#", "a#b", "b~", "d", "d/e", "..", ".", "zz*",
];

/// What a shell gives a meaning to.
const SIGNS: [&str; 44] = [
    " ", "  ", "\t", "\n", ";", ";;", "&", "&&", "|", "||", "|&", "(", ")", "{", "}", "<", ">",
    ">>", "<<", ">|", "<>", ">&", "2>&1", "1>&2", "2>", "$", "$(", "\"$(", ")\"", "`", "'", "\"",
    "\\", "\\\\", "\\\"", "\\\n", "$A", "${A}", "~", "*", "?", "[ab]1", "$'a'", "#",
];

/// Commands of the shell itself.
const SHELL: [&str; 14] = [
    "eval",
    "exec",
    "set",
    "if",
    "then",
    "fi",
    "while",
    "case",
    "cd d",
    "cd ..",
    "cd d/e",
    "command",
    "time",
    "export A=2",
];

pub(super) struct Generator(SmallRng);

impl Generator {
    pub(super) fn new(seed: u64) -> Generator {
        Generator(SmallRng::seed_from_u64(seed))
    }

    /// A line: mostly one of the small grammar, often with something wrong in it.
    pub(super) fn line(&mut self) -> String {
        let mut line = self.list(2);
        for _ in 0..self.below(4) {
            self.spoil(&mut line);
        }
        line
    }

    /// Whether nobody knows what comes of the line: commands that run at the same time may write what others of them read.
    pub(super) fn is_open(line: &str) -> bool {
        let pipes = line.replace("||", "").contains('|');
        let writes = line
            .replace("2>&1", "")
            .replace("1>&2", "")
            .replace(">&2", "")
            .contains('>');
        let names = ["a1", "b1", "new", "q r", ".h", "2"];
        // `gdn` opens no folder to read it, where a shell opens it, goes on, and can't read it then.
        if ["< d", "<d", "< 'd", "<'d", "< .", "<.", "<\"d", "<\td"]
            .iter()
            .any(|folder| line.contains(folder))
        {
            return true;
        }
        // Who of those that share a stream writes first is open, too.
        let shares = line.contains(">&") && line.contains('(');
        let twice = names.iter().any(|name| line.matches(name).count() > 1);
        pipes && (shares || (writes && (line.contains(['*', '?']) || twice)))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    /// Puts something in, takes something out, or doubles it.
    fn spoil(&mut self, line: &mut String) {
        let places: Vec<usize> = line
            .char_indices()
            .map(|(at, _)| at)
            .chain([line.len()])
            .collect();
        let at = places[self.below(places.len())];
        match self.below(8) {
            0 => {
                line.drain(at..).next();
            }
            1 if at < line.len() => {
                line.remove(at);
            }
            2 => {
                let word = self.one(&SHELL);
                line.insert_str(at, &format!(" {word} "));
            }
            3 => {
                let word = self.one(&WORDS);
                line.insert_str(at, word);
            }
            _ => {
                let sign = self.one(&SIGNS);
                line.insert_str(at, sign);
            }
        }
    }

    fn list(&mut self, depth: usize) -> String {
        let mut line = self.pipeline(depth);
        for _ in 0..self.below(3) {
            let sign = self.one(&[";", " && ", " || ", "\n", "; ", "&&", "||", " ;"]);
            line = format!("{line}{sign}{}", self.pipeline(depth));
        }
        line
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut line = self.command(depth);
        for _ in 0..self.below(6) / 4 {
            let sign = self.one(&["|", " | ", "|\n"]);
            line = format!("{line}{sign}{}", self.command(depth));
        }
        line
    }

    fn command(&mut self, depth: usize) -> String {
        match self.below(12) {
            0 if depth > 0 => format!("({}){}", self.list(depth - 1), self.redirect()),
            1 if depth > 0 => format!("sh -c '{}'", self.list(depth - 1).replace('\'', "")),
            2 => self
                .one(&["cd d", "cd d/e", "cd ..", "cd nowhere", "cd .", "cd 'd'"])
                .to_owned(),
            3 => format!(
                "A={} p2 {}",
                self.one(&["1", "'a b'", "\"c\"", "", "x\\ y"]),
                self.words(depth)
            ),
            _ => format!(
                "{} {}{}",
                self.one(&["p1", "p2", "'p1'", "p\\2", "p1"]),
                self.words(depth),
                self.redirect()
            ),
        }
    }

    fn words(&mut self, depth: usize) -> String {
        let count = 1 + self.below(3);
        (0..count)
            .map(|_| self.word(depth))
            .collect::<Vec<_>>()
            .join(self.one(&[" ", "  ", "\t"]))
    }

    fn word(&mut self, depth: usize) -> String {
        match self.below(10) {
            0 => format!(
                "'{}{}'",
                self.one(&WORDS),
                self.one(&SIGNS).replace('\'', "")
            ),
            1 => format!(
                "\"{}{}\"",
                self.one(&WORDS),
                self.one(&[" ", "\\\\", "\\\"", "\\a", "'", ";", "|", "\n", "*", "\\$"])
            ),
            2 => format!(
                "{}\\{}",
                self.one(&WORDS),
                self.one(&[" ", ";", "\\", "*", "'", "\"", "#", "&", "|", "$", "a"])
            ),
            3 if depth > 0 => {
                format!(
                    "\"{}$({}){}\"",
                    self.one(&["", "a ", "x"]),
                    self.list(depth - 1),
                    self.one(&["", "b"])
                )
            }
            4 => format!("{}{}", self.one(&WORDS), self.one(&WORDS)),
            _ => self.one(&WORDS).to_owned(),
        }
    }

    /// No folder is among the files: a shell opens one to read it, and then can't.
    fn redirect(&mut self) -> String {
        match self.below(6) {
            0 => {
                let sign = self.one(&[
                    ">", ">>", "<", "2>", "2>>", "> ", "< ", "1>", "0<", " >", "3>",
                ]);
                format!(
                    " {sign}{}",
                    self.one(&[
                        "a1",
                        "b1",
                        "new",
                        "d/new",
                        "/dev/null",
                        "nowhere/x",
                        "'q r'",
                        "2",
                        ".h"
                    ])
                )
            }
            1 => self
                .one(&[" 2>&1", " >&2", " 1>&2", " 2>&1 >new", " >new 2>&1"])
                .to_owned(),
            _ => String::new(),
        }
    }
}

//! Doing every certain fix of a bundle, again and again, until nothing is left to do.
//!
//! Nothing is written here: what comes out are texts. A fix that does not end its own mistake, or after which the file is no
//! YAML, is left out.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Diagnostic};
use crate::files::{FileKind, Files};
use crate::fix::{Fix, apply};
use crate::load::{LoadInput, load_again};
use crate::paths::MAX_FILE_SIZE;
use crate::read::KnownFiles;

/// A fix may uncover a mistake that has a fix of its own. So often that is followed.
const MAX_ROUNDS: usize = 16;
/// What some editors put before a text. Places do not count it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A file that was repaired.
#[derive(Debug, Clone)]
pub struct Repair {
    /// Relative to the bundle.
    pub file: String,
    /// Its text as it is.
    pub before: String,
    /// Its text without the mistakes.
    pub after: String,
    /// The mistakes, each with the fix that was done and the place that it had then.
    pub done: Vec<Diagnostic>,
}

/// What the certain fixes make of the files of a bundle.
pub fn repair(input: LoadInput<'_>) -> Vec<Repair> {
    let mut work = Work {
        input,
        edited: Edited {
            files: input.files,
            texts: HashMap::new(),
        },
        known: KnownFiles::default(),
        repairs: BTreeMap::new(),
    };
    for _ in 0..MAX_ROUNDS {
        if !work.round() {
            break;
        }
    }
    work.repairs.into_values().collect()
}

struct Work<'f> {
    input: LoadInput<'f>,
    edited: Edited<'f>,
    known: KnownFiles,
    repairs: BTreeMap<String, Repair>,
}

impl Work<'_> {
    /// Does what can be done at once. False where that was nothing.
    fn round(&mut self) -> bool {
        let mut by_file: BTreeMap<String, Vec<Diagnostic>> = BTreeMap::new();
        for diagnostic in self.problems() {
            if let (Some(file), true) = (&diagnostic.file, certain(&diagnostic).is_some()) {
                by_file.entry(file.clone()).or_default().push(diagnostic);
            }
        }
        let mut found_any = false;
        for (file, diagnostics) in by_file {
            found_any |=
                self.attempt(&file, &diagnostics) || self.attempt_each(&file, &diagnostics);
        }
        found_any
    }

    /// Does those fixes that make it better by themselves.
    fn attempt_each(&mut self, file: &str, diagnostics: &[Diagnostic]) -> bool {
        let mut found_any = false;
        for one in diagnostics {
            found_any |= self.attempt(file, std::slice::from_ref(one));
        }
        found_any
    }

    fn problems(&self) -> Vec<Diagnostic> {
        load_again(
            LoadInput {
                files: &self.edited,
                ..self.input
            },
            &self.known,
        )
        .diagnostics
    }

    /// Does the fixes of `diagnostics`, which are about `file`, if that makes it better.
    fn attempt(&mut self, file: &str, diagnostics: &[Diagnostic]) -> bool {
        let path = self.input.root.join(file);
        let Some(whole) = self.edited.text(&path) else {
            return false;
        };
        let text = whole.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&whole);
        let (after, done) = apply(text, diagnostics.iter().filter_map(certain));
        if done.is_empty() {
            return false;
        }
        let done: Vec<Diagnostic> = diagnostics
            .iter()
            .filter(|one| {
                certain(one).is_some_and(|fix| done.iter().any(|other| std::ptr::eq(*other, fix)))
            })
            .cloned()
            .collect();
        let mark = &whole[..whole.len() - text.len()];
        self.edited
            .texts
            .insert(path.clone(), format!("{mark}{after}"));
        if !self.is_better(file, &done) {
            self.edited.texts.insert(path, whole);
            return false;
        }
        let repair = self.repairs.entry(file.to_owned());
        let repair = repair.or_insert_with(|| Repair {
            file: file.to_owned(),
            before: whole.clone(),
            after: String::new(),
            done: Vec::new(),
        });
        repair.after = format!("{mark}{after}");
        repair.done.extend(done);
        true
    }

    /// Whether the file is still YAML, and none of the mistakes is in it any more.
    fn is_better(&self, file: &str, done: &[Diagnostic]) -> bool {
        let is_same = |now: &Diagnostic| {
            done.iter().any(|one| {
                (one.code, &one.field, &one.message) == (now.code, &now.field, &now.message)
            }) && done.iter().any(|one| one.resource == now.resource)
        };
        let now = self.problems();
        let mut here = now.iter().filter(|now| now.file.as_deref() == Some(file));
        !here.any(|now| now.code == Code::PARSE_ERROR || is_same(now))
    }
}

fn certain(diagnostic: &Diagnostic) -> Option<&Fix> {
    diagnostic.fix.as_deref().filter(|fix| fix.certain)
}

/// The files with what has been edited so far.
struct Edited<'f> {
    files: &'f dyn Files,
    texts: HashMap<PathBuf, String>,
}

impl Edited<'_> {
    fn text(&self, path: &Path) -> Option<String> {
        String::from_utf8(self.read(path, MAX_FILE_SIZE).ok()?).ok()
    }
}

impl Files for Edited<'_> {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        self.files.kind(path)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        match self.texts.get(path) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => self.files.read(path, limit),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.files.list(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.files.canonical(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::BasePackage;
    use crate::files::MemoryFiles;

    fn repaired(text: &str) -> Option<Repair> {
        let files = MemoryFiles::new().file("/p/goondan.yaml", text);
        let base = BasePackage::default();
        repair(LoadInput {
            root: Path::new("/p"),
            files: &files,
            base: &base,
        })
        .pop()
    }

    #[test]
    fn fixes_uncover_fixes_and_the_rest_stays() {
        let text = "\u{feff}kind: model # a kind\r\nmetadata: {nme: main}\r\nspec:\r\n  provider:   \"scripted\"\r\n  modle: 7\r\n";
        let repair = repaired(text).unwrap();
        let expected = "\u{feff}apiVersion: goondan.ai/v1\nkind: Model # a kind\r\nmetadata: {name: main}\r\nspec:\r\n  provider:   \"scripted\"\r\n  model: \"7\"\r\n";
        assert_eq!(repair.after, expected);
        assert_eq!((repair.before.as_str(), repair.done.len()), (text, 5));
        assert!(repaired(&repair.after).is_none());
    }

    #[test]
    fn what_would_break_a_file_is_left() {
        let text = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: a}\nspec: {provider: x, model: y, modle: z}\n";
        assert!(repaired(text).is_none());
        let both = text.replace("modle: z", "modle: z, optons: {}");
        assert!(
            repaired(&both)
                .unwrap()
                .after
                .contains("modle: z, options: {}")
        );
        assert!(repaired("a: [").is_none());
    }

    #[test]
    fn what_an_agent_may_do_is_left_to_people() {
        let text = "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: a}\nspec: {modelConfig: {modelRef: Model/m}, permissions: {default: alow}}\n---\napiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: x, model: y}\n";
        assert!(repaired(text).is_none());
    }
}

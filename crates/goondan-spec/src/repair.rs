//! Applies all safe fixes of a bundle repeatedly until none is left.
//!
//! Returns the new file contents and writes nothing. A fix is skipped if its error remains after
//! it, or if it makes the file invalid YAML.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Diagnostic};
use crate::files::{FileAccess, FileKind};
use crate::fix::{Fix, apply};
use crate::load::{LoadInput, load_again};
use crate::parsed_file::KnownFiles;
use crate::paths::MAX_FILE_BYTES;

/// Maximum number of rounds. A fix may uncover an error that has its own fix.
const MAX_REPAIR_ROUNDS: usize = 16;
/// Optional prefix that some editors write. Positions do not count it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// File with applied fixes.
#[derive(Debug, Clone)]
pub struct RepairedFile {
    /// Path relative to the bundle.
    pub file: String,
    /// Original content.
    pub before: String,
    /// Content with the fixes applied.
    pub after: String,
    /// Fixed diagnostics with their fixes and their positions at that time.
    pub done: Vec<Diagnostic>,
}

/// Applies all safe fixes to the files of a bundle and returns the changed files.
pub fn repair(input: LoadInput<'_>) -> Vec<RepairedFile> {
    let mut work = RepairRun {
        input,
        edited: EditedFiles {
            files: input.files,
            texts: HashMap::new(),
        },
        known: KnownFiles::default(),
        repairs: BTreeMap::new(),
    };
    for _ in 0..MAX_REPAIR_ROUNDS {
        if !work.apply_fixes_once() {
            break;
        }
    }
    work.repairs.into_values().collect()
}

struct RepairRun<'f> {
    input: LoadInput<'f>,
    edited: EditedFiles<'f>,
    known: KnownFiles,
    repairs: BTreeMap<String, RepairedFile>,
}

impl RepairRun<'_> {
    /// Applies the fixes of the current diagnostics. Returns false if there was nothing to do.
    fn apply_fixes_once(&mut self) -> bool {
        let mut diagnostics_by_file: BTreeMap<String, Vec<Diagnostic>> = BTreeMap::new();
        for diagnostic in self.load_diagnostics() {
            if let (Some(file), true) = (&diagnostic.file, safe_fix(&diagnostic).is_some()) {
                diagnostics_by_file
                    .entry(file.clone())
                    .or_default()
                    .push(diagnostic);
            }
        }
        let mut found_any = false;
        for (file, diagnostics) in diagnostics_by_file {
            found_any |= self.try_fixes(&file, &diagnostics)
                || self.try_fixes_one_by_one(&file, &diagnostics);
        }
        found_any
    }

    /// Tries the fix of each diagnostic separately; returns true if one was applied. Begins at the
    /// end of the file, so that an applied fix does not move the places of later ones.
    fn try_fixes_one_by_one(&mut self, file: &str, diagnostics: &[Diagnostic]) -> bool {
        let mut found_any = false;
        let start = |diagnostic: &&Diagnostic| {
            let edits = safe_fix(diagnostic).map(|fix| fix.edits.as_slice());
            edits.and_then(|edits| edits.iter().map(|edit| edit.start).min())
        };
        let mut from_the_end: Vec<&Diagnostic> = diagnostics.iter().collect();
        from_the_end.sort_by_key(|diagnostic| Reverse(start(diagnostic)));
        for diagnostic in from_the_end {
            found_any |= self.try_fixes(file, std::slice::from_ref(diagnostic));
        }
        found_any
    }

    /// Loads the edited project and returns its diagnostics, and its fields under older names.
    fn load_diagnostics(&self) -> Vec<Diagnostic> {
        let input = LoadInput {
            files: &self.edited,
            ..self.input
        };
        let loaded = load_again(input, &self.known);
        let renames = loaded.renames.into_iter();
        loaded.diagnostics.into_iter().chain(renames).collect()
    }

    /// Applies the fixes of `diagnostics`, all in `file`, and reverts them if the result is not
    /// better.
    fn try_fixes(&mut self, file: &str, diagnostics: &[Diagnostic]) -> bool {
        let path = self.input.root.join(file);
        let Some(whole) = self.edited.text(&path) else {
            return false;
        };
        let text = whole.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&whole);
        let (after, done) = apply(text, diagnostics.iter().filter_map(safe_fix));
        if done.is_empty() {
            return false;
        }
        let done: Vec<Diagnostic> = diagnostics
            .iter()
            .filter(|diagnostic| {
                safe_fix(diagnostic)
                    .is_some_and(|fix| done.iter().any(|other| std::ptr::eq(*other, fix)))
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
        let repair = repair.or_insert_with(|| RepairedFile {
            file: file.to_owned(),
            before: whole.clone(),
            after: String::new(),
            done: Vec::new(),
        });
        repair.after = format!("{mark}{after}");
        repair.done.extend(done);
        true
    }

    /// Returns true if the file is still YAML and none of the fixed errors remains.
    fn is_better(&self, file: &str, done: &[Diagnostic]) -> bool {
        let is_same = |now: &Diagnostic| {
            done.iter().any(|one| {
                (one.code, &one.field, &one.message) == (now.code, &now.field, &now.message)
            }) && done.iter().any(|one| one.resource == now.resource)
        };
        let now = self.load_diagnostics();
        let mut in_file = now.iter().filter(|now| now.file.as_deref() == Some(file));
        !in_file.any(|now| now.code == Code::PARSE_ERROR || is_same(now))
    }
}

/// Returns the fix of a diagnostic if it is safe; else `None`.
fn safe_fix(diagnostic: &Diagnostic) -> Option<&Fix> {
    diagnostic.fix.as_deref().filter(|fix| fix.certain)
}

/// File system with the edits so far.
struct EditedFiles<'f> {
    files: &'f dyn FileAccess,
    texts: HashMap<PathBuf, String>,
}

impl EditedFiles<'_> {
    /// Returns the edited text of a file; `None` if it cannot be read.
    fn text(&self, path: &Path) -> Option<String> {
        String::from_utf8(self.read(path, MAX_FILE_BYTES).ok()?).ok()
    }
}

impl FileAccess for EditedFiles<'_> {
    fn kind(&self, path: &Path) -> io::Result<FileKind> {
        self.files.kind(path)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        match self.texts.get(path) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => self.files.read(path, limit),
        }
    }

    fn list_directory(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.files.list_directory(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.files.canonicalize(path)
    }

    fn metadata(&self, path: &Path) -> Option<Metadata> {
        self.files.metadata(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base_package::BasePackage;
    use crate::files::MemoryFiles;

    fn repaired(text: &str) -> Option<RepairedFile> {
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
    fn fixes_are_repeated_and_other_text_is_unchanged() {
        let text = "\u{feff}kind: model # a kind\r\nmetadata: {nme: main}\r\nspec:\r\n  \
            provider:   \"scripted\"\r\n  modle: 7\r\n";
        let repair = repaired(text).unwrap();
        let expected = "\u{feff}apiVersion: goondan.ai/v1\r\nkind: Model # a kind\r\nmetadata: \
            {name: main}\r\nspec:\r\n  provider:   \"scripted\"\r\n  model: \"7\"\r\n";
        assert_eq!(repair.after, expected);
        assert_eq!((repair.before.as_str(), repair.done.len()), (text, 5));
        assert!(repaired(&repair.after).is_none());
    }

    #[test]
    fn a_fix_that_would_break_a_file_is_skipped() {
        let text = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: a}\nspec: {provider: \
            x, model: y, modle: z}\n";
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
    fn permissions_are_not_fixed_automatically() {
        let text = "apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {name: a}\nspec: \
            {modelConfig: {modelRef: Model/m}, permissions: {default: alow}}\n---\napiVersion: \
            goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: x, model: y}\n";
        assert!(repaired(text).is_none());
    }
}

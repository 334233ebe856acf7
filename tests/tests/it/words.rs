//! Measures comments, names and formatting of the production code, so that they stay readable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// Measured values that may only fall. A bound that is not reached yet has its current value here.
///
/// To lower a value, run the test with `UPDATE_WORDS=1`.
const BASELINE: &str = "words-baseline.json";

static QUESTION_OPENING: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(What|Who|Whoever|Whom|Whose|Whether|Whatever|Where|That|Those|Of|So many|How|As)\b",
    )
});
static PERSONAL_PRONOUN: LazyLock<Regex> =
    LazyLock::new(|| expression(r"(?i)\b(nobody|somebody|everybody|whoever|whom|he|him)\b"));
static SPEECH: LazyLock<Regex> = LazyLock::new(|| {
    expression(r"(?i)\b(is|are|was|were|be|been) told\b|\b(tells|hears|promises)\b")
});
static POSTURE: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"(?i)\b(stands|lies|rests|sits) (in|at|on|for|still|behind|beside|there)\b|\bgo(es)? on\b",
    )
});
static BOOKISH_ADVERB: LazyLock<Regex> = LazyLock::new(|| {
    expression(r"(?i)\b(anew|meanwhile|thereby|therein|beside|all the same)\b|, too\.")
});
static METAPHOR: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        "(^|_)(desk|desks|ears|lane|lanes|shelf|outfit|misfits|crew|postbox|letters?|hold|pen|roster|seat|course|polite|\
         farewell|patience|strangers?|beneath|beside|elsewhere|retyped|attentive|wants?|notebook|journalist|teller|press)(_|$)",
    )
});
static TYPE_DEFINITION: LazyLock<Regex> = LazyLock::new(|| {
    expression(r"^(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait|union)\s+([A-Z]\w*)")
});
static COMMENT: LazyLock<Regex> = LazyLock::new(|| expression(r"^//[/!]?\s?(.*)"));
static CAPITALIZED_WORD: LazyLock<Regex> = LazyLock::new(|| expression("[A-Z][a-z0-9]*"));

fn expression(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// Counts of one pass over the production code.
#[derive(Default)]
struct WordCounts {
    code_lines: usize,
    long_lines: usize,
    comment_words: usize,
    doc_comments: usize,
    question_openings: usize,
    phrases: BTreeMap<&'static str, usize>,
    type_names: BTreeMap<String, usize>,
    metaphor_files: Vec<PathBuf>,
}

impl WordCounts {
    fn add_file(&mut self, path: &Path) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if METAPHOR.is_match(name) {
            self.metaphor_files.push(path.to_owned());
        }
        let mut is_inside_doc = false;
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let trimmed = line.trim();
            if let Some(comment) = COMMENT.captures(trimmed) {
                let is_doc = trimmed.starts_with("///") || trimmed.starts_with("//!");
                self.add_comment(&comment[1], is_doc && !is_inside_doc);
                is_inside_doc = is_doc;
                continue;
            }
            is_inside_doc = false;
            if !trimmed.is_empty() {
                self.add_code(line, trimmed);
            }
        }
    }

    fn add_comment(&mut self, text: &str, begins_doc: bool) {
        self.comment_words += text.split_whitespace().count();
        if begins_doc {
            self.doc_comments += 1;
            self.question_openings += usize::from(QUESTION_OPENING.is_match(text));
        }
        let rules = [
            ("personalPronouns", &PERSONAL_PRONOUN),
            ("speechVerbs", &SPEECH),
            ("postureVerbs", &POSTURE),
            ("bookishAdverbs", &BOOKISH_ADVERB),
        ];
        for (name, rule) in rules {
            *self.phrases.entry(name).or_default() += rule.find_iter(text).count();
        }
    }

    fn add_code(&mut self, line: &str, trimmed: &str) {
        self.code_lines += 1;
        self.long_lines += usize::from(line.chars().count() > 100);
        if let Some(definition) = TYPE_DEFINITION.captures(trimmed) {
            *self.type_names.entry(definition[1].to_owned()).or_default() += 1;
        }
    }

    /// Returns each measure with its value and its bound.
    fn measures(&self) -> BTreeMap<&'static str, (f64, f64)> {
        let share = |part: usize, whole: usize, scale: f64| scale * part as f64 / whole as f64;
        let is_one_word = |name: &&String| CAPITALIZED_WORD.find_iter(name).count() == 1;
        let one_word = self.type_names.keys().filter(is_one_word).count();
        let shared = self.type_names.values().filter(|count| **count > 1).sum();
        let definitions = self.type_names.values().sum();
        let mut measures = BTreeMap::from([
            (
                "questionOpenings",
                (share(self.question_openings, self.doc_comments, 100.0), 3.0),
            ),
            (
                "oneWordTypes",
                (share(one_word, self.type_names.len(), 100.0), 25.0),
            ),
            ("sharedTypeNames", (share(shared, definitions, 100.0), 25.0)),
            (
                "longLines",
                (share(self.long_lines, self.code_lines, 100.0), 0.3),
            ),
            ("metaphorFiles", (self.metaphor_files.len() as f64, 0.0)),
        ]);
        for (name, count) in &self.phrases {
            measures.insert(name, (share(*count, self.comment_words, 1000.0), 0.3));
        }
        measures
    }
}

fn production_files() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let is_test = |path: &Path| {
        let in_test_folder = path.components().any(|part| {
            ["tests", "benches", "examples", "fixtures"]
                .contains(&part.as_os_str().to_str().unwrap_or(""))
        });
        in_test_folder
            || path
                .to_str()
                .is_some_and(|path| path.ends_with("/tests.rs") || path.ends_with("_tests.rs"))
    };
    let walk = ignore::WalkBuilder::new(crates.join("crates")).build();
    let files = walk.map(|entry| entry.unwrap().into_path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter(|path| !is_test(path.strip_prefix(crates).unwrap()))
        .collect()
}

#[test]
fn comments_and_names_are_plain() {
    let mut counts = WordCounts::default();
    for file in production_files() {
        counts.add_file(&file);
    }
    let baseline_file = Path::new(env!("CARGO_MANIFEST_DIR")).join(BASELINE);
    let measures = counts.measures();
    if std::env::var_os("UPDATE_WORDS").is_some() {
        let rounded = |value: f64| (value * 100.0).ceil() / 100.0;
        let over = measures.iter().filter(|(_, (value, bound))| value > bound);
        let baseline: BTreeMap<_, _> = over
            .map(|(name, (value, _))| (*name, rounded(*value)))
            .collect();
        let text = serde_json::to_string_pretty(&baseline).unwrap() + "\n";
        std::fs::write(&baseline_file, text).unwrap();
    }
    let text = std::fs::read_to_string(&baseline_file).unwrap();
    let baseline: BTreeMap<String, f64> = serde_json::from_str(&text).unwrap();
    let too_high: Vec<String> = measures
        .iter()
        .filter_map(|(name, (value, bound))| {
            let limit = baseline.get(*name).copied().unwrap_or(*bound).max(*bound);
            (*value > limit).then(|| format!("{name}: {value:.2}, at most {limit:.2}"))
        })
        .collect();
    assert!(
        too_high.is_empty(),
        "see Style in CONTRIBUTING.md: {too_high:#?}\nfiles with metaphors for names: {:?}",
        counts.metaphor_files
    );
}

#[test]
fn each_rule_finds_its_phrase() {
    let mut counts = WordCounts::default();
    counts.add_comment(
        "What nobody tells: it stands in a file, and goes on anew.",
        true,
    );
    assert_eq!(counts.question_openings, 1);
    let found: Vec<_> = counts.phrases.values().copied().collect();
    assert_eq!(found, [1, 1, 2, 1]);
}

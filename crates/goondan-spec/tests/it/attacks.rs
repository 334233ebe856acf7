//! Hostile YAML, one row per attack: loading ends in time with a readable diagnostic.

use std::time::{Duration, Instant};

use super::support::{VALID_PROJECT, load_files};
use goondan_spec::MemoryFiles;
use goondan_spec::render::pretty;

/// Time limit per attack, also on a busy machine. Bounded work takes about a second; unbounded work
/// never ends.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Returns `levels` lists of `width` aliases to the previous list ("billion laughs").
fn nested_aliases(levels: usize, width: usize) -> String {
    let mut text = "a0: &a0 [x, x]\n".to_owned();
    for level in 1..=levels {
        let aliases = vec![format!("*a{}", level - 1); width].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    text
}

fn merges(levels: usize) -> String {
    let mut text = "a0: &a0 {x: 1}\n".to_owned();
    for level in 1..=levels {
        let before = level - 1;
        text.push_str(&format!(
            "a{level}: &a{level} {{<<: [*a{before}, *a{before}, *a{before}], y{level}: *a{before}}}\n"
        ));
    }
    text
}

fn indented(depth: usize) -> String {
    (0..depth)
        .map(|level| format!("{}k:\n", " ".repeat(level)))
        .collect()
}

fn model(rest: &str) -> Vec<u8> {
    format!("{VALID_PROJECT}\n---\napiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: evil}}\nspec:\n  provider: scripted\n  model: x\n{rest}").into_bytes()
}

fn utf16(text: &str, big: bool) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units
        .flat_map(|unit| {
            if big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        })
        .collect()
}

/// Returns the name and the manifest bytes of each attack.
fn attacks() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a billion laughs", nested_aliases(9, 9).into()),
        ("a billion laughs, wide", nested_aliases(3, 5_000).into()),
        ("a billion laughs, deep", nested_aliases(60, 2).into()),
        ("laughs inside a document", model(&format!("  options:\n{}", nested_aliases(9, 9).replace("a", "    a").replace("*    a", "*a").replace("&    a", "&a")))),
        ("merge keys that multiply", merges(30).into()),
        ("a merge of itself", "a: &a\n  <<: *a\n".into()),
        ("an alias of itself", "a: &a [*a]\n".into()),
        ("an alias before its anchor", "a: *b\nb: &b 1\n".into()),
        ("an anchor of another document", "a: &a 1\n---\nb: *a\n".into()),
        ("an anchor that is set twice", "a: &a 1\nb: &a 2\nc: *a\n".into()),
        ("a hundred thousand anchors", (0..100_000).map(|n| format!("k{n}: &a{n} x\n")).collect::<String>().into()),
        ("lists, deep", "[".repeat(100_000).into()),
        ("lists, deep and closed", ("[".repeat(10_000) + &"]".repeat(10_000)).into()),
        ("maps, deep", "{a: ".repeat(100_000).into()),
        ("maps as keys, deep", "? ".repeat(50_000).into()),
        ("dashes, deep", "- ".repeat(50_000).into()),
        ("indentation, deep", indented(3_000).into()),
        ("a list as a key", "? [a, b]\n: c\n".into()),
        ("a map as a key", "{{a: b}: c}\n".into()),
        ("a scalar of ten megabytes", format!("kind: {}\n", "x".repeat(10_000_000)).into()),
        ("a quoted scalar of ten megabytes", format!("kind: \"{}\"\n", "x".repeat(10_000_000)).into()),
        ("a quote that never ends", format!("kind: \"{}", "x ".repeat(500_000)).into()),
        ("a key of a megabyte", format!("{}: 1\n", "x".repeat(1_000_000)).into()),
        ("a quoted key of a megabyte", format!("\"{}\": 1\n", "x".repeat(1_000_000)).into()),
        ("a block of ten megabytes", format!("kind: |\n{}", "  x\n".repeat(2_500_000)).into()),
        ("a comment of ten megabytes", format!("# {}\n", "x".repeat(10_000_000)).into()),
        ("a million empty lines", ("\n".repeat(1_000_000) + "kind: x\n").into()),
        ("a million spaces", (" ".repeat(1_000_000) + "kind\n").into()),
        ("a hundred thousand documents", "---\na: 1\n".repeat(100_000).into()),
        ("a hundred thousand empty documents", "---\n".repeat(100_000).into()),
        ("a hundred thousand ends", ("...\n".repeat(100_000) + "kind: x\n").into()),
        ("a hundred thousand keys", (0..100_000).map(|n| format!("k{n}: 1\n")).collect::<String>().into()),
        ("a hundred thousand times one key", "k: 1\n".repeat(100_000).into()),
        ("a kind that is stated twice", format!("kind: Model\n{VALID_PROJECT}").into()),
        ("a name that is stated twice", model("").iter().copied().chain(*b"  model: y\n").collect()),
        ("a key that is stated twice in other quotes", "kind: Model\n\"kind\": Agent\n'kind': Swarm\n".into()),
        ("a key that an escape makes a second", "kind: Model\n\"\\x6bind\": Agent\n".into()),
        ("a resource that is stated twice", format!("{VALID_PROJECT}\n---\n{VALID_PROJECT}").into()),
        ("a merge over what is stated", "kind: Model\n<<: {kind: Agent}\n".into()),
        ("a tag that makes an object", "kind: !!python/object/apply:os.system [id]\n".into()),
        ("a tag of Ruby", "--- !ruby/object:Gem::Requirement\nkind: Model\n".into()),
        ("a tag of Java", "kind: !!javax.script.ScriptEngineManager [x]\n".into()),
        ("a tag that reads a file", "kind: !include /etc/passwd\n".into()),
        ("a tag of binary", "kind: !!binary aGk=\n".into()),
        ("a tag without end", format!("kind: !<{} x\n", "t".repeat(100_000)).into()),
        ("a directive of another version", "%YAML 9.9\n---\nkind: Model\n".into()),
        ("a directive that makes tags", "%TAG ! tag:evil,2000:\n---\nkind: !x Model\n".into()),
        ("ten thousand directives", ("%TAG !a! tag:x,2000:\n".repeat(10_000) + "---\na: 1\n").into()),
        ("UTF-16, little", utf16(VALID_PROJECT, false)),
        ("UTF-16, big", utf16(VALID_PROJECT, true)),
        ("Latin-1", b"kind: M\xf6del\n".to_vec()),
        ("letters that are too long", b"kind: \xc0\xaf\xe0\x80\xaf\n".to_vec()),
        ("half a pair", b"kind: \xed\xa0\x80\n".to_vec()),
        ("a letter that breaks off", b"kind: Model\xf0\x9f".to_vec()),
        ("bytes", (0..=255u8).cycle().take(100_000).collect()),
        ("NUL", b"kind: Mo\0del\n".to_vec()),
        ("NUL behind a document", [VALID_PROJECT.as_bytes(), b"\0\nkind: evil\n"].concat()),
        ("control characters", b"kind: \x07\x1b[2JModel\x7f\n".to_vec()),
        ("a BOM in the middle", format!("{VALID_PROJECT}\n---\n\u{feff}kind: evil\n").into()),
        ("two BOMs", "\u{feff}\u{feff}kind: evil\n".into()),
        ("a BOM in a key", "ki\u{feff}nd: Model\n".into()),
        ("tabs", "kind:\n\t- a\n\t- b\n".into()),
        ("tabs and spaces", "spec:\n  a: 1\n\tb: 2\n".into()),
        ("line ends of all kinds", "kind: Model\rmetadata: x\u{85}spec: y\u{2028}a: b\u{2029}".into()),
        ("letters that look like others", "kіnd: Model\nmetadata: {name: x}\n".into()),
        ("text from right to left", "kind: \u{202e}ledoM\nmetadata: {name: x}\n".into()),
        ("numbers that are none", "kind: .nan\nmetadata: {name: .inf}\nspec: 1e999999\n".into()),
        ("a number of a megabyte", format!("kind: {}\n", "9".repeat(1_000_000)).into()),
        ("the Norway problem", "kind: no\nmetadata: {name: on}\nspec: ~\n".into()),
        ("JSON with a comment", "{\"kind\": \"Model\" /* x */}\n".into()),
        ("a name that is a path", format!("{VALID_PROJECT}\n---\napiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: ../../evil}}\nspec: {{provider: scripted, model: x}}\n").into()),
        ("a name of a megabyte", format!("{VALID_PROJECT}\n---\napiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: {}}}\nspec: {{provider: scripted, model: x}}\n", "x".repeat(1_000_000)).into()),
    ]
}

#[test]
fn hostile_yaml_is_refused_in_time_with_a_clear_error() {
    let (mut slow, mut unclear) = (Vec::new(), Vec::new());
    let rows = attacks();
    let count = rows.len();
    for (name, bytes) in rows {
        let start = Instant::now();
        let loaded = load_files(&MemoryFiles::new().file("/p/goondan.yaml", bytes));
        let output = pretty(&loaded.diagnostics, &loaded.sources, false);
        if start.elapsed() > TIME_LIMIT {
            slow.push((name, start.elapsed()));
        }
        let has_error = loaded
            .diagnostics
            .iter()
            .any(|found| found.is_error() && !found.message.is_empty());
        if loaded.bundle.is_some()
            || !has_error
            || output.len() > 200_000
            || output.contains(['\u{7}', '\u{202e}'])
        {
            unclear.push((name, output.len(), loaded.bundle.is_some()));
        }
    }
    assert!(
        slow.is_empty() && unclear.is_empty(),
        "slow: {slow:?}, without a clear error: {unclear:#?}"
    );
    println!("attacks: hostile YAML: {count}, all refused in time");
}

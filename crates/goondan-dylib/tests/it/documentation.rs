//! Tests that the examples in docs/native-tools.md work.

use serde_json::json;

use crate::support::{Bench, compile_c, workspace};

/// Returns the first code block of a language in the page.
fn block(language: &str) -> String {
    let page = std::fs::read_to_string(workspace().join("docs/native-tools.md"))
        .expect("the page is there");
    let fence = format!("```{language}\n");
    let start = page.find(&fence).expect("there is such a block") + fence.len();
    let length = page[start..].find("```").expect("the block ends");
    page[start..start + length].to_owned()
}

#[test]
fn the_rust_example_is_the_example_plug_in() {
    let example =
        std::fs::read_to_string(workspace().join("examples/plugins/text-utils/src/lib.rs"))
            .expect("it is there");
    let (_, code) = example.split_once("\n\n").expect("a header and code");
    assert_eq!(block("rust"), code);
}

#[tokio::test]
async fn the_c_example_compiles_and_answers() {
    let bench = Bench::new();
    let source = bench.path("dice.c");
    // The page omits the pragma that silences warnings.
    std::fs::write(
        &source,
        format!(
            "#pragma GCC diagnostic ignored \"-Wunused-parameter\"\n{}",
            block("c")
        ),
    )
    .expect("written");
    compile_c(
        source.to_str().expect("UTF-8"),
        &[],
        &bench.path("libdice.so"),
    );
    let dice = bench.open("dice").await.expect("it opens");
    assert_eq!(
        dice.call("roll", json!({}))
            .await
            .expect("it answers")
            .output,
        json!({ "eyes": 4 })
    );
}

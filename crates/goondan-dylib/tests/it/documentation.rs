//! Tests that the examples in docs/native-tools.md work.

use serde_json::json;

use crate::support::{LibraryFixture, compile_c, workspace};

/// Returns the first code block of a language in the page.
fn block(language: &str) -> String {
    let page =
        std::fs::read_to_string(workspace().join("docs/native-tools.md")).expect("the page exists");
    let fence = format!("```{language}\n");
    let start = page
        .find(&fence)
        .expect("the page contains a block of this language")
        + fence.len();
    let length = page[start..].find("```").expect("the block ends");
    page[start..start + length].to_owned()
}

#[test]
fn the_rust_example_equals_the_example_plug_in() {
    let example =
        std::fs::read_to_string(workspace().join("examples/plugins/text-utils/src/lib.rs"))
            .expect("the file exists");
    let (_, code) = example.split_once("\n\n").expect("a header and code");
    assert_eq!(block("rust"), code);
}

#[tokio::test]
async fn the_c_example_compiles_and_runs() {
    let fixture = LibraryFixture::new();
    let source = fixture.path("dice.c");
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
        &fixture.path("libdice.so"),
    );
    let dice = fixture.open("dice").await.expect("the library opens");
    assert_eq!(
        dice.call("roll", json!({}))
            .await
            .expect("the call succeeds")
            .output,
        json!({ "eyes": 4 })
    );
}

//! Long trials of the whole product, in one program: each of their own would be a hundred megabytes.
//!
//! ```sh
//! cargo run -p goondan-tests --bin trials -- chaos --seconds N --seed S
//! tests/postgres.sh sh -c 'target/debug/trials chaos --nodes 3 --with everything --store "$GOONDAN_TEST_POSTGRES" --seconds N --seed S'
//! cargo run -p goondan-tests --bin trials -- lines --seconds N --seed S
//! cargo run -p goondan-tests --bin trials -- reloads --reloads N --instances N --versions N --seed S
//! cargo run -p goondan-tests --bin trials -- hosted --reloads N --calls N
//! cargo run -p goondan-tests --bin trials -- kills
//! cargo run --release -p goondan-tests --bin trials -- measure steps|turns|instances|reload COUNT
//! ```

use std::process::ExitCode;

#[allow(clippy::print_stderr, reason = "this is a program's shell")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let trial = arguments.next().unwrap_or_default();
    let arguments = arguments.collect();
    match trial.as_str() {
        "chaos" => goondan_tests::chaos::main(arguments),
        #[cfg(unix)]
        "lines" => goondan_tests::lines::main(arguments),
        "reloads" => goondan_tests::reloads::main(arguments),
        "hosted" => goondan_tests::hosted::main(arguments),
        #[cfg(unix)]
        "kills" => goondan_tests::kills::main(arguments),
        "measure" => goondan_tests::measure::main(arguments),
        _ => {
            eprintln!("usage: trials chaos|lines|reloads|hosted|kills|measure …");
            ExitCode::from(2)
        }
    }
}

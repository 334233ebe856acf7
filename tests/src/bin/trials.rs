//! Long trials of the whole product. One program contains all of them, because each program needs 100 MB.
//!
//! ```sh
//! cargo run -p goondan-tests --bin trials -- chaos --with everything --seconds N --seed S
//! tests/postgres.sh sh -c 'target/debug/trials chaos --nodes 3 --with everything --store "$GOONDAN_TEST_POSTGRES" --seconds N --seed S'
//! tests/postgres.sh sh -c 'target/release/trials failover --store "$GOONDAN_TEST_POSTGRES" --times N'
//! cargo run -p goondan-tests --bin trials -- lines --seconds N --seed S
//! cargo run -p goondan-tests --bin trials -- reloads --reloads N --instances N --versions N --seed S
//! cargo run -p goondan-tests --bin trials -- hosted --reloads N --calls N --between TURNS
//! cargo run -p goondan-tests --bin trials -- kills
//! cargo run -p goondan-tests --bin trials -- starts target/debug/gdn CONVERSATIONS TURNS ROUNDS
//! cargo run --release -p goondan-tests --bin trials -- measure steps|turns|instances|reload COUNT
//! ```

use std::process::ExitCode;

#[allow(clippy::print_stderr, reason = "output of the program")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let trial = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    let outcome = match trial.as_str() {
        #[cfg(unix)]
        "chaos" => goondan_tests::chaos::run(&arguments),
        #[cfg(unix)]
        "failover" => goondan_tests::failover::run(&arguments),
        #[cfg(unix)]
        "lines" => goondan_tests::lines::run(&arguments),
        "reloads" => goondan_tests::reloads::run(&arguments),
        "hosted" => goondan_tests::hosted::run(&arguments),
        #[cfg(unix)]
        "kills" => goondan_tests::kills::run(&arguments),
        "starts" => goondan_tests::starts::run(&arguments),
        "measure" => goondan_tests::measure::run(&arguments),
        _ => {
            eprintln!("usage: trials chaos|failover|lines|reloads|hosted|kills|starts|measure …");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{trial}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! Time limits of calls.

use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;

/// Largest accepted time limit: one day. A larger value suggests a wrong unit.
pub(super) const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Reads a time limit in milliseconds.
pub(super) fn read_timeout(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<u64> {
    let timeout = field.integer_at_least(1, findings)?;
    if timeout > MAX_TIMEOUT_MS {
        let message = format!("`{}` is {timeout} ms, more than a day.", field.path);
        findings.add(field.invalid_value(message).suggest("write at most `1d`"));
        return None;
    }
    Some(timeout)
}

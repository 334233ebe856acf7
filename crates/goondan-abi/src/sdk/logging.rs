//! Forwards the `log` crate: this library has its own copy of it, which the host never sees.

use super::panics;
use crate::wire::{JsonObject, LogLevel, LogLine};

struct Forward;

impl log::Log for Forward {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Debug
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = match record.level() {
            log::Level::Error => LogLevel::Error,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Info => LogLevel::Info,
            log::Level::Debug | log::Level::Trace => LogLevel::Debug,
        };
        let (message, target) = (record.args().to_string(), Some(record.target().to_owned()));
        panics::log(&LogLine {
            level,
            message,
            target,
            fields: JsonObject::new(),
        });
    }

    fn flush(&self) {}
}

/// Installs the forwarder, where the library has not installed a logger of its own.
pub(super) fn forward() {
    if log::set_logger(&Forward).is_ok() {
        log::set_max_level(log::LevelFilter::Debug);
    }
}

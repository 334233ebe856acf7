//! Forwards the `log` crate to the host, because the host cannot see this library's copy of it.

use super::panics;
use crate::wire::{JsonObject, LogLevel, LogLine};

struct LogForwarder;

impl log::Log for LogForwarder {
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

/// Installs the forwarder, unless the library has installed its own logger.
pub(super) fn forward() {
    if log::set_logger(&LogForwarder).is_ok() {
        log::set_max_level(log::LevelFilter::Debug);
    }
}

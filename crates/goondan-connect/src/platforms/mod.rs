//! Platforms with one file each, and the interface that all of them implement.

mod cli;
mod connector_kinds;
mod cron;
mod discord;
mod github;
mod platform_connector;
mod refusals;
mod request_body;
mod requests;
mod responses;
mod script;
mod slack;
mod telegram;
mod webhook;

pub(crate) use self::connector_kinds::make;
pub use self::connector_kinds::{needs_no_approval, sample};
pub(crate) use self::platform_connector::{IgnoredUpdate, ParsedRequest, PlatformConnector};
pub(crate) use self::request_body::{json_body, unreadable_body_response};
pub(crate) use self::requests::{accept_event, request};
pub(crate) use self::responses::{bad_request, header, unauthorized_response};

/// Formats text as a Markdown code block. Backticks that would end the block are escaped.
pub(crate) fn code_block(text: &str) -> String {
    format!("```\n{}\n```", text.replace("``", "`\\u{60}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_close_a_code_block() {
        for text in [
            "a",
            "```",
            "a ||`x`|| b",
            "``\n```\n````",
            "<!-- x -->",
            "`",
        ] {
            let block = code_block(text);
            let inside = block
                .strip_prefix("```\n")
                .and_then(|rest| rest.strip_suffix("\n```"))
                .unwrap();
            assert!(!inside.contains("``"), "{block}");
        }
        assert_eq!(code_block("``` x"), "```\n`\\u{60}` x\n```");
    }
}

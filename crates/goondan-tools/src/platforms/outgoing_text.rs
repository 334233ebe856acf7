//! Text that a tool sends: Markdown in the markup of the platform, or text as the model wrote it.

use goondan_core::ports::tool::HandlerError;
use goondan_markup::{MarkupFormat, messages};

use crate::errors;

/// Maximum number of messages of one call.
const MAX_MESSAGES: usize = 10;

/// Text of a call.
#[derive(Clone, Copy)]
pub(super) struct OutgoingText<'t> {
    pub(super) text: &'t str,
    /// The text already has the markup of the platform.
    pub(super) is_raw: bool,
    pub(super) format: &'static MarkupFormat,
    /// Turns escaped mentions of users and channels into mentions again.
    pub(super) with_mentions: fn(String) -> String,
}

impl OutgoingText<'_> {
    /// Returns the messages of the text. A long text is split at paragraphs, raw text is not.
    pub(super) fn messages(self) -> Result<Vec<String>, HandlerError> {
        if self.is_raw {
            return Ok(vec![self.text.to_owned()]);
        }
        let messages: Vec<String> = messages(self.text, self.format)
            .into_iter()
            .map(self.with_mentions)
            .collect();
        match messages.len() {
            0 => Err(errors::invalid_argument("`text` has no visible characters")),
            1..=MAX_MESSAGES => Ok(messages),
            count => Err(errors::invalid_argument(format!(
                "`text` needs {count} messages; a call sends at most {MAX_MESSAGES}"
            ))
            .suggest("send a shorter text, or send it as a file with `sendFile`")),
        }
    }

    /// Returns the only message of the text.
    pub(super) fn message(self) -> Result<String, HandlerError> {
        let mut messages = self.messages()?;
        match messages.len() {
            1 => Ok(messages.swap_remove(0)),
            count => Err(errors::invalid_argument(format!(
                "`text` needs {count} messages, but it must fit in one"
            ))
            .suggest("shorten the text, and send the rest as further messages")),
        }
    }
}

/// Adds to the error of a message how many messages of the call were sent before it.
pub(super) fn add_sent_count(error: HandlerError, sent: usize, count: usize) -> HandlerError {
    match sent {
        0 => error,
        sent => HandlerError {
            message: format!(
                "{} (the first {sent} of {count} messages of the text were sent)",
                error.message
            ),
            ..error
        },
    }
}

/// Replaces each `begin…end` in `text` whose content is a mention with `<content>`.
pub(super) fn restore_mentions(
    text: String,
    (begin, end): (&str, &str),
    is_mention: fn(&str) -> bool,
) -> String {
    let mut restored = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once(begin) {
        restored.push_str(before);
        match after
            .split_once(end)
            .filter(|(content, _)| is_mention(content))
        {
            Some((content, after)) => {
                restored.push('<');
                restored.push_str(content);
                restored.push('>');
                rest = after;
            }
            None => {
                restored.push_str(begin);
                rest = after;
            }
        }
    }
    restored.push_str(rest);
    restored
}

#[cfg(test)]
mod tests {
    use super::*;
    use goondan_markup::SLACK;

    fn slack(text: &str) -> OutgoingText<'_> {
        OutgoingText {
            text,
            is_raw: false,
            format: &SLACK,
            with_mentions: |text| text,
        }
    }

    #[test]
    fn markdown_is_converted_unless_the_text_is_raw() {
        assert_eq!(slack("**bold**").messages().unwrap(), ["*bold*"]);
        let raw = OutgoingText {
            is_raw: true,
            ..slack("**bold**")
        };
        assert_eq!(raw.messages().unwrap(), ["**bold**"]);
    }

    #[test]
    fn long_text_is_split_into_at_most_ten_messages() {
        let text = "word ".repeat(2_000);
        assert_eq!(slack(&text).messages().unwrap().len(), 3);
        let error = slack(&text).message().unwrap_err();
        assert!(error.message.contains("needs 3 messages"), "{error:?}");
        let error = slack(&"word ".repeat(20_000)).messages().unwrap_err();
        assert!(error.message.contains("at most 10"), "{error:?}");
        assert!(slack(" \n").messages().is_err());
    }

    #[test]
    fn restore_mentions_unescapes_only_mentions() {
        let is_mention = |content: &str| content.starts_with('@');
        assert_eq!(
            restore_mentions(
                "a &lt;@U1&gt; &lt;b&gt; &lt;".to_owned(),
                ("&lt;", "&gt;"),
                is_mention
            ),
            "a <@U1> &lt;b&gt; &lt;"
        );
    }
}

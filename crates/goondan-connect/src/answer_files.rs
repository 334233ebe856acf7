//! Files of an answer: attachments of its tool results and of its messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use goondan::event::TurnResult;
use goondan::ids::InstanceId;
use goondan::message::{Message, MessagePart, MessageSource};
use goondan::ports::tool::Attachment;
use reqwest::multipart;

use crate::connection_runtime::ConnectionRuntime;

/// Maximum number of files per answer.
const MAX_ANSWER_FILES: usize = 8;
/// Maximum bytes of a file: Discord's limit for users without a subscription.
const MAX_ANSWER_FILE_BYTES: usize = 10_000_000;
/// Maximum characters of a file name.
const MAX_FILE_NAME_CHARS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerFile {
    pub(crate) name: String,
    pub(crate) media_type: String,
    pub(crate) content: Bytes,
}

impl AnswerFile {
    /// Creates a part of a form upload. An invalid media type is omitted.
    pub(crate) fn part(&self) -> multipart::Part {
        let length = self.content.len() as u64;
        let part = || {
            multipart::Part::stream_with_length(self.content.clone(), length)
                .file_name(self.name.clone())
        };
        part().mime_str(&self.media_type).unwrap_or_else(|_| part())
    }

    /// Returns true for image formats that platforms display.
    pub(crate) fn is_displayable_image(&self) -> bool {
        matches!(&*self.media_type, "image/png" | "image/jpeg" | "image/webp")
    }

    /// Returns the line that replaces the file in the answer.
    pub(crate) fn placeholder_line(&self, what: &str) -> String {
        format!("[a file that {what}: {}]", self.name)
    }
}

/// Returns the files of an answer, and a line for each file that is too large or exceeds the limit.
pub(crate) async fn of(
    runtime: &ConnectionRuntime,
    conversation: &str,
    result: &TurnResult,
) -> (Vec<AnswerFile>, Vec<String>) {
    let Some((agent, key)) = conversation
        .split_once(':')
        .filter(|_| runtime.bound.sends_files())
    else {
        return Default::default();
    };
    let messages = match runtime
        .swarm()
        .conversation(&InstanceId::new(agent, key))
        .await
    {
        Ok(messages) => messages,
        Err(error) => {
            tracing::warn!(
                connection = runtime.bound.name,
                "could not read the files of an answer; sending the text only: {error}"
            );
            return Default::default();
        }
    };
    let turn_messages = messages
        .iter()
        .filter(|message| is_of_turn(message, &result.turn_id));
    let attached = turn_messages
        .flat_map(|message| &message.data.content)
        .filter_map(|part| match part {
            MessagePart::File(file) => Some(file),
            _ => None,
        });
    bounded(attached)
}

/// Returns true if the message is an assistant or tool message of that turn.
fn is_of_turn(message: &Message, turn_id: &str) -> bool {
    match &message.source {
        MessageSource::Tool { step_id } | MessageSource::Assistant { step_id } => step_id
            .strip_prefix(turn_id)
            .is_some_and(|rest| rest.starts_with('-')),
        _ => false,
    }
}

/// Decodes the files. Also returns a line for each file that is broken, too large or exceeds the
/// limit.
fn bounded<'f>(attached: impl Iterator<Item = &'f Attachment>) -> (Vec<AnswerFile>, Vec<String>) {
    let (mut files, mut skipped_lines): (Vec<AnswerFile>, _) = (Vec::new(), Vec::new());
    for (number, file) in attached.enumerate() {
        let name = name(file, number + 1);
        match STANDARD.decode(&file.data) {
            Ok(content)
                if content.len() <= MAX_ANSWER_FILE_BYTES && files.len() < MAX_ANSWER_FILES =>
            {
                let file = AnswerFile {
                    name,
                    media_type: file.media_type.clone(),
                    content: content.into(),
                };
                // Files that two tools returned are sent once.
                if !files.iter().any(|known| known.content == file.content) {
                    files.push(file);
                }
            }
            Ok(_) => skipped_lines.push(format!(
                "[a file that is too large or exceeds the file limit: {name}]"
            )),
            Err(_) => skipped_lines.push(format!("[a file that is broken: {name}]")),
        }
    }
    (files, skipped_lines)
}

/// Returns a safe file name. The given name may come from an unknown sender.
fn name(file: &Attachment, number: usize) -> String {
    let sent_name = file.name.as_deref().unwrap_or_default();
    let plain = sent_name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = plain
        .chars()
        .filter(|c| !c.is_control() && *c != '"')
        .take(MAX_FILE_NAME_CHARS)
        .collect();
    match plain.trim_matches(['.', ' ']) {
        "" => format!("file-{number}.{}", ending(&file.media_type)),
        name => name.to_owned(),
    }
}

/// Returns the file name extension for a media type.
fn ending(media_type: &str) -> &str {
    match media_type {
        "image/jpeg" => "jpg",
        "image/svg+xml" => "svg",
        "text/plain" => "txt",
        other => {
            let kind = other.split_once('/').map_or("", |(_, kind)| kind);
            let is_plain = !kind.is_empty()
                && kind.len() <= 8
                && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if is_plain { kind } else { "bin" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(media_type: &str, name: Option<&str>, content: &[u8]) -> Attachment {
        let name = name.map(str::to_owned);
        Attachment {
            media_type: media_type.to_owned(),
            data: STANDARD.encode(content),
            name,
        }
    }

    #[test]
    fn file_names_have_no_path_or_special_characters() {
        for (media_type, given, expected) in [
            ("image/png", None, "file-2.png"),
            ("image/jpeg", Some(""), "file-2.jpg"),
            ("application/vnd.ms-excel", None, "file-2.bin"),
            ("text/plain", Some("../../etc/passwd"), "passwd"),
            ("text/plain", Some("C:\\a\\b.txt"), "b.txt"),
            ("text/plain", Some("..\r\n\"x\".txt"), "x.txt"),
        ] {
            assert_eq!(name(&file(media_type, given, b""), 2), expected);
        }
    }

    #[test]
    fn omitted_files_are_listed_with_a_reason() {
        let large = file(
            "text/plain",
            Some("large.txt"),
            &vec![0; MAX_ANSWER_FILE_BYTES + 1],
        );
        let many: Vec<Attachment> = (0..MAX_ANSWER_FILES + 1)
            .map(|number| file("text/plain", None, &[number as u8]))
            .collect();
        let broken = Attachment {
            data: "?".to_owned(),
            ..file("image/png", None, b"")
        };
        let all: Vec<Attachment> = [large, broken].into_iter().chain(many).collect();
        let (files, left_out) = bounded(all.iter());
        assert_eq!(files.len(), MAX_ANSWER_FILES);
        assert_eq!(
            left_out[0],
            "[a file that is too large or exceeds the file limit: large.txt]"
        );
        assert_eq!(left_out[1], "[a file that is broken: file-2.png]");
    }
}

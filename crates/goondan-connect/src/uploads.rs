//! Pictures and files of an answer: those that the tools of its turn have brought back, and those that it holds itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use goondan::event::TurnResult;
use goondan::ids::InstanceId;
use goondan::message::{Message, MessageSource, Part};
use goondan::ports::tool::Attachment;
use reqwest::multipart;

use crate::desk::Desk;

/// So many files of an answer are sent.
const MOST: usize = 8;
/// A larger one is not sent, in bytes: what Discord takes of everybody.
const LARGEST: usize = 10_000_000;
/// A longer name is cut, in characters.
const LONGEST_NAME: usize = 100;

/// A file that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upload {
    /// What it is called.
    pub(crate) name: String,
    /// What it is.
    pub(crate) media_type: String,
    pub(crate) content: Bytes,
}

impl Upload {
    /// The file as a part of a form.
    pub(crate) fn part(&self) -> multipart::Part {
        let length = self.content.len() as u64;
        let part = || {
            multipart::Part::stream_with_length(self.content.clone(), length)
                .file_name(self.name.clone())
        };
        part().mime_str(&self.media_type).unwrap_or_else(|_| part())
    }

    /// Whether it is a picture that people can see.
    pub(crate) fn is_picture(&self) -> bool {
        matches!(&*self.media_type, "image/png" | "image/jpeg" | "image/webp")
    }

    /// A line in its place.
    pub(crate) fn told(&self, what: &str) -> String {
        format!("[a file that {what}: {}]", self.name)
    }
}

/// The files of an answer, and lines about those that are too large or too many.
pub(crate) async fn of(desk: &Desk, lane: &str, result: &TurnResult) -> (Vec<Upload>, Vec<String>) {
    let Some((agent, key)) = lane.split_once(':').filter(|_| desk.bound.sends_files()) else {
        return Default::default();
    };
    let messages = match desk.swarm.conversation(&InstanceId::new(agent, key)).await {
        Ok(messages) => messages,
        Err(error) => {
            tracing::warn!(
                connection = desk.bound.name,
                "the files of an answer could not be read: {error}"
            );
            return Default::default();
        }
    };
    let of_turn = messages
        .iter()
        .filter(|message| is_of_turn(message, &result.turn_id));
    let attached = of_turn
        .flat_map(|message| &message.data.content)
        .filter_map(|part| match part {
            Part::File(file) => Some(file),
            _ => None,
        });
    bounded(attached)
}

/// Whether the model or a tool has said it in that turn.
fn is_of_turn(message: &Message, turn_id: &str) -> bool {
    match &message.source {
        MessageSource::Tool { step_id } | MessageSource::Assistant { step_id } => step_id
            .strip_prefix(turn_id)
            .is_some_and(|rest| rest.starts_with('-')),
        _ => false,
    }
}

fn bounded<'f>(attached: impl Iterator<Item = &'f Attachment>) -> (Vec<Upload>, Vec<String>) {
    let (mut files, mut left_out): (Vec<Upload>, _) = (Vec::new(), Vec::new());
    for (number, file) in attached.enumerate() {
        let name = name(file, number + 1);
        match STANDARD.decode(&file.data) {
            Ok(content) if content.len() <= LARGEST && files.len() < MOST => {
                let file = Upload {
                    name,
                    media_type: file.media_type.clone(),
                    content: content.into(),
                };
                // What is read twice is one file.
                if !files.iter().any(|known| known.content == file.content) {
                    files.push(file);
                }
            }
            Ok(_) => left_out.push(format!(
                "[a file that is too large, or one too many: {name}]"
            )),
            Err(_) => left_out.push(format!("[a file that is broken: {name}]")),
        }
    }
    (files, left_out)
}

/// What it is called: a stranger may have chosen it, so it is a plain name.
fn name(file: &Attachment, number: usize) -> String {
    let given = file.name.as_deref().unwrap_or_default();
    let plain = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = plain
        .chars()
        .filter(|c| !c.is_control() && *c != '"')
        .take(LONGEST_NAME)
        .collect();
    match plain.trim_matches(['.', ' ']) {
        "" => format!("file-{number}.{}", ending(&file.media_type)),
        name => name.to_owned(),
    }
}

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
    fn a_file_has_a_plain_name() {
        for (media_type, given, wanted) in [
            ("image/png", None, "file-2.png"),
            ("image/jpeg", Some(""), "file-2.jpg"),
            ("application/vnd.ms-excel", None, "file-2.bin"),
            ("text/plain", Some("../../etc/passwd"), "passwd"),
            ("text/plain", Some("C:\\a\\b.txt"), "b.txt"),
            ("text/plain", Some("..\r\n\"x\".txt"), "x.txt"),
        ] {
            assert_eq!(name(&file(media_type, given, b""), 2), wanted);
        }
    }

    #[test]
    fn what_is_too_large_or_too_much_is_told() {
        let large = file("text/plain", Some("large.txt"), &vec![0; LARGEST + 1]);
        let many: Vec<Attachment> = (0..MOST + 1)
            .map(|number| file("text/plain", None, &[number as u8]))
            .collect();
        let broken = Attachment {
            data: "?".to_owned(),
            ..file("image/png", None, b"")
        };
        let all: Vec<Attachment> = [large, broken].into_iter().chain(many).collect();
        let (files, left_out) = bounded(all.iter());
        assert_eq!(files.len(), MOST);
        assert_eq!(
            left_out[0],
            "[a file that is too large, or one too many: large.txt]"
        );
        assert_eq!(left_out[1], "[a file that is broken: file-2.png]");
    }
}

//! Files that an input names with `@PATH`.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan::ports::tool::Attachment;
use goondan_serve::acp::resource_text;

use crate::exit::CliError;
use crate::input_files;

/// Media types of files that are attached. All other files are attached as text.
const MEDIA_TYPES: [(&str, &str); 6] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("pdf", "application/pdf"),
];

/// Maximum number of files in an input.
const MAX_FILES: usize = 20;

/// Returns the input with the content of its text files, and its images and PDF files. A word such
/// as `@writer` that names no file stays text.
pub(super) fn expand(text: &str) -> Result<(String, Vec<Attachment>), CliError> {
    let mut expanded = text.to_owned();
    let mut files = Vec::new();
    let mut mentioned_paths: Vec<&str> = Vec::new();
    for path in text.split_whitespace().filter_map(mention) {
        if mentioned_paths.contains(&path) || !Path::new(path).is_file() {
            continue;
        }
        mentioned_paths.push(path);
        if mentioned_paths.len() > MAX_FILES {
            return Err(
                CliError::usage(format!("The input names more than {MAX_FILES} files."))
                    .suggest("Send some of the files in a second input."),
            );
        }
        match media_type(path) {
            Some(media_type) => files.push(attachment(path, media_type)?),
            None => {
                let name = format!("`{path}`");
                let content =
                    input_files::read_text(input_files::open(Path::new(path), &name)?, &name)?;
                expanded.push('\n');
                expanded.push_str(&resource_text(path, &content));
            }
        }
    }
    Ok((expanded, files))
}

/// Returns the path of a word such as `@src/main.rs,`.
fn mention(word: &str) -> Option<&str> {
    let path = word.strip_prefix('@')?;
    let path = if Path::new(path).is_file() {
        path
    } else {
        path.trim_end_matches(['.', ',', ';', ':', '!', '?', ')'])
    };
    (!path.is_empty()).then_some(path)
}

fn media_type(path: &str) -> Option<&'static str> {
    let extension = Path::new(path).extension()?.to_str()?.to_ascii_lowercase();
    let known_type = MEDIA_TYPES.iter().find(|(name, _)| *name == extension);
    known_type.map(|(_, media_type)| *media_type)
}

fn attachment(path: &str, media_type: &str) -> Result<Attachment, CliError> {
    let name = format!("`{path}`");
    let content = input_files::read_bytes(input_files::open(Path::new(path), &name)?, &name)?;
    Ok(Attachment {
        media_type: media_type.to_owned(),
        data: STANDARD.encode(content),
        name: Path::new(path)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentioned_files_are_attached_and_other_words_stay_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("a.txt"), "content").unwrap();
        std::fs::write(path("b.PNG"), b"\x89PNG").unwrap();
        let text = format!(
            "ask @writer about @{} and @{}, a@b.c",
            path("b.PNG"),
            path("a.txt")
        );
        let (expanded, files) = expand(&text).unwrap();
        assert_eq!(
            expanded,
            format!(
                "{text}\n<resource uri=\"{}\">\ncontent\n</resource>",
                path("a.txt")
            )
        );
        assert_eq!(files.len(), 1);
        assert_eq!(
            (
                files[0].media_type.as_str(),
                files[0].name.as_deref(),
                files[0].data.as_str()
            ),
            ("image/png", Some("b.PNG"), "iVBORw==")
        );
        assert_eq!(
            expand("no files @here").unwrap(),
            ("no files @here".to_owned(), Vec::new())
        );
    }
}

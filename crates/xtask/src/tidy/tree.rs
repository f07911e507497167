//! What the rules look at: the project's files and the crates cargo knows.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::rust_text::{self, RustText};
use crate::failure::Failure;
use crate::process;

/// The project as the rules see it.
pub(super) struct Tree {
    /// Sorted by path.
    pub(super) files: Vec<SourceFile>,
    pub(super) members: Vec<Member>,
}

/// One file, with `/` in its path on every system.
pub(super) struct SourceFile {
    pub(super) path: String,
    /// Nothing for a file that is not UTF-8.
    pub(super) text: Option<String>,
}

/// One workspace member, as `cargo metadata` describes it.
pub(super) struct Member {
    pub(super) name: String,
    /// Relative to the workspace root.
    pub(super) manifest: String,
    /// Names of all direct dependencies: normal, dev and build.
    pub(super) dependencies: Vec<String>,
}

impl Tree {
    /// Reads all files that git tracks or would track, and the manifests' meaning.
    pub(super) fn load(root: &Path) -> Result<Tree, Failure> {
        let list = process::capture(
            root,
            "git",
            &[
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
        )?;
        let mut paths: Vec<&str> = list.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            files.extend(SourceFile::read(root, path)?);
        }
        let metadata = process::capture(
            root,
            "cargo",
            &["metadata", "--no-deps", "--format-version", "1"],
        )?;
        let members = parse_members(&metadata).map_err(Failure::Metadata)?;
        Ok(Tree { files, members })
    }

    /// All text files: path and text.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// All Rust files, their code parted from their comments.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&str, RustText)> {
        self.texts()
            .filter(|(path, _)| has_extension(path, &["rs"]))
            .map(|(path, text)| (path, rust_text::split(text)))
    }

    /// Tells whether `path` is a file of the project or a folder that holds one.
    pub(super) fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.iter().any(|file| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Returns the text of one file, empty if there is none.
    pub(super) fn text_of(&self, path: &str) -> &str {
        self.texts()
            .find_map(|(other, text)| (other == path).then_some(text))
            .unwrap_or_default()
    }
}

impl SourceFile {
    /// Reads one file; nothing if it is gone from the working tree or is a link to a folder.
    fn read(root: &Path, path: &str) -> Result<Option<SourceFile>, Failure> {
        let full_path = root.join(path);
        let bytes = match fs::read(&full_path) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {
                return Ok(None);
            }
            Err(source) => {
                return Err(Failure::Read {
                    path: full_path,
                    source,
                });
            }
        };
        Ok(Some(SourceFile {
            path: path.to_owned(),
            text: String::from_utf8(bytes).ok(),
        }))
    }
}

/// Reads the members out of the JSON that `cargo metadata --no-deps` prints.
pub(super) fn parse_members(metadata: &str) -> Result<Vec<Member>, serde_json::Error> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let root = string_at(&metadata, "workspace_root");
    let members = list_at(&metadata, "packages").map(|package| {
        let manifest = string_at(package, "manifest_path").replace('\\', "/");
        let prefix = root.replace('\\', "/") + "/";
        Member {
            name: string_at(package, "name").to_owned(),
            manifest: manifest.trim_start_matches(&prefix).to_owned(),
            dependencies: list_at(package, "dependencies")
                .map(|dependency| string_at(dependency, "name").to_owned())
                .collect(),
        }
    });
    Ok(members.collect())
}

fn string_at<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list_at<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    object
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Tells whether the file name ends in `.` and one of `extensions`.
pub(super) fn has_extension(path: &str, extensions: &[&str]) -> bool {
    file_name(path)
        .rsplit_once('.')
        .is_some_and(|(_, extension)| extensions.contains(&extension))
}

/// Returns what follows the last `/`.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the line, from 1, on which the byte at `offset` stands.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    1 + text
        .bytes()
        .take(offset)
        .filter(|&byte| byte == b'\n')
        .count()
}

/// Finds `word` where no letter, digit or `_` touches it; yields byte offsets.
pub(super) fn find_word<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word)
        .map(|(offset, _)| offset)
        .filter(move |&offset| {
            let before = text[..offset].chars().next_back();
            let after = text[offset + word.len()..].chars().next();
            !before.is_some_and(is_word_char) && !after.is_some_and(is_word_char)
        })
}

/// Tells whether `c` can be part of an identifier.
pub(super) fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

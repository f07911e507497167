//! `cargo xtask bundle`: what a GPU host without a toolchain needs, in one archive.
//!
//! The binary of `tidegate-bundle` and the unit tests of the layer over the CUDA driver, stripped; the
//! `.slt` files; the script `run`; and, if asked for, NVRTC. All of it lies in one folder, which is packed with `tar`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::failure::Failure;
use crate::process;

/// The crate, its binary, and the folder in the archive.
const NAME: &str = "tidegate-bundle";
/// Where the archive goes; git ignores it.
const FOLDER: &str = "bundle";
/// The crate over the CUDA driver, and its unit tests in the archive.
const DRIVER_CRATE: &str = "tidegate-device";
const DRIVER_TESTS: &str = "driver-tests";
/// The script that a user starts.
const SCRIPT: &str = "crates/tidegate-bundle/run";
/// The SQL tests.
const SLT: &str = "sql-tests/slt";

/// An archive above this does not travel.
const ARCHIVE_BYTES_MAX: u64 = 60 << 20;

/// NVRTC's files begin so: the compiler, and its built-in functions.
const NVRTC_FILES: [&str; 2] = ["libnvrtc.so.", "libnvrtc-builtins.so."];

/// What goes into the archive beside what always does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The folder with the NVRTC to pack.
    nvrtc: Option<PathBuf>,
}

impl Options {
    /// Reads what follows the verb; nothing if it cannot be understood.
    pub(crate) fn parse(arguments: &[String]) -> Option<Options> {
        match arguments {
            [] => Some(Options::default()),
            [option, folder] if option == "--nvrtc" => Some(Options {
                nvrtc: Some(folder.into()),
            }),
            _ => None,
        }
    }
}

/// Builds and packs the archive and says how large it is.
///
/// # Errors
/// Fails if a step does, or if the archive is above the limit.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Failure> {
    let build = ["build", "--release", "--locked", "-p", NAME];
    process::pass_through(root, "cargo", &build, &[])?;

    let folder = root.join(FOLDER).join(NAME);
    clear(&folder)?;
    let binary = target_folder(root)?.join("release").join(NAME);
    strip(root, &binary, &folder.join(NAME))?;
    strip(root, &build_driver_tests(root)?, &folder.join(DRIVER_TESTS))?;
    copy(&root.join(SCRIPT), &folder.join("run"))?;
    copy_folder(&root.join(SLT), &folder.join("slt"))?;
    if let Some(nvrtc) = &options.nvrtc {
        copy_nvrtc(nvrtc, &folder.join("lib"))?;
    }

    let archive = pack(root)?;
    let bytes = fs::metadata(&archive)
        .map_err(|source| reading(&archive, source))?
        .len();
    println!("{}: {:.1} MiB", archive.display(), mebibytes(bytes));
    match bytes > ARCHIVE_BYTES_MAX {
        true => Err(Failure::TooLarge {
            path: archive,
            limit_mib: ARCHIVE_BYTES_MAX >> 20,
        }),
        false => Ok(()),
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Builds the unit tests of the layer over the CUDA driver; returns the executable's path.
fn build_driver_tests(root: &Path) -> Result<PathBuf, Failure> {
    let args = [
        "test",
        "--release",
        "--locked",
        "--package",
        DRIVER_CRATE,
        "--lib",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ];
    let messages = process::capture(root, "cargo", &args)?;
    let executable = test_executable(&messages).map_err(Failure::Metadata)?;
    executable.ok_or_else(|| Failure::Command(process::command_line("cargo", &args)))
}

/// Finds the one executable among cargo's messages, of which each is a line.
fn test_executable(messages: &str) -> Result<Option<PathBuf>, serde_json::Error> {
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line)?;
        if let Some(path) = message.get("executable").and_then(Value::as_str) {
            return Ok(Some(path.into()));
        }
    }
    Ok(None)
}

/// Asks cargo where it builds.
fn target_folder(root: &Path) -> Result<PathBuf, Failure> {
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let metadata = process::capture(root, "cargo", &args)?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(Failure::Metadata)?;
    let folder = metadata.get("target_directory").and_then(Value::as_str);
    Ok(root.join(folder.unwrap_or("target")))
}

fn strip(root: &Path, from: &Path, to: &Path) -> Result<(), Failure> {
    let (from, to) = (from.to_string_lossy(), to.to_string_lossy());
    let args = ["--strip-all", "-o", to.as_ref(), from.as_ref()];
    process::pass_through(root, "strip", &args, &[])
}

/// Packs the folder with the best compression that this machine has.
fn pack(root: &Path) -> Result<PathBuf, Failure> {
    let (option, extension) = match process::capture(root, "xz", &["--version"]) {
        Ok(_) => ("--xz", "xz"),
        Err(_) => ("--gzip", "gz"),
    };
    let archive = root.join(FOLDER).join(format!("{NAME}.tar.{extension}"));
    let file = archive.to_string_lossy();
    let args = ["--create", option, "--file", file.as_ref(), NAME];
    let effort = [("XZ_OPT", "-9 --threads=0"), ("GZIP", "-9")];
    process::pass_through(&root.join(FOLDER), "tar", &args, &effort)?;
    Ok(archive)
}

/// Makes the folder anew, so that it holds nothing from before.
fn clear(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(writing(folder, error)),
        _ => fs::create_dir_all(folder).map_err(|source| writing(folder, source)),
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(|source| writing(to, source))?;
    for path in entries(from)? {
        let Some(name) = path.file_name() else {
            continue;
        };
        match path.is_dir() {
            true => copy_folder(&path, &to.join(name))?,
            false => copy(&path, &to.join(name))?,
        }
    }
    Ok(())
}

fn copy_nvrtc(from: &Path, to: &Path) -> Result<(), Failure> {
    let paths: Vec<PathBuf> = entries(from)?
        .into_iter()
        .filter(|path| file_name(path).is_some_and(is_nvrtc))
        .collect();
    for prefix in NVRTC_FILES {
        let has_prefix = |path: &PathBuf| file_name(path).is_some_and(|n| n.starts_with(prefix));
        if !paths.iter().any(has_prefix) {
            let why = format!("no file `{prefix}*`");
            return Err(reading(from, io::Error::new(io::ErrorKind::NotFound, why)));
        }
    }
    fs::create_dir_all(to).map_err(|source| writing(to, source))?;
    for path in paths {
        copy(&path, &to.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// Tells NVRTC from its variants, which nobody loads.
fn is_nvrtc(name: &str) -> bool {
    NVRTC_FILES.iter().any(|prefix| name.starts_with(prefix))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let list = || {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()
    };
    list().map_err(|source| reading(folder, source))
}

/// Copies a file with its permissions.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|source| writing(to, source))
}

fn reading(path: &Path, source: io::Error) -> Failure {
    Failure::Read {
        path: path.to_path_buf(),
        source,
    }
}

fn writing(path: &Path, source: io::Error) -> Failure {
    Failure::Write {
        path: path.to_path_buf(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, is_nvrtc, test_executable};

    #[test]
    fn the_executable_of_tests_is_in_cargo_s_messages() {
        let library = r#"{"reason":"compiler-artifact","executable":null}"#;
        let tests = r#"{"reason":"compiler-artifact","executable":"/a/b-0"}"#;
        let end = r#"{"reason":"build-finished","success":true}"#;
        let found = test_executable(&[library, tests, end].join("\n"));
        assert_eq!(found.unwrap(), Some("/a/b-0".into()));
        assert_eq!(test_executable(&[library, end].join("\n")).unwrap(), None);
        assert!(test_executable("no message").is_err());
    }

    #[test]
    fn options_are_few() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            Options::parse(&words)
        };
        assert_eq!(parse(&[]), Some(Options::default()));
        let nvrtc = Some("there".into());
        assert_eq!(parse(&["--nvrtc", "there"]), Some(Options { nvrtc }));
        assert_eq!(parse(&["--nvrtc"]), None);
        assert_eq!(parse(&["all"]), None);
    }

    #[test]
    fn variants_of_nvrtc_are_left_out() {
        assert!(is_nvrtc("libnvrtc.so.13"));
        assert!(is_nvrtc("libnvrtc-builtins.so.13.0"));
        assert!(!is_nvrtc("libnvrtc.alt.so.13"));
        assert!(!is_nvrtc("libnvrtc_static.a"));
    }
}

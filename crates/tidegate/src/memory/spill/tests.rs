//! Folders come with the first file and go with the last one; errors name the limit, the folder and the
//! bytes; what a dead process left is removed, what a living one uses is not.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use datafusion::execution::spill_file::TempFileFactory;
use futures::StreamExt;

use super::{LOCK, PREFIX, SpillFolder, SpillSpace, remove_leftovers};
use crate::error::{Error, ErrorKind};

fn folders(root: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).map(|entries| entries.flatten().map(|entry| entry.path()));
    entries.map_or_else(|_| Vec::new(), Iterator::collect)
}

#[tokio::test]
async fn what_is_written_is_read_and_the_folder_goes_with_its_last_file() {
    let root = tempfile::tempdir().unwrap();
    let within = root.path().join("not/yet");
    let space = SpillSpace::new(Some(within.clone()), 1 << 30);
    assert!(!within.exists());
    let first = space.create_temp_file("a test").unwrap();
    let second = space.create_temp_file("a test").unwrap();
    assert_eq!(folders(&within).len(), 1);
    let mut written = Vec::new();
    let mut writer = first.open_writer().unwrap();
    for piece in 0..300_u32 {
        let bytes = [piece as u8; 1000];
        writer.write_all(&bytes).unwrap();
        written.extend_from_slice(&bytes);
    }
    assert_eq!(first.size(), Some(300_000));
    let mut read = Vec::new();
    let mut chunks = first.read_stream().unwrap();
    while let Some(chunk) = chunks.next().await {
        read.extend_from_slice(&chunk.unwrap());
    }
    assert!(read == written);
    // A reader keeps the file.
    let mut chunks = first.read_stream().unwrap();
    drop((writer, first, second));
    assert_eq!(chunks.next().await.unwrap().unwrap().len(), 128 << 10);
    drop(chunks);
    assert_eq!(folders(&within), Vec::<PathBuf>::new());
    assert_eq!(
        space.shared.used.load(std::sync::atomic::Ordering::Relaxed),
        0
    );
    // And it comes again.
    let third = space.create_temp_file("a test").unwrap();
    assert!(third.path().unwrap().exists());
}

#[test]
fn a_limit_is_named_with_its_option_the_folder_and_the_bytes() {
    let root = tempfile::tempdir().unwrap();
    let space = SpillSpace::new(Some(root.path().into()), 1000);
    let file = space.create_temp_file("a test").unwrap();
    let mut writer = file.open_writer().unwrap();
    writer.write_all(&[0; 900]).unwrap();
    let error = writer.write_all(&[0; 200]).unwrap_err();
    let error = Error::from(datafusion::error::DataFusionError::from(error));
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted);
    let root = root.path().display().to_string();
    for part in [
        "200 bytes",
        "900 bytes of at most 1000",
        "--temp-limit",
        &root,
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
    space.set_limit(2000);
    writer.write_all(&[0; 200]).unwrap();
    drop((file, writer));
    // What went is not counted any more.
    let file = space.create_temp_file("a test").unwrap();
    file.open_writer().unwrap().write_all(&[0; 2000]).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_with_the_bytes_that_are_wanted() {
    let root = tempfile::tempdir().unwrap();
    let space = SpillSpace::new(Some(root.path().into()), 1000);
    let file = space.create_temp_file("a test").unwrap();
    let path = file.path().unwrap();
    fs::remove_file(path).unwrap();
    // What is written here finds no room.
    std::os::unix::fs::symlink("/dev/full", path).unwrap();
    let error = file
        .open_writer()
        .unwrap()
        .write_all(&[0; 200])
        .unwrap_err();
    let error = Error::from(datafusion::error::DataFusionError::from(error));
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted);
    let root = root.path().display().to_string();
    for part in ["200 bytes more", "bytes are free", "--temp-dir", &root] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_folder_that_cannot_be_used_fails_who_spills_alone() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let space = SpillSpace::new(Some(file.join("below")), 1000);
    let Err(error) = space.create_temp_file("a test") else {
        panic!("a file is no folder");
    };
    let error = Error::from(error);
    assert_eq!(error.kind(), ErrorKind::Io);
    for part in ["must spill", "file/below", "--temp-dir"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn folders_of_dead_processes_alone_are_removed() {
    let root = tempfile::tempdir().unwrap();
    let living = SpillFolder::make_in(root.path()).unwrap();
    fs::write(living.path.join("0"), "rows").unwrap();
    let dead = SpillFolder::make_in(root.path()).unwrap();
    let left = root.path().join(format!("{PREFIX}1-0"));
    // The lock goes with the process, the folder stays.
    fs::rename(&dead.path, &left).unwrap();
    drop(dead);
    fs::write(left.join("0"), "rows").unwrap();
    let being_made = root.path().join(format!("{PREFIX}1-1"));
    fs::create_dir(&being_made).unwrap();
    let other = root.path().join("datafusion-abc");
    fs::create_dir(&other).unwrap();
    fs::write(other.join(LOCK), "").unwrap();
    remove_leftovers(root.path());
    assert!(living.path.join("0").exists() && being_made.exists() && other.exists());
    assert!(!left.exists());
    drop(living);
    let mut kept = folders(root.path());
    kept.sort();
    assert_eq!(kept, [other, being_made]);
}

/// The lock must not outlive a process in those that it has started.
#[cfg(unix)]
#[test]
fn a_child_process_does_not_inherit_the_lock() {
    let root = tempfile::tempdir().unwrap();
    let folder = SpillFolder::make_in(root.path()).unwrap();
    let left = root.path().join(format!("{PREFIX}1-0"));
    fs::rename(&folder.path, &left).unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    drop(folder);
    // A child of another test has the lock too until it has become its program.
    let until = Instant::now() + Duration::from_secs(10);
    let mut is_gone = false;
    while !is_gone && Instant::now() < until {
        remove_leftovers(root.path());
        is_gone = !left.exists();
        thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_gone);
}

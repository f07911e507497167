//! Standard input as a table: `cat x.csv | tidegate -c "SELECT * FROM '/dev/stdin'"`.
//!
//! A pipe can be read once, and a table is opened several times: for its columns, for its rows, in each
//! partition. So all of it is copied to a temporary file first, which counts against the limit of
//! temporary files and is kept as long as the session. What format it has is found from its first
//! bytes. The same holds for pipes that the process inherited, `/dev/fd/63` for example, which is what
//! shells put in the place of `<(command)`.

mod format;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::Result;
use datafusion::execution::SpillFile;
use datafusion::execution::context::SessionState;
use datafusion::execution::disk_manager::DiskManager;
use datafusion::sql::parser::Statement;
use parking_lot::Mutex;
use tokio::sync::watch;
use url::Url;

use crate::error::{Error, ErrorKind};
use format::Format;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Names of standard input.
const NAMES: [&str; 5] = [
    "/dev/stdin",
    "/dev/fd/0",
    "/proc/self/fd/0",
    "file:///dev/stdin",
    "-",
];

/// The inputs of the process that were asked for, each copied once. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs(Arc<Mutex<HashMap<PathBuf, watch::Receiver<Option<Copying>>>>>);

type Copying = std::result::Result<Arc<Copied>, Error>;

/// The copy of an input. The file goes when this does.
struct Copied {
    file: Arc<dyn SpillFile>,
    path: PathBuf,
    name: String,
    format: Format,
}

impl fmt::Debug for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copied")
            .field("name", &self.name)
            .field("path", &self.path)
            .field("bytes", &self.file.size())
            .field("format", &self.format)
            .finish()
    }
}

/// Returns the input that a path names: standard input, or a pipe that the process inherited.
fn source_of(path: &str) -> Option<PathBuf> {
    if NAMES.contains(&path) {
        return Some(PathBuf::from(NAMES[0]));
    }
    let number = path.strip_prefix("/dev/fd/")?;
    number.parse::<u32>().ok()?;
    let is_pipe = Path::new(path)
        .metadata()
        .is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    is_pipe.then(|| PathBuf::from(path))
}

impl Inputs {
    /// Returns the table of an input; `None` for any other path.
    ///
    /// # Errors
    /// Fails if the input cannot be read, is empty, is of no known format, or exceeds the limit of
    /// temporary files.
    pub(super) async fn table(
        &self,
        path: &str,
        state: &SessionState,
    ) -> Result<Option<ListingTable>> {
        let Some(source) = source_of(path) else {
            return Ok(None);
        };
        let copied = self
            .copied(source, &state.runtime_env().disk_manager)
            .await?;
        let ending = copied.format.ending(&copied.name)?;
        let Some(factory) = state.get_file_format_factory(ending) else {
            let message = format!("{}: this build reads no {ending}", copied.name);
            return Err(Error::new(ErrorKind::NotSupported, message).into());
        };
        let format = factory.create(state, &HashMap::new())?;
        let url = Url::from_file_path(&copied.path).map_err(|()| unreadable(&copied.name))?;
        let url = ListingTableUrl::try_new(url, None)?;
        let options = ListingOptions::new(format).with_file_extension("");
        let config = ListingTableConfig::new(url).with_listing_options(options);
        let table = ListingTable::try_new(config.infer_schema(state).await?)?;
        Ok(Some(table))
    }

    /// Returns the path of an input's copy; `None` for any other path.
    ///
    /// # Errors
    /// Fails if the input cannot be read, is empty, or exceeds the limit of temporary files.
    pub(super) async fn copy_of(&self, path: &str, state: &SessionState) -> Result<Option<String>> {
        let Some(source) = source_of(path) else {
            return Ok(None);
        };
        let disk = &state.runtime_env().disk_manager;
        let copied = self.copied(source, disk).await?;
        Ok(Some(copied.path.display().to_string()))
    }

    /// Names the input in an error that names its copy.
    pub(super) fn named(&self, error: Error) -> Error {
        let inputs = self.0.lock();
        let copies = inputs.values().filter_map(|copying| {
            let copied = copying.borrow().clone()?.ok()?;
            Some((copied.path.display().to_string(), copied.name.clone()))
        });
        for (path, name) in copies.collect::<Vec<_>>() {
            if error.message().contains(&path) {
                let message = error.message().replace(&path, &name);
                return error.with_message(message);
            }
        }
        error
    }

    /// Has an external table read the copy of an input that it names as its location.
    ///
    /// # Errors
    /// Fails if the input cannot be read, is empty, or exceeds the limit of temporary files.
    pub(super) async fn put_in_place(
        &self,
        statement: &mut Statement,
        disk: &Arc<DiskManager>,
    ) -> Result<()> {
        let Statement::CreateExternalTable(create) = statement else {
            return Ok(());
        };
        if create.unbounded {
            return Ok(());
        }
        for location in &mut create.locations {
            if let Some(source) = source_of(location) {
                let copied = self.copied(source, disk).await?;
                *location = copied.path.display().to_string();
            }
        }
        Ok(())
    }

    /// Returns the copy of an input, which is made on a thread of its own when it is first asked for:
    /// whoever asks may be cancelled, but what was read cannot be read again.
    async fn copied(&self, source: PathBuf, disk: &Arc<DiskManager>) -> Result<Arc<Copied>> {
        let mut copying = {
            let mut inputs = self.0.lock();
            match inputs.get(&source) {
                Some(copying) => copying.clone(),
                None => {
                    let (done, copying) = watch::channel(None);
                    let disk = Arc::clone(disk);
                    let from = source.clone();
                    thread::Builder::new()
                        .name("tidegate-stdin".into())
                        .spawn(move || done.send(Some(copy(&from, &disk))))?;
                    inputs.insert(source.clone(), copying.clone());
                    copying
                }
            }
        };
        let copied = copying.wait_for(Option::is_some).await;
        match copied.as_deref() {
            Ok(Some(Ok(copied))) => Ok(Arc::clone(copied)),
            Ok(Some(Err(error))) => Err(error.clone().into()),
            _ => Err(unreadable(&source.display().to_string()).into()),
        }
    }
}

fn copy(source: &Path, disk: &Arc<DiskManager>) -> Copying {
    let name = source.display().to_string();
    if source == Path::new(NAMES[0]) {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            let message = format!(
                "'{name}' is the terminal: send a file to it, as in cat x.csv | tidegate -c \"SELECT \
                 * FROM '{name}'\""
            );
            return Err(Error::new(ErrorKind::Io, message));
        }
        return copy_from(&name, &mut stdin.lock(), disk);
    }
    let mut file = File::open(source).map_err(|error| failed(&name, error))?;
    copy_from(&name, &mut file, disk)
}

fn copy_from(name: &str, input: &mut dyn Read, disk: &Arc<DiskManager>) -> Copying {
    let mut bytes = vec![0; READ_BYTES];
    let length = fill(input, &mut bytes).map_err(|error| failed(name, error))?;
    let head = &bytes[..length];
    if head.is_empty() {
        let message = format!(
            "'{name}' is empty: nothing was sent to it, or it was read already (a script that comes on \
             standard input is read whole)"
        );
        return Err(Error::new(ErrorKind::Io, message));
    }
    let format = Format::of(name, head)?;
    let refused = |error| Error::from_ref(&error);
    let file = disk.create_tmp_file(name).map_err(refused)?;
    let Some(path) = file.path().map(Path::to_path_buf) else {
        return Err(unreadable(name));
    };
    let mut writer = file.open_writer().map_err(refused)?;
    let mut length = length;
    while length > 0 {
        writer.write_all(&bytes[..length]).map_err(|error| {
            let message = format!(
                "'{name}' cannot be kept in temporary files, which may take {} bytes (--temp-limit): \
                 {error}",
                disk.max_temp_directory_size()
            );
            Error::with_source(ErrorKind::ResourcesExhausted, message, error)
        })?;
        length = fill(input, &mut bytes).map_err(|error| failed(name, error))?;
    }
    writer.finish().map_err(refused)?;
    drop(writer);
    Ok(Arc::new(Copied {
        file,
        path,
        name: name.to_string(),
        format,
    }))
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn failed(name: &str, error: io::Error) -> Error {
    let message = format!("cannot read '{name}': {error}");
    Error::with_source(ErrorKind::Io, message, error)
}

fn unreadable(name: &str) -> Error {
    Error::new(ErrorKind::Io, format!("cannot read '{name}'"))
}

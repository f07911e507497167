//! The names of files that COPY writes into a folder.
//!
//! DataFusion gives each a random name, `{id}.csv` or `{id}_{number}.csv`. Here they are `data_0.csv`, `data_1.csv` and
//! so on in each folder, or as `FILENAME_PATTERN` says. A file whose name another one has that was there before is
//! written beside that, under a hidden name, and takes its place when all rows are written: until then nothing is lost.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, RenameOptions};
use parking_lot::Mutex;

use super::text::COMPRESSIONS;

/// Stand for the number of a file and for a random text.
pub(super) const NUMBER: &str = "{i}";
pub(super) const RANDOM: [&str; 3] = ["{uuid}", "{uuidv4}", "{uuidv7}"];

/// Endings of files that COPY writes.
const ENDINGS: [&str; 10] = [
    "parquet", "csv", "tsv", "json", "ndjson", "jsonl", "arrow", "arrows", "feather", "ipc",
];

/// What becomes of files that a folder has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Present {
    /// It has none; those that come meanwhile stay.
    Refused,
    /// They stay.
    Kept,
    /// Those of the same names are replaced.
    Replaced,
    /// They are removed.
    Removed,
}

/// How files are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Naming {
    pub(super) present: Present,
    /// A name without its ending.
    pub(super) pattern: String,
}

impl Naming {
    /// Returns a name, of DataFusion's name without its ending and a number.
    fn name(&self, random: &str, number: usize) -> String {
        let name = self.pattern.replace(NUMBER, &number.to_string());
        RANDOM
            .iter()
            .fold(name, |name, word| name.replace(word, random))
    }
}

/// The names of one statement's files.
#[derive(Debug)]
pub(super) struct Names {
    naming: Naming,
    store: Arc<dyn ObjectStore>,
    folder: Path,
    is_local: bool,
    /// The files that were there.
    before: HashSet<Path>,
    given: Mutex<Given>,
}

#[derive(Debug, Default)]
struct Given {
    /// By DataFusion's names.
    places: HashMap<Path, Place>,
    names: HashSet<Path>,
    /// The number of the next file of each folder.
    next: HashMap<Path, usize>,
}

/// A file.
#[derive(Clone, Debug)]
struct Place {
    /// Where it is written.
    at: Path,
    /// Its name when all rows are written.
    name: Path,
}

impl Names {
    /// Lists the files of a folder, and names those that are written there.
    ///
    /// # Errors
    /// Those of the store, if it matters which files there are.
    pub(super) async fn of_folder(
        ctx: &TaskContext,
        url: &ListingTableUrl,
        naming: Naming,
    ) -> Result<Self> {
        let store = ctx.runtime_env().object_store(url)?;
        let listed = store.list(Some(url.prefix()));
        let listed: Result<HashSet<Path>, _> =
            listed.map_ok(|file| file.location).try_collect().await;
        let before = match listed {
            Ok(before) => before,
            // What is wrong with the store, writing says.
            Err(_) if naming.present == Present::Refused => HashSet::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            naming,
            store,
            folder: url.prefix().clone(),
            is_local: url.scheme() == "file",
            before,
            given: Mutex::default(),
        })
    }

    /// Returns where a file of DataFusion's name is written.
    pub(super) fn place(&self, location: &Path) -> Path {
        let mut given = self.given.lock();
        if let Some(place) = given.places.get(location) {
            return place.at.clone();
        }
        let (Some(folder), Some(file)) = (location.parent(), location.filename()) else {
            return location.clone();
        };
        if !folder.prefix_matches(&self.folder) {
            return location.clone();
        }
        let (random, ending) = file.split_once('.').unwrap_or((file, ""));
        let numbered = random.rsplit_once('_');
        let numbered = numbered.and_then(|(_, number)| number.parse().ok());
        let mut number: usize =
            numbered.unwrap_or_else(|| given.next.get(&folder).copied().unwrap_or_default());
        let stays = matches!(self.naming.present, Present::Refused | Present::Kept);
        let name = loop {
            let name = self.naming.name(random, number);
            let name = folder.clone().join(format!("{name}.{ending}"));
            number += 1;
            let is_taken = given.names.contains(&name) || stays && self.before.contains(&name);
            if !is_taken || !self.naming.pattern.contains(NUMBER) {
                break name;
            }
        };
        let at = match self.before.contains(&name) {
            true => folder.clone().join(format!(".{random}.{ending}")),
            false => name.clone(),
        };
        given.next.insert(folder, number);
        given.names.insert(name.clone());
        let place = Place {
            at: at.clone(),
            name,
        };
        given.places.insert(location.clone(), place);
        at
    }

    /// Returns where a file of DataFusion's name was written.
    pub(super) fn written(&self, location: &Path) -> Path {
        let given = self.given.lock();
        let place = given.places.get(location);
        place.map_or_else(|| location.clone(), |place| place.at.clone())
    }

    /// Gives files their names, and then removes those that are to go.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn settle(&self) -> object_store::Result<()> {
        let places: Vec<Place> = self.given.lock().places.values().cloned().collect();
        for place in places.iter().filter(|place| place.at != place.name) {
            let options = RenameOptions::default();
            self.store
                .rename_opts(&place.at, &place.name, options)
                .await?;
        }
        if self.naming.present != Present::Removed {
            return Ok(());
        }
        let names: HashSet<&Path> = places.iter().map(|place| &place.name).collect();
        let old = self.before.iter().filter(|file| !names.contains(file));
        let old = old.filter(|file| is_data(file) && self.is_inside(file));
        let old: Vec<_> = old.cloned().map(Ok).collect();
        let mut removed = self.store.delete_stream(stream::iter(old).boxed());
        while let Some(file) = removed.next().await {
            match file {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells whether a file lies in the folder, and not behind a link that leads out of it.
    fn is_inside(&self, file: &Path) -> bool {
        if !self.is_local {
            return true;
        }
        let files = LocalFileSystem::new();
        let real = |folder: &Path| -> Option<PathBuf> {
            files.path_to_filesystem(folder).ok()?.canonicalize().ok()
        };
        let of_file = file.parent().and_then(|folder| real(&folder));
        match (real(&self.folder), of_file) {
            (Some(folder), Some(of_file)) => of_file.starts_with(folder),
            _ => false,
        }
    }
}

/// Tells whether a file is one that a COPY may have written, by its ending.
fn is_data(file: &Path) -> bool {
    let name = file.filename().unwrap_or_default().to_ascii_lowercase();
    let is_packed = |ending: &str| COMPRESSIONS.iter().any(|(known, ..)| *known == ending);
    let mut endings = name.split('.').skip(1).collect::<Vec<_>>();
    if endings.last().is_some_and(|ending| is_packed(ending)) {
        endings.pop();
    }
    endings
        .last()
        .is_some_and(|ending| ENDINGS.contains(ending))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use futures::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::{Names, Naming, Present};

    /// Writes files of these names of DataFusion's beside `data_0.csv`, `data_7.csv` and `note.txt`, and returns what is
    /// there before and after they are settled.
    async fn written(present: Present, pattern: &str, files: &[&str]) -> [Vec<String>; 2] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let before = ["o/data_0.csv", "o/data_7.csv", "o/note.txt"].map(Path::from);
        for file in &before {
            store.put(file, "old".into()).await.unwrap();
        }
        let names = Names {
            naming: Naming {
                present,
                pattern: pattern.into(),
            },
            store: Arc::clone(&store),
            folder: Path::from("o"),
            is_local: false,
            before: HashSet::from(before),
            given: Default::default(),
        };
        for file in files {
            let place = names.place(&Path::from(*file));
            assert_eq!(names.written(&Path::from(*file)), place);
            store.put(&place, "new".into()).await.unwrap();
        }
        let unsettled = listed(&store).await;
        names.settle().await.unwrap();
        [unsettled, listed(&store).await]
    }

    async fn listed(store: &Arc<dyn ObjectStore>) -> Vec<String> {
        let files: Vec<_> = store.list(None).try_collect().await.unwrap();
        let mut files: Vec<String> = files.iter().map(|file| file.location.to_string()).collect();
        files.sort();
        files
    }

    #[tokio::test]
    async fn old_files_stay_until_the_new_ones_are_written() {
        let files = ["o/abc_0.csv", "o/abc_1.csv", "o/k=1/abc.csv"];
        let [unsettled, settled] = written(Present::Removed, "data_{i}", &files).await;
        let new = ["o/data_1.csv", "o/k=1/data_0.csv", "o/note.txt"];
        assert_eq!(
            unsettled,
            [
                "o/.abc_0.csv",
                "o/data_0.csv",
                new[0],
                "o/data_7.csv",
                new[1],
                new[2]
            ]
        );
        assert_eq!(settled, ["o/data_0.csv", new[0], new[1], new[2]]);
    }

    #[tokio::test]
    async fn files_of_other_names_stay() {
        let [_, settled] = written(Present::Replaced, "data_{i}", &["o/abc_0.csv"]).await;
        assert_eq!(settled, ["o/data_0.csv", "o/data_7.csv", "o/note.txt"]);
        for present in [Present::Kept, Present::Refused] {
            let [_, settled] = written(present, "data_{i}", &["o/abc_0.csv"]).await;
            let all = ["o/data_0.csv", "o/data_1.csv", "o/data_7.csv", "o/note.txt"];
            assert_eq!(settled, all);
        }
        let [_, settled] = written(Present::Kept, "{uuid}", &["o/abc.csv"]).await;
        let all = ["o/abc.csv", "o/data_0.csv", "o/data_7.csv", "o/note.txt"];
        assert_eq!(settled, all);
    }
}

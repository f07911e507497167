//! Files of other writers: pyarrow 26 wrote those in `tests/files`.

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::compare::{check_all, check_some, new_reader};

#[test]
fn files_of_pyarrow() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");
    let mut random = StdRng::seed_from_u64(91);
    let mut reader = new_reader();
    let mut num_files = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let what = path.display().to_string();
        check_all(&bytes, &mut reader, &what);
        for _ in 0..5 {
            check_some(&bytes, &mut reader, &mut random, &what);
        }
        num_files += 1;
    }
    assert_eq!(num_files, 9);
}

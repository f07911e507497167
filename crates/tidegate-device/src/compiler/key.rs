//! What makes two compilations the same, and the hash that names their file.

/// Everything that enters a compilation, as text, and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) hash: u128,
}

impl Key {
    pub(super) fn new(version: (u32, u32), options: &[String], source: &str) -> Self {
        let (major, minor) = version;
        // An option holds no line end, so no two keys share a text.
        let options = options.join("\n");
        let text = format!("NVRTC {major}.{minor}\n{options}\n\n{source}");
        let hash = fnv1a(text.as_bytes());
        Self { text, hash }
    }
}

/// Hashes by FNV-1a with 128 bits (Fowler, Noll and Vo). Not made to withstand an adversary: a file
/// found by it also holds the text.
pub(super) fn fnv1a(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::{Key, fnv1a};

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn everything_that_enters_makes_another_key() {
        let options = |architecture: &str| vec![architecture.to_owned(), "-DN=1".to_owned()];
        let key = Key::new((13, 0), &options("sm_90"), "source");
        assert_eq!(key, Key::new((13, 0), &options("sm_90"), "source"));
        for other in [
            Key::new((13, 1), &options("sm_90"), "source"),
            Key::new((13, 0), &options("sm_80"), "source"),
            Key::new((13, 0), &options("sm_90"), "source "),
        ] {
            assert_ne!(key.hash, other.hash);
        }
    }
}

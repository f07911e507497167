//! What tests need that a machine may lack, and whether its lack is a failure.
//!
//! A test that finds a need missing says so with [`skip`] and ends. The variable `TIDEGATE_REQUIRE` names
//! the needs whose lack is a failure instead, with commas between them: `TIDEGATE_REQUIRE=device,nvrtc`.
//! `TIDEGATE_REQUIRE_DEVICE=1` is an older name for `TIDEGATE_REQUIRE=device`. A word that is no need is
//! an error, so that a mistake does not pass for a check.
//!
//! CI sets it to all that needs no GPU, and the script of the GPU bundle to `device`. The needs `adbc` and
//! `browser` are of the Python programs that `.ci/run` starts; the script itself asks for them.

#![expect(
    clippy::panic,
    clippy::print_stderr,
    reason = "it fails tests, and says what they leave out"
)]

use std::env;
use std::fmt;

/// The variable with the names of all that is required.
const VARIABLE: &str = "TIDEGATE_REQUIRE";
/// The older variable for a device alone; its value is then 1.
const DEVICE_VARIABLE: &str = "TIDEGATE_REQUIRE_DEVICE";

/// Something that a test needs and a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A GPU and its driver.
    Device,
    /// NVRTC, the compiler of kernels, which needs no GPU.
    Nvrtc,
    /// The ADBC driver for Python.
    Adbc,
    /// A browser without a screen.
    Browser,
    /// The Python packages that the Python module is tested with.
    Python,
}

impl Need {
    const ALL: [Self; 5] = [
        Self::Device,
        Self::Nvrtc,
        Self::Adbc,
        Self::Browser,
        Self::Python,
    ];

    /// Gives the word for it in `TIDEGATE_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Nvrtc => "nvrtc",
            Self::Adbc => "adbc",
            Self::Browser => "browser",
            Self::Python => "python",
        }
    }
}

/// Says which word of a variable is none of those that it may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownNeed {
    variable: &'static str,
    word: String,
    known: String,
}

impl fmt::Display for UnknownNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (variable, word, known) = (self.variable, &self.word, &self.known);
        write!(f, "{variable} has '{word}'; it may have {known}")
    }
}

impl std::error::Error for UnknownNeed {}

/// Returns what the environment requires.
///
/// # Errors
/// Fails if a variable has a word that it may not have.
pub fn required() -> Result<Vec<Need>, UnknownNeed> {
    let text = |name| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    parse(text(VARIABLE), text(DEVICE_VARIABLE))
}

fn parse(needs: Option<String>, device: Option<String>) -> Result<Vec<Need>, UnknownNeed> {
    let mut required = Vec::new();
    let words = needs.as_deref().unwrap_or_default().split(',');
    for word in words.map(str::trim).filter(|word| !word.is_empty()) {
        let need = Need::ALL.into_iter().find(|need| need.name() == word);
        required.push(need.ok_or_else(|| UnknownNeed {
            variable: VARIABLE,
            word: word.to_owned(),
            known: Need::ALL.map(Need::name).join(", "),
        })?);
    }
    match device.as_deref() {
        None | Some("" | "0") => Ok(required),
        Some("1") => {
            required.push(Need::Device);
            Ok(required)
        }
        Some(word) => Err(UnknownNeed {
            variable: DEVICE_VARIABLE,
            word: word.to_owned(),
            known: "0, 1".to_owned(),
        }),
    }
}

/// Says that a test leaves something out for want of `need`.
///
/// # Panics
/// Panics if the environment requires `need`, or if what it requires cannot be read.
#[track_caller]
pub fn skip(need: Need, why: &dyn fmt::Display) {
    let name = need.name();
    match required() {
        Ok(required) if required.contains(&need) => {
            panic!("{VARIABLE} has '{name}', and there is none: {why}")
        }
        Ok(_) => eprintln!("skipped: no {name}: {why}"),
        Err(unknown) => panic!("{unknown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Need, parse};

    fn needs(needs: &str, device: Option<&str>) -> Result<Vec<Need>, String> {
        let found = parse(Some(needs.to_owned()), device.map(str::to_owned));
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn words_name_needs() {
        assert_eq!(parse(None, None), Ok(vec![]));
        assert_eq!(needs("", None), Ok(vec![]));
        assert_eq!(
            needs("nvrtc, device", None),
            Ok(vec![Need::Nvrtc, Need::Device])
        );
        assert_eq!(
            needs("adbc,browser", Some("0")),
            Ok(vec![Need::Adbc, Need::Browser])
        );
    }

    #[test]
    fn the_older_variable_requires_a_device() {
        assert_eq!(parse(None, Some("1".to_owned())), Ok(vec![Need::Device]));
        let message = "TIDEGATE_REQUIRE_DEVICE has 'yes'; it may have 0, 1";
        assert_eq!(needs("", Some("yes")), Err(message.to_owned()));
    }

    #[test]
    fn a_word_that_is_no_need_is_an_error() {
        let message =
            "TIDEGATE_REQUIRE has 'gpu'; it may have device, nvrtc, adbc, browser, python";
        assert_eq!(needs("nvrtc,gpu", None), Err(message.to_owned()));
    }
}

//! What makes two pipelines the same program: everything except their constants.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_kernels::program::Generated;
use tidegate_kernels::random::Values;
use tidegate_pipeline::Pipeline;

/// The shape of a pipeline: a hash of its steps and input types without its literals. The same in
/// every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ShapeKey(u64);

impl ShapeKey {
    /// Returns the shape of a pipeline.
    pub fn of(pipeline: &Pipeline) -> Self {
        let mut text = String::new();
        for field in pipeline.input.fields() {
            text.push_str(&format!("{}, ", field.data_type()));
        }
        // A parameter that is not there is shown by its number.
        let without_literals = Pipeline {
            parameters: Vec::new(),
            ..pipeline.clone()
        };
        text.push_str(&without_literals.to_string());
        Self(fnv1a(text.as_bytes()))
    }
}

impl ShapeKey {
    /// Returns the shape of the pipeline over an array that is made: what making a value takes depends
    /// on its law and on how far neighbours are apart.
    pub fn over(self, source: &Generated) -> Self {
        let law = match source.array.values() {
            Values::Normal { .. } => "normal",
            Values::Uniform { .. } => "uniform",
            Values::Integers { .. } => "integers",
            Values::Series { .. } => "series",
            Values::Constant(_) => "constant",
        };
        let (kind, step) = (source.array.kind(), source.step.min(64));
        Self(fnv1a(format!("{self} {law} {kind:?} by {step}").as_bytes()))
    }
}

impl fmt::Display for ShapeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<ShapeKey> for String {
    fn from(key: ShapeKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for ShapeKey {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(Self)
    }
}

/// Hashes bytes by FNV-1a, which no release of the standard library changes.
/// <http://www.isthe.com/chongo/tech/comp/fnv/>
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

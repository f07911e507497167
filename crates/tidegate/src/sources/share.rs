//! Some morsels of another source.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::exec_err;
use datafusion::error::Result;
use serde::{Deserialize, Serialize};

use super::{ArrayParts, Batches, MorselSize, MorselSource};

/// What a generated source is, in words that another process makes the same source of. Floats are given
/// as their bits, which no text rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SourceDescription {
    /// A table of TPC-H.
    Tpch {
        /// Its name.
        table: String,
        /// The bits of its scale factor.
        scale_factor: u64,
    },
    /// db-benchmark's group-by table.
    H2oG1 {
        /// Its rows.
        rows: u64,
        /// Values of its small ids.
        groups: u64,
        /// NULLs in a hundred rows.
        null_percent: u8,
        /// The seed of its values.
        seed: u64,
    },
    /// An array.
    Array(ArrayDescription),
    /// Some morsels of another.
    Share {
        /// The other.
        of: Box<Self>,
        /// Its morsels, as ascending runs of neighbours.
        morsels: Vec<Range<usize>>,
    },
}

/// What an array is, and what filters left of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrayDescription {
    /// What EXPLAIN calls it.
    pub name: String,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// What its values are.
    pub values: ValuesDescription,
    /// Whether they are singles.
    pub in_singles: bool,
    /// The seed of its values.
    pub seed: u64,
    /// The chunks' length in each dimension.
    pub chunks: Vec<u64>,
    /// First index, step and count of what there is of each dimension.
    pub spans: Vec<(u64, u64, u64)>,
    /// Everything is generated, whatever the filters are.
    pub generate_all: bool,
}

/// What the values of an array are; two numbers of a kind, floats as their bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValuesDescription {
    /// Mean and standard deviation.
    Normal(u64, u64),
    /// Least value and width.
    Uniform(u64, u64),
    /// Least value and how many there are.
    Integers(i64, u64),
    /// The first value and the step.
    Series(i64, i64),
    /// The value.
    Constant(u64),
}

/// Some morsels of a source.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    of: Arc<dyn MorselSource>,
    /// Ascending runs of neighbours.
    runs: Arc<[Range<usize>]>,
    sizes: Arc<[MorselSize]>,
    /// The number of each morsel in the source.
    origins: Arc<[usize]>,
}

impl Share {
    /// Takes runs of a source's morsels.
    ///
    /// # Errors
    /// If the source has not as many, or runs overlap or do not ascend.
    pub(crate) fn try_new(of: Arc<dyn MorselSource>, runs: Vec<Range<usize>>) -> Result<Self> {
        let all = of.morsels();
        let mut upto = 0;
        for run in &runs {
            if run.start < upto || run.start > run.end || run.end > all.len() {
                let count = all.len();
                return exec_err!("{} has {count} morsels, not {runs:?}", of.name());
            }
            upto = run.end;
        }
        let origins: Arc<[usize]> = runs.iter().cloned().flatten().collect();
        Ok(Self {
            sizes: origins.iter().map(|&morsel| all[morsel]).collect(),
            origins,
            runs: runs.into(),
            of,
        })
    }

    /// Writes the runs as `0-3, 7-9`, without their ends.
    fn written(&self) -> String {
        let runs = self.runs.iter();
        let runs = runs.map(|run| format!("{}-{}", run.start, run.end));
        runs.collect::<Vec<_>>().join(", ")
    }
}

impl MorselSource for Share {
    fn name(&self) -> String {
        let (some, all) = (self.origins.len(), self.of.morsels().len());
        format!("{}, {some} of {all} morsels", self.of.name())
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{}, of {}", self.of.identity()?, self.written()))
    }

    fn origin(&self) -> Option<(&dyn MorselSource, &[usize])> {
        Some((self.of.as_ref(), &self.origins))
    }

    fn description(&self) -> Option<SourceDescription> {
        Some(SourceDescription::Share {
            of: Box::new(self.of.description()?),
            morsels: self.runs.to_vec(),
        })
    }

    fn schema(&self) -> SchemaRef {
        self.of.schema()
    }

    fn morsels(&self) -> &[MorselSize] {
        &self.sizes
    }

    fn exact_rows(&self) -> bool {
        self.of.exact_rows()
    }

    fn array(&self) -> Option<ArrayParts> {
        let whole = self.of.array()?;
        let parts = self
            .origins
            .iter()
            .map(|&morsel| whole.parts[morsel].clone());
        Some(ArrayParts {
            parts: parts.collect(),
            ..whole
        })
    }

    fn batches(&self, index: usize, projection: &[usize], batch_size: usize) -> Result<Batches> {
        let index = self.inner(index)?;
        self.of.batches(index, projection, batch_size)
    }
}

impl Share {
    fn inner(&self, index: usize) -> Result<usize> {
        match self.origins.get(index) {
            Some(&morsel) => Ok(morsel),
            None => exec_err!("{} has no morsel {index}", self.name()),
        }
    }
}

//! Generated sources made of their descriptions, as another process sends them.

use std::sync::Arc;

use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use tidegate_kernels::random::{Array, Values};

use super::{ArraySource, H2oG1Source, TpchSource};
use crate::sources::{MorselSource, Share, SourceDescription, ValuesDescription};

/// Makes the source that a description is of.
///
/// # Errors
/// For a description that no source has.
pub(crate) fn source_of(description: &SourceDescription) -> Result<Arc<dyn MorselSource>> {
    Ok(match description {
        SourceDescription::Tpch {
            table,
            scale_factor,
        } => Arc::new(TpchSource::try_new(table, f64::from_bits(*scale_factor))?),
        SourceDescription::H2oG1 {
            rows,
            groups,
            null_percent,
            seed,
        } => Arc::new(H2oG1Source::try_new(*rows, *groups, *null_percent, *seed)?),
        SourceDescription::Array(described) => {
            let values = values_of(&described.values);
            let array = Array::try_new(described.shape.clone(), values, described.seed);
            let array = array.map_err(|error| DataFusionError::External(error.into()))?;
            let array = match described.in_singles {
                true => array.in_singles(),
                false => array,
            };
            Arc::new(ArraySource::of(array, described)?)
        }
        SourceDescription::Share { of, morsels } => match **of {
            SourceDescription::Share { .. } => return plan_err!("a share of a share"),
            _ => Arc::new(Share::try_new(source_of(of)?, morsels.clone())?),
        },
    })
}

/// Describes what the values of an array are.
pub(super) fn values_described(values: Values) -> ValuesDescription {
    match values {
        Values::Normal { location, scale } => {
            ValuesDescription::Normal(location.to_bits(), scale.to_bits())
        }
        Values::Uniform { low, width } => {
            ValuesDescription::Uniform(low.to_bits(), width.to_bits())
        }
        Values::Integers { low, count } => ValuesDescription::Integers(low, count),
        Values::Series { start, step } => ValuesDescription::Series(start, step),
        Values::Constant(value) => ValuesDescription::Constant(value.to_bits()),
    }
}

fn values_of(described: &ValuesDescription) -> Values {
    let float = |bits: &u64| f64::from_bits(*bits);
    match described {
        ValuesDescription::Normal(location, scale) => Values::Normal {
            location: float(location),
            scale: float(scale),
        },
        ValuesDescription::Uniform(low, width) => Values::Uniform {
            low: float(low),
            width: float(width),
        },
        &ValuesDescription::Integers(low, count) => Values::Integers { low, count },
        &ValuesDescription::Series(start, step) => Values::Series { start, step },
        ValuesDescription::Constant(value) => Values::Constant(float(value)),
    }
}

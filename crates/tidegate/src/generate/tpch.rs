//! The eight tables of TPC-H, as the `tpchgen` crates make them.
//!
//! `tpchgen` divides a table into parts by its keys and can make any part alone, bit for bit what
//! dbgen gives; a morsel is one such part. Lineitem is divided by its orders, which have one to
//! seven lines each, so the rows of its morsels are estimates until they are read; all else is
//! exact. The last part also takes the keys that do not divide evenly.
//!
//! The generator makes whole rows, comments included, so a projection saves memory and not time.
//! The first read of a process also makes the 300 MB of text that comments are cut from.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use super::MORSEL_ROWS;
use crate::sources::{Batches, MorselSize, MorselSource, SourceDescription};

/// The least scale factor: below it there is no supplier for a part to come from.
const SCALE_FACTOR_MIN: f64 = 0.0001;
const SCALE_FACTOR_MAX: f64 = 1000.0;

/// One TPC-H table at one scale factor, made when it is read.
#[derive(Clone, Debug)]
pub struct TpchSource {
    table: Table,
    scale_factor: f64,
    morsels: Vec<MorselSize>,
}

impl TpchSource {
    /// Describes the table named `table`, such as `lineitem`, in any case; makes no rows.
    ///
    /// # Errors
    /// A plan error if there is no such table, or if `scale_factor` is not from 0.0001 to 1000.
    pub fn try_new(table: &str, scale_factor: f64) -> Result<Self> {
        let table = Table::from_name(table)?;
        if !(SCALE_FACTOR_MIN..=SCALE_FACTOR_MAX).contains(&scale_factor) {
            return plan_err!(
                "tpch scale factor must be from {SCALE_FACTOR_MIN} to {SCALE_FACTOR_MAX}, \
                 got {scale_factor}"
            );
        }
        Ok(Self::cut(table, scale_factor, MORSEL_ROWS))
    }

    /// Cuts the table into morsels of about `morsel_rows` rows.
    fn cut(table: Table, scale_factor: f64, morsel_rows: u64) -> Self {
        let num_rows = table.num_keys(scale_factor, 1, 1) * table.rows_per_key();
        let part_count = match table {
            // `tpchgen` gives these two whole, whatever part it is asked for.
            Table::Nation | Table::Region => 1,
            // At most 45,777 parts, lineitem's at the greatest scale factor.
            _ => num_rows.div_ceil(morsel_rows).max(1) as i32,
        };
        let morsels = (1..=part_count)
            .map(|part| {
                let num_rows =
                    table.num_keys(scale_factor, part, part_count) * table.rows_per_key();
                MorselSize {
                    num_rows,
                    num_bytes: num_rows * table.row_bytes(),
                }
            })
            .collect();
        Self {
            table,
            scale_factor,
            morsels,
        }
    }
}

impl MorselSource for TpchSource {
    fn name(&self) -> String {
        format!("tpch({}, {})", self.table.name(), self.scale_factor)
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{} in {} parts", self.name(), self.morsels.len()))
    }

    fn description(&self) -> Option<SourceDescription> {
        let cut = Self::cut(self.table, self.scale_factor, MORSEL_ROWS);
        // One that was cut otherwise would be another.
        (cut.morsels == self.morsels).then(|| SourceDescription::Tpch {
            table: self.table.name().into(),
            scale_factor: self.scale_factor.to_bits(),
        })
    }

    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn morsels(&self) -> &[MorselSize] {
        &self.morsels
    }

    fn exact_rows(&self) -> bool {
        self.table != Table::Lineitem
    }

    fn batches(&self, index: usize, projection: &[usize], batch_size: usize) -> Result<Batches> {
        let part_count = self.morsels.len();
        if index >= part_count {
            return exec_err!(
                "{} has {part_count} morsels, no morsel {index}",
                self.name()
            );
        }
        let part = Part {
            scale_factor: self.scale_factor,
            number: index as i32 + 1,
            count: part_count as i32,
        };
        let batches = self.table.batches(part, batch_size.max(1));
        let batches = batches.map(|batch| Ok(batch?.project(projection)?));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        Ok(Box::new(batches.into_iter().map(Ok)))
    }
}

/// Which part of a table to make; `tpchgen` numbers them from one.
#[derive(Clone, Copy, Debug)]
struct Part {
    scale_factor: f64,
    number: i32,
    count: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Customer,
    Lineitem,
    Nation,
    Orders,
    Part,
    Partsupp,
    Region,
    Supplier,
}

impl Table {
    const ALL: [Self; 8] = [
        Self::Customer,
        Self::Lineitem,
        Self::Nation,
        Self::Orders,
        Self::Part,
        Self::Partsupp,
        Self::Region,
        Self::Supplier,
    ];

    fn from_name(name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        if let Some(table) = Self::ALL.into_iter().find(|table| table.name() == lower) {
            return Ok(table);
        }
        let names = Self::ALL.map(Self::name);
        let hint = names
            .into_iter()
            .map(|known| (strsim::osa_distance(&lower, known), known))
            .min()
            .filter(|(distance, _)| *distance <= 2)
            .map(|(_, known)| format!(", did you mean '{known}'?"))
            .unwrap_or_default();
        plan_err!(
            "tpch has no table '{name}'{hint}; its tables are {}",
            names.join(", ")
        )
    }

    fn name(self) -> &'static str {
        match self {
            Self::Customer => "customer",
            Self::Lineitem => "lineitem",
            Self::Nation => "nation",
            Self::Orders => "orders",
            Self::Part => "part",
            Self::Partsupp => "partsupp",
            Self::Region => "region",
            Self::Supplier => "supplier",
        }
    }

    fn schema(self) -> SchemaRef {
        match self {
            Self::Customer => CustomerArrow::schema_ref(),
            Self::Lineitem => LineItemArrow::schema_ref(),
            Self::Nation => NationArrow::schema_ref(),
            Self::Orders => OrderArrow::schema_ref(),
            Self::Part => PartArrow::schema_ref(),
            Self::Partsupp => PartSuppArrow::schema_ref(),
            Self::Region => RegionArrow::schema_ref(),
            Self::Supplier => SupplierArrow::schema_ref(),
        }
    }

    /// Returns how many of the keys that divide the table are in a part.
    fn num_keys(self, scale_factor: f64, part: i32, part_count: i32) -> u64 {
        let num_keys = match self {
            Self::Nation => 25,
            Self::Region => 5,
            Self::Customer => {
                CustomerGenerator::calculate_row_count(scale_factor, part, part_count)
            }
            Self::Lineitem | Self::Orders => {
                OrderGenerator::calculate_row_count(scale_factor, part, part_count)
            }
            Self::Part | Self::Partsupp => {
                PartGenerator::calculate_row_count(scale_factor, part, part_count)
            }
            Self::Supplier => {
                SupplierGenerator::calculate_row_count(scale_factor, part, part_count)
            }
        };
        num_keys.unsigned_abs()
    }

    /// Returns the rows of a key: a part's four suppliers, an order's one to seven lines on
    /// average.
    fn rows_per_key(self) -> u64 {
        match self {
            Self::Partsupp | Self::Lineitem => 4,
            _ => 1,
        }
    }

    /// Returns the average bytes of a row as Arrow arrays, measured at scale factor 0.1.
    fn row_bytes(self) -> u64 {
        match self {
            Self::Customer => 242,
            Self::Lineitem => 218,
            Self::Nation => 123,
            Self::Orders => 170,
            Self::Part => 201,
            Self::Partsupp => 176,
            Self::Region => 106,
            Self::Supplier => 215,
        }
    }

    /// Makes a part, in batches of `batch_size` rows and all columns.
    fn batches(self, part: Part, batch_size: usize) -> Generated {
        let Part {
            scale_factor,
            number,
            count,
        } = part;
        match self {
            Self::Customer => {
                let rows = CustomerGenerator::new(scale_factor, number, count);
                Box::new(CustomerArrow::new(rows).with_batch_size(batch_size))
            }
            Self::Lineitem => {
                let rows = LineItemGenerator::new(scale_factor, number, count);
                Box::new(LineItemArrow::new(rows).with_batch_size(batch_size))
            }
            Self::Nation => {
                let rows = NationGenerator::new(scale_factor, number, count);
                Box::new(NationArrow::new(rows).with_batch_size(batch_size))
            }
            Self::Orders => {
                let rows = OrderGenerator::new(scale_factor, number, count);
                Box::new(OrderArrow::new(rows).with_batch_size(batch_size))
            }
            Self::Part => {
                let rows = PartGenerator::new(scale_factor, number, count);
                Box::new(PartArrow::new(rows).with_batch_size(batch_size))
            }
            Self::Partsupp => {
                let rows = PartSuppGenerator::new(scale_factor, number, count);
                Box::new(PartSuppArrow::new(rows).with_batch_size(batch_size))
            }
            Self::Region => {
                let rows = RegionGenerator::new(scale_factor, number, count);
                Box::new(RegionArrow::new(rows).with_batch_size(batch_size))
            }
            Self::Supplier => {
                let rows = SupplierGenerator::new(scale_factor, number, count);
                Box::new(SupplierArrow::new(rows).with_batch_size(batch_size))
            }
        }
    }
}

type Generated = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

#[cfg(test)]
mod tests;

//! Filters that are known only while a scan runs: the keys of a join's build side, the bound of a top-k.
//!
//! DataFusion pushes them down to the scans of Parquet files, as expressions that are TRUE until there is
//! something to say, and its own scans rule out row groups by them. Here they leave rows out: the columns
//! that they read are decoded first, and the others only for blocks in which a row is left.
//!
//! What a filter says of the entries of a dictionary, and of integers in a range that is not much wider than
//! there are rows, is computed once and looked up.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, Column, DynamicFilterPhysicalExpr, Literal,
};
use datafusion::physical_expr::utils::collect_columns;
use parking_lot::Mutex;
use tidegate_kernels::host::arrow::{array_of, codes, has_arrays, integers, nulls_of};
use tidegate_kernels::host::{Chunk, Entries, HostProgram, HostRun, Selected};

use super::block::{Blocks, Stopped};
use super::runtime_keys::KeySet;
use crate::leaf::parquet::pages::with_columns;
use crate::region::join_keys::{JoinKeys, KeyBits};

/// Partitions of a join whose keys are looked up one after the other; of more, the one of a row is found first.
const PARTITIONS_MAX: usize = 4;

/// Rows after which a filter is dropped if it leaves few out.
const TRIAL_ROWS: usize = 1 << 16;

/// A filter that leaves out fewer than one row of so many is dropped.
const LEFT_OUT_MIN: usize = 8;

/// A filter of a scan, shared by the scan's partitions.
pub(super) struct RuntimeFilter {
    /// A dynamic filter over the columns that it reads.
    filter: Arc<dyn PhysicalExpr>,
    /// The columns of the scan that it reads.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// The keys of the join that feeds it, if they are noted.
    keys: Option<Arc<JoinKeys>>,
    /// What it says now.
    known: Mutex<Arc<Known>>,
}

/// What a filter says since it was changed last.
struct Known {
    generation: u64,
    says: Says,
}

enum Says {
    /// Nothing yet.
    Nothing,
    /// No row passes.
    NoRow,
    Rows(Predicate),
}

/// An expression that selects rows.
pub(super) struct Predicate {
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// The join's keys: what the expression looks for.
    join_keys: Option<Arc<KeyBits>>,
    /// The keys that pass, if they lie in a range that is known and not too wide.
    keys: OnceLock<Option<KeySet>>,
    /// A row of NULLs passes, or may.
    nulls_pass: OnceLock<bool>,
}

impl fmt::Debug for RuntimeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuntimeFilter({})", self.filter)
    }
}

impl RuntimeFilter {
    /// Takes a dynamic filter over the columns of a scan; `None` if they do not all become arrays.
    pub(super) fn new(
        filter: &Arc<dyn PhysicalExpr>,
        scan: &Schema,
        join_keys: &[Arc<JoinKeys>],
    ) -> Option<Self> {
        let mut columns: Vec<usize> = filter
            .children()
            .into_iter()
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        columns.sort_unstable();
        columns.dedup();
        let fields = columns.iter().map(|index| scan.fields().get(*index));
        let fields: Vec<Arc<Field>> = fields.map(|field| field.cloned()).collect::<Option<_>>()?;
        if columns.is_empty() || !fields.iter().all(|field| has_arrays(field.data_type())) {
            return None;
        }
        let moved = with_columns(filter, &|column| {
            columns.iter().position(|index| *index == column)
        });
        let filter = moved.ok()?;
        let id = filter.expression_id();
        // A key that is computed from the column is none of the noted ones.
        let is_column = matches!(filter.children()[..], [key] if key.is::<Column>());
        let mut join_keys = join_keys.iter().filter(|_| is_column);
        Some(Self {
            keys: join_keys.find(|keys| Some(keys.filter()) == id).cloned(),
            filter,
            columns,
            schema: Arc::new(Schema::new(fields)),
            known: Mutex::new(Arc::new(Known {
                generation: 0,
                says: Says::Nothing,
            })),
        })
    }

    /// Returns what the filter says now. What it cannot say it does not say: no row is left out then.
    fn known(&self) -> Arc<Known> {
        let generation = self.filter.snapshot_generation();
        let mut known = self.known.lock();
        if known.generation != generation {
            *known = Arc::new(Known {
                generation,
                says: self.says(),
            });
        }
        Arc::clone(&known)
    }

    fn says(&self) -> Says {
        let filter = self.filter.downcast_ref::<DynamicFilterPhysicalExpr>();
        let Some(Ok(current)) = filter.map(DynamicFilterPhysicalExpr::current) else {
            return Says::Nothing;
        };
        match literal(&current) {
            Some(true) => Says::Nothing,
            Some(false) => Says::NoRow,
            None => Says::Rows(Predicate {
                expr: of_any_partition(&current),
                schema: Arc::clone(&self.schema),
                join_keys: self.keys.as_ref().and_then(|keys| keys.known()),
                keys: OnceLock::new(),
                nulls_pass: OnceLock::new(),
            }),
        }
    }
}

fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<bool> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Boolean(value) => Some(value.unwrap_or(false)),
        _ => None,
    }
}

/// Returns an expression that is TRUE at least wherever the given one is: a choice by the partition of a key
/// becomes "in any partition", which needs no hash of the key. A key is in no other partition's table than its
/// own.
fn of_any_partition(expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    if let Some(either) = expr.downcast_ref::<BinaryExpr>()
        && *either.op() == Operator::Or
    {
        let (left, right) = (
            of_any_partition(either.left()),
            of_any_partition(either.right()),
        );
        return Arc::new(BinaryExpr::new(left, Operator::Or, right));
    }
    let Some(case) = expr.downcast_ref::<CaseExpr>() else {
        return Arc::clone(expr);
    };
    if case.when_then_expr().len() > PARTITIONS_MAX {
        return Arc::clone(expr);
    }
    let branches = case.when_then_expr().iter().map(|(_, then)| then);
    let branches = branches.chain(case.else_expr());
    let branches = branches.filter(|branch| literal(branch) != Some(false));
    let any = branches.cloned().reduce(|one, other| {
        Arc::new(BinaryExpr::new(one, Operator::Or, other)) as Arc<dyn PhysicalExpr>
    });
    any.unwrap_or_else(|| Arc::clone(expr))
}

impl Predicate {
    pub(super) fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    /// Returns the field of the only column that is read.
    pub(super) fn only_field(&self) -> Option<&Field> {
        match self.schema.fields().as_ref() {
            [field] => Some(field),
            _ => None,
        }
    }

    /// Evaluates the predicate: a byte of 1 for each row that passes, else of 0. `None` if it raises.
    pub(super) fn evaluate(&self, columns: Vec<ArrayRef>, rows: usize) -> Option<Vec<u8>> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options).ok()?;
        match self.expr.evaluate(&batch).ok()? {
            ColumnarValue::Scalar(ScalarValue::Boolean(passes)) => {
                Some(vec![u8::from(passes.unwrap_or(false)); rows])
            }
            ColumnarValue::Scalar(_) => None,
            ColumnarValue::Array(array) => {
                let passes = array.as_boolean_opt()?;
                let passes = match passes.nulls() {
                    Some(nulls) => passes.values() & nulls.inner(),
                    None => passes.values().clone(),
                };
                Some(passes.iter().map(u8::from).collect())
            }
        }
    }

    /// Evaluates the predicate for the rows of a block, of which those that are not selected may not pass.
    fn rows(
        &self,
        chunks: &[Chunk<'_>],
        entries: &[Option<&Entries>],
        selected: Option<&[u8]>,
        rows: usize,
        rows_in_all: u64,
    ) -> Option<Vec<u8>> {
        if let ([chunk], Some(bits)) = (chunks, &self.join_keys) {
            let mut values = Vec::with_capacity(rows);
            if integers(&chunk.values, rows, &mut values) {
                let mut passed: Vec<u8> = values.iter().map(|key| bits.contains(*key)).collect();
                pass_nulls(&mut passed, chunk);
                return Some(passed);
            }
        }
        if let ([chunk], Some(field)) = (chunks, self.only_field()) {
            let keys = self
                .keys
                .get_or_init(|| KeySet::of(self, field.data_type(), rows_in_all));
            let found = keys
                .as_ref()
                .and_then(|keys| keys.contain(self, chunk, rows));
            if found.is_some() {
                return found;
            }
        }
        let columns = chunks.iter().zip(entries).zip(self.schema.fields());
        let columns = columns.map(|((chunk, entries), field)| {
            let nulls = nulls_of(chunk, rows);
            array_of(&chunk.values, *entries, rows, nulls, field.data_type())
        });
        let columns: Vec<ArrayRef> = columns.collect::<Option<_>>()?;
        let Some(selected) = selected.and_then(|selected| selected.get(..rows)) else {
            return self.evaluate(columns, rows);
        };
        let wanted: BooleanArray = selected.iter().map(|byte| Some(*byte != 0)).collect();
        let columns = columns.iter().map(|column| filter(column, &wanted).ok());
        let columns: Vec<ArrayRef> = columns.collect::<Option<_>>()?;
        let mut passed = self.evaluate(columns, wanted.true_count())?.into_iter();
        let of_all = selected.iter().map(|byte| match byte {
            0 => 0,
            _ => passed.next().unwrap_or(0),
        });
        Some(of_all.collect())
    }

    /// Returns whether a row of NULLs passes, or may: of a join in which NULLs are equal, or of a top-k in which
    /// they come first.
    fn nulls_pass(&self) -> bool {
        *self.nulls_pass.get_or_init(|| {
            let fields = self.schema.fields().iter();
            let nulls = fields.map(|field| new_null_array(field.data_type(), 1));
            let passes = self.evaluate(nulls.collect(), 1);
            passes.is_none_or(|passes| passes.contains(&1))
        })
    }

    /// Evaluates the predicate for the entries of the only column's dictionary.
    fn entries(&self, entries: &Entries, rows_in_all: u64) -> Option<Vec<u8>> {
        let (values, (len, _)) = (entries.values(), entries.size());
        let chunk = Chunk {
            values,
            validity: None,
        };
        self.rows(&[chunk], &[None], None, len, rows_in_all)
    }
}

/// The filters of a scan, as one partition uses them.
pub(super) struct RuntimeFilters {
    used: Vec<Used>,
    /// Rows of the file that is read.
    rows_in_all: u64,
    /// Rows that were left out since that was asked last.
    left_out: usize,
}

struct Used {
    filter: Arc<RuntimeFilter>,
    known: Arc<Known>,
    /// The program's inputs that it reads; empty if it is not used in the row group at hand.
    inputs: Vec<usize>,
    /// What it says of the entries of the only input.
    verdicts: Option<Vec<u8>>,
    rows: usize,
    left_out: usize,
    /// It leaves too few out, as of this generation.
    dropped: Option<u64>,
}

impl RuntimeFilters {
    pub(super) fn new(filters: &[Arc<RuntimeFilter>]) -> Self {
        let used = filters.iter().map(|filter| Used {
            filter: Arc::clone(filter),
            known: filter.known(),
            inputs: Vec::new(),
            verdicts: None,
            rows: 0,
            left_out: 0,
            dropped: None,
        });
        Self {
            used: used.collect(),
            rows_in_all: 0,
            left_out: 0,
        }
    }

    /// Returns how many rows were left out since the last call.
    pub(super) fn take_left_out(&mut self) -> usize {
        std::mem::take(&mut self.left_out)
    }

    /// Begins a row group of a file of so many rows: filters that say something are used in it.
    pub(super) fn begin(&mut self, program: &HostProgram, rows_in_all: u64) {
        self.rows_in_all = rows_in_all;
        for used in &mut self.used {
            used.begin(program);
        }
        // What leaves most out comes first.
        let left_out = |used: &Used| used.left_out as f64 / used.rows.max(1) as f64;
        self.used
            .sort_by(|one, other| left_out(other).total_cmp(&left_out(one)));
    }

    /// Ends the row group.
    pub(super) fn end(&mut self) {
        self.used.iter_mut().for_each(|used| used.inputs.clear());
    }

    /// Returns whether a filter that is used reads an input.
    pub(super) fn reads(&self, input: usize) -> bool {
        self.used.iter().any(|used| used.inputs.contains(&input))
    }

    /// Takes over what filters that are used say by now. What they said before leaves fewer rows out, so what is
    /// known of a dictionary may stay.
    pub(super) fn refresh(&mut self) {
        let used = self.used.iter_mut().filter(|used| used.is_used());
        for used in used.filter(|used| used.verdicts.is_none()) {
            if used.filter.filter.snapshot_generation() != used.known.generation {
                used.known = used.filter.known();
            }
        }
    }

    /// Returns whether no row of the row group passes, by what was loaded of it.
    pub(super) fn rule_out(&mut self, blocks: &impl Blocks) -> bool {
        let mut used = self.used.iter_mut().filter(|used| used.is_used());
        let in_all = self.rows_in_all;
        used.any(|used| used.rules_out(blocks, in_all))
    }

    /// Leaves out the rows of a block that was selected last that do not pass, one filter after the other, and
    /// decodes the columns of a filter if rows are left.
    ///
    /// # Errors
    /// A column that was not read.
    pub(super) fn restrict(
        &mut self,
        run: &mut HostRun,
        blocks: &mut impl Blocks,
        rows: usize,
        mut selected: Selected,
    ) -> Result<Selected, Stopped> {
        for used in self.used.iter_mut().filter(|used| used.is_used()) {
            if selected == Selected::None {
                break;
            }
            for input in &used.inputs {
                blocks.decode(*input)?;
            }
            if let Some(passed) = used.pass(blocks, run.selected(), rows, self.rows_in_all) {
                let left = run.restrict(&passed);
                self.left_out += count(selected) - count(left);
                selected = left;
            }
        }
        Ok(selected)
    }
}

/// Lets NULLs pass: of them the join or the top-k decides.
pub(super) fn pass_nulls(passed: &mut [u8], chunk: &Chunk<'_>) {
    for (passes, valid) in passed.iter_mut().zip(chunk.validity.unwrap_or_default()) {
        *passes |= u8::from(*valid == 0);
    }
}

fn count(selected: Selected) -> usize {
    match selected {
        Selected::None => 0,
        Selected::Some(rows) => rows,
    }
}

impl Used {
    fn is_used(&self) -> bool {
        !self.inputs.is_empty()
    }

    fn begin(&mut self, program: &HostProgram) {
        let known = self.filter.known();
        if known.generation != self.known.generation {
            (self.rows, self.left_out) = (0, 0);
        }
        self.known = known;
        self.verdicts = None;
        self.inputs.clear();
        if matches!(self.known.says, Says::Nothing) || self.dropped == Some(self.known.generation) {
            return;
        }
        let place = |column: &usize| {
            let mut inputs = program.inputs().iter();
            inputs.position(|input| input.column == *column)
        };
        let inputs: Option<Vec<usize>> = self.filter.columns.iter().map(place).collect();
        // What the program does not read is not decoded for a filter alone.
        self.inputs = inputs.unwrap_or_default();
    }

    /// Looks the entries of the only input's dictionary up, if it has one.
    fn verdicts(&mut self, blocks: &impl Blocks, in_all: u64) -> Option<&[u8]> {
        let ([input], Says::Rows(predicate)) = (self.inputs.as_slice(), &self.known.says) else {
            return None;
        };
        if self.verdicts.is_none() {
            self.verdicts = predicate.entries(blocks.entries(*input)?, in_all);
        }
        self.verdicts.as_deref()
    }

    fn rules_out(&mut self, blocks: &impl Blocks, in_all: u64) -> bool {
        match &self.known.says {
            Says::Nothing => return false,
            Says::NoRow => return true,
            // A NULL is none of the entries.
            Says::Rows(predicate) if predicate.nulls_pass() => return false,
            Says::Rows(_) => {}
        }
        let is_all_codes = matches!(self.inputs[..], [input] if blocks.is_all_codes(input));
        let verdicts = is_all_codes
            .then(|| self.verdicts(blocks, in_all))
            .flatten();
        verdicts.is_some_and(|verdicts| !verdicts.contains(&1))
    }

    fn pass(
        &mut self,
        blocks: &impl Blocks,
        selected: Option<&[u8]>,
        rows: usize,
        in_all: u64,
    ) -> Option<Vec<u8>> {
        let passed = match &self.known.says {
            Says::Nothing => return None,
            Says::NoRow => vec![0; rows],
            Says::Rows(_) => self.evaluate(blocks, selected, rows, in_all)?,
        };
        self.rows += rows;
        self.left_out += passed.iter().filter(|passes| **passes == 0).count();
        if self.rows >= TRIAL_ROWS && self.left_out < self.rows / LEFT_OUT_MIN {
            self.dropped = Some(self.known.generation);
            self.inputs.clear();
            (self.rows, self.left_out) = (0, 0);
        }
        Some(passed)
    }

    fn evaluate(
        &mut self,
        blocks: &impl Blocks,
        selected: Option<&[u8]>,
        rows: usize,
        in_all: u64,
    ) -> Option<Vec<u8>> {
        let chunks = self.inputs.iter().map(|input| blocks.chunk(*input));
        let chunks: Vec<Chunk<'_>> = chunks.collect::<Option<_>>()?;
        if let [chunk] = chunks[..]
            && let Some(codes) = codes(&chunk.values, rows)
            && let Some(verdicts) = self.verdicts(blocks, in_all)
        {
            let passes = |code: &u32| verdicts.get(*code as usize).copied().unwrap_or(1);
            let mut passed: Vec<u8> = codes.iter().map(passes).collect();
            pass_nulls(&mut passed, &chunk);
            return Some(passed);
        }
        let Says::Rows(predicate) = &self.known.says else {
            return None;
        };
        let entries: Vec<Option<&Entries>> = self
            .inputs
            .iter()
            .map(|input| blocks.entries(*input))
            .collect();
        predicate.rows(&chunks, &entries, selected, rows, in_all)
    }
}

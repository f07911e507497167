//! A lazy frame: a plan, and the session that runs it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::Column;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use pyo3::prelude::{PyAnyMethods, pyclass, pymethods};
use pyo3::types::PyCapsule;
use pyo3::{Bound, Py, PyAny, PyResult, Python};
use tidegate::{Backend, CancelHandle, Error, ErrorKind, FrameExt, MapOptions};

use crate::aggregation;
use crate::connection::Engine;
use crate::error::raise;
use crate::expr::Scope;
use crate::functions::mapped;
use crate::job::Job;
use crate::joins::Join;
use crate::remote::Queries;
use crate::rows::{Batches, Schema, Stream};
use crate::runtime::wait;
use crate::types;

/// A lazy frame.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Frame {
    pub(crate) engine: Engine,
    pub(crate) frame: DataFrame,
    /// What it is built on, if it is of a server.
    pub(crate) remote: Option<Queries>,
    /// The table that it is as a whole, if it is one.
    pub(crate) table: Option<Arc<dyn TableProvider>>,
}

impl Frame {
    pub(crate) fn new(engine: &Engine, frame: DataFrame, remote: Option<Queries>) -> Self {
        Self {
            engine: engine.clone(),
            frame,
            remote,
            table: None,
        }
    }

    /// Returns the frame as a table.
    pub(crate) fn provider(&self) -> Arc<dyn TableProvider> {
        match &self.table {
            Some(table) => Arc::clone(table),
            None => self.frame.clone().into_view(),
        }
    }

    fn with(&self, frame: DataFrame) -> Self {
        Self::new(&self.engine, frame, self.remote.clone())
    }

    /// Builds another frame.
    fn checked<E: Into<Error>>(
        &self,
        build: impl FnOnce() -> Result<DataFrame, E>,
    ) -> PyResult<Self> {
        let frame = on_large_stack(build)
            .map_err(|error| raise(&self.engine.planner().explained(error)))?;
        Ok(self.with(frame))
    }

    /// Builds something with the names of this frame.
    fn scoped<T>(&self, build: impl FnOnce(Scope<'_>) -> PyResult<T>) -> PyResult<T> {
        let (state, plan) = self.frame.clone().into_parts();
        on_large_stack(|| build(Scope::new(&state, plan.schema())))
    }

    /// Makes a frame of a server one query of its own, before or after it is combined with another.
    fn sealed(&self) -> PyResult<Self> {
        let Some(queries) = &self.remote else {
            return Ok(self.with(self.frame.clone()));
        };
        let sealed = queries.sealed(self.engine.planner(), self.frame.logical_plan());
        let (frame, queries) = sealed.map_err(|error| raise(&error))?;
        Ok(Self::new(&self.engine, frame, Some(queries)))
    }

    /// Makes a frame of a server one query of its own where SQL has no way to build on its last step: after
    /// LIMIT and DISTINCT, and after ORDER BY where the order is lost anyway.
    fn to_build_on(&self, keeps_order: bool) -> PyResult<Option<Self>> {
        let is_closed = match self.frame.logical_plan() {
            LogicalPlan::Limit(_) | LogicalPlan::Distinct(_) => true,
            LogicalPlan::Sort(_) => !keeps_order,
            _ => false,
        };
        match self.remote.is_some() && is_closed {
            true => self.sealed().map(Some),
            false => Ok(None),
        }
    }

    /// Refuses to combine frames of two connections.
    fn and(&self, other: &Self) -> PyResult<Option<Queries>> {
        if !self.engine.is_same(&other.engine) {
            let message = "the frames are of two connections: a statement runs in one";
            return Err(raise(&Error::new(ErrorKind::Sql, message)));
        }
        match (&self.remote, &other.remote) {
            (Some(own), Some(other)) => own.and(other).map(Some).map_err(|error| raise(&error)),
            _ => Ok(None),
        }
    }

    /// Returns what runs the frame.
    fn work(
        &self,
        cancel: &CancelHandle,
        plan: DataFrame,
    ) -> impl Future<Output = Result<Stream, Error>> + Send + 'static {
        self.engine.run(plan, self.remote.clone(), cancel.clone())
    }

    fn unsupported_there(&self, what: &str) -> PyResult<()> {
        match self.remote {
            None => Ok(()),
            Some(_) => {
                let message = format!("{what} is for frames of this process, and not of a server");
                Err(raise(&Error::new(ErrorKind::NotSupported, message)))
            }
        }
    }
}

#[pymethods]
impl Frame {
    /// The columns.
    #[getter]
    fn schema(&self) -> Schema {
        let schema: SchemaRef = Arc::clone(self.frame.schema().inner());
        Schema(schema)
    }

    /// Selects expressions; an aggregate beside other columns is the same for every row.
    fn select(&self, nodes: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(sealed) = self.to_build_on(true)? {
            return sealed.select(nodes);
        }
        let exprs = self.scoped(|scope| scope.exprs(nodes))?;
        self.checked(|| aggregation::select(self.frame.clone(), exprs))
    }

    /// Adds columns, or replaces those of the same name.
    fn with_columns(&self, pairs: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(sealed) = self.to_build_on(true)? {
            return sealed.with_columns(pairs);
        }
        let exprs = self.scoped(|scope| {
            let mut exprs = Vec::new();
            for pair in pairs.try_iter()? {
                let (name, node): (String, Bound<'_, PyAny>) = pair?.extract()?;
                exprs.push((name, scope.expr(&node)?));
            }
            Ok(exprs)
        })?;
        let build = || {
            let mut columns: Vec<(String, Expr)> = Vec::new();
            for (qualifier, field) in self.frame.schema().iter() {
                let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
                columns.push((field.name().clone(), column));
            }
            for (name, expr) in exprs {
                let expr = aggregation::over_all(expr)?;
                match columns.iter_mut().find(|(there, _)| *there == name) {
                    Some(there) => there.1 = expr,
                    None => columns.push((name, expr)),
                }
            }
            let columns = columns
                .into_iter()
                .map(|(name, expr)| expr.unalias().alias(name));
            self.frame.clone().select(columns.collect::<Vec<_>>())
        };
        self.checked(build)
    }

    /// Keeps the rows for which a condition is true.
    fn filter(&self, node: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(sealed) = self.to_build_on(true)? {
            return sealed.filter(node);
        }
        let condition = self.scoped(|scope| scope.expr(node))?;
        let is_plain = aggregation::stands_free(&condition).map(|has| !has);
        let has_window =
            !datafusion::logical_expr::utils::find_window_exprs([&condition]).is_empty();
        if has_window || !is_plain.unwrap_or(true) {
            let message = "a filter takes no aggregate or window: make a column of it by with_columns() first";
            return Err(raise(&Error::new(ErrorKind::Sql, message)));
        }
        self.checked(|| self.frame.clone().filter(condition))
    }

    /// Makes aggregates of each group.
    fn aggregate(&self, groups: &Bound<'_, PyAny>, nodes: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(sealed) = self.to_build_on(false)? {
            return sealed.aggregate(groups, nodes);
        }
        let (groups, exprs) =
            self.scoped(|scope| Ok((scope.exprs(groups)?, scope.exprs(nodes)?)))?;
        self.checked(|| aggregation::aggregate(self.frame.clone(), groups, exprs))
    }

    /// Joins with another frame by columns that are equal.
    fn join(
        &self,
        other: &Self,
        keys: (Vec<String>, Vec<String>),
        how: String,
        suffix: String,
        coalesce: Option<bool>,
    ) -> PyResult<Self> {
        let (left, right) = (self.sealed()?, other.sealed()?);
        let remote = left.and(&right)?;
        for (frame, names) in [(self, &keys.0), (other, &keys.1)] {
            names
                .iter()
                .try_for_each(|name| frame.scoped(|scope| scope.column(name).map(drop)))?;
        }
        let join = Join {
            keys,
            how,
            suffix,
            coalesce,
        };
        let frame = on_large_stack(|| join.of(left.frame, right.frame))?;
        Self::new(&self.engine, frame, remote).sealed()
    }

    /// Adds the rows of another frame.
    fn union(&self, other: &Self, is_by_name: bool, is_distinct: bool) -> PyResult<Self> {
        let (own, others) = (self.sealed()?, other.sealed()?);
        let remote = own.and(&others)?;
        let (own, others) = (own.frame, others.frame);
        let frame = match (is_by_name, is_distinct) {
            (false, false) => own.union(others),
            (false, true) => own.union_distinct(others),
            (true, false) => own.union_by_name(others),
            (true, true) => own.union_by_name_distinct(others),
        };
        let frame = frame.map_err(|error| raise(&self.engine.planner().explained(error)))?;
        Self::new(&self.engine, frame, remote).sealed()
    }

    /// Sorts the rows.
    fn sort(&self, items: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(sealed) = self.to_build_on(false)? {
            return sealed.sort(items);
        }
        let sorts = self.scoped(|scope| scope.sorts(items))?;
        self.checked(|| self.frame.clone().sort(sorts))
    }

    /// Skips rows, and keeps so many of the others.
    fn limit(&self, skip: usize, fetch: Option<usize>) -> PyResult<Self> {
        if let Some(sealed) = self.to_build_on(true)? {
            return sealed.limit(skip, fetch);
        }
        self.checked(|| self.frame.clone().limit(skip, fetch))
    }

    /// Keeps one row of each that are alike in all columns, or in these.
    fn distinct(&self, columns: Option<Vec<String>>) -> PyResult<Self> {
        if let Some(sealed) = self.to_build_on(false)? {
            return sealed.distinct(columns);
        }
        let Some(columns) = columns else {
            return self.checked(|| self.frame.clone().distinct());
        };
        let (on, all) = self.scoped(|scope| {
            let on = columns
                .iter()
                .map(|name| scope.column(name))
                .collect::<PyResult<Vec<_>>>()?;
            let fields = self.frame.schema().fields().iter();
            let all = fields
                .map(|field| scope.column(field.name()))
                .collect::<PyResult<Vec<_>>>()?;
            Ok((on, all))
        })?;
        self.checked(|| self.frame.clone().distinct_on(on, all, None))
    }

    /// Makes a row of each element of lists.
    fn explode(&self, columns: Vec<String>) -> PyResult<Self> {
        if let Some(sealed) = self.to_build_on(true)? {
            return sealed.explode(columns);
        }
        let plain = self.scoped(|scope| {
            let fields = self.frame.schema().fields().iter();
            let plain = fields.map(|field| Ok(scope.column(field.name())?.alias(field.name())));
            plain.collect::<PyResult<Vec<_>>>()
        })?;
        for name in &columns {
            self.scoped(|scope| scope.column(name).map(drop))?;
        }
        let build = || {
            let (state, plan) = self.frame.clone().select(plain)?.into_parts();
            let columns = columns.into_iter().map(Column::from_name).collect();
            let plan = LogicalPlanBuilder::from(plan)
                .unnest_columns_with_options(columns, Default::default())?
                .build()?;
            Ok::<_, datafusion::error::DataFusionError>(DataFrame::new(state, plan))
        };
        self.checked(build)
    }

    /// Runs the frame's regions on the host, on devices, or wherever they are done first.
    fn to_backend(&self, backend: &str) -> PyResult<Self> {
        self.unsupported_there("to_backend()")?;
        let backend: Backend = backend.parse().map_err(|error| raise(&error))?;
        self.checked(|| self.frame.clone().to_backend(backend))
    }

    /// Maps each batch by a Python function, which gives a batch of these columns.
    fn map_partitions(
        &self,
        body: Py<PyAny>,
        schema: &Bound<'_, PyAny>,
        name: String,
    ) -> PyResult<Self> {
        self.unsupported_there("map_partitions()")?;
        let schema: SchemaRef = Arc::new(types::schema(schema)?);
        let options = MapOptions {
            name: Some(name),
            ..MapOptions::default()
        };
        let body = mapped(body, Arc::clone(&schema));
        self.checked(|| self.frame.clone().map_partitions(schema, options, body))
    }

    /// Shows the plan; runs it first if asked to.
    fn explain(&self, is_verbose: bool, is_analyzed: bool) -> PyResult<Job> {
        let cancel = CancelHandle::new();
        if let Some(queries) = &self.remote {
            let text = queries
                .text(self.frame.logical_plan())
                .map_err(|error| raise(&error))?;
            let kind = if is_analyzed {
                "EXPLAIN ANALYZE"
            } else {
                "EXPLAIN"
            };
            let verbose = if is_verbose { " VERBOSE" } else { "" };
            let work = self
                .engine
                .execute(format!("{kind}{verbose} {text}"), queries.values.clone());
            return Job::start(self.engine.clone(), cancel, work);
        }
        let plan = self.frame.clone().explain(is_verbose, is_analyzed);
        let plan = plan.map_err(|error| raise(&self.engine.planner().explained(error)))?;
        let work = self.work(&cancel, plan);
        Job::start(self.engine.clone(), cancel, work)
    }

    /// Starts to collect the rows.
    fn start(&self) -> PyResult<Job> {
        let cancel = CancelHandle::new();
        let work = self.work(&cancel, self.frame.clone());
        Job::start(self.engine.clone(), cancel, work)
    }

    /// Starts to write the rows to files.
    fn write(
        &self,
        path: String,
        format: &str,
        options: HashMap<String, String>,
        partition_by: Vec<String>,
    ) -> PyResult<Job> {
        self.unsupported_there("writing files")?;
        let factory: Arc<dyn FileFormatFactory> = match format {
            "parquet" => Arc::new(ParquetFormatFactory::new()),
            "csv" => Arc::new(CsvFormatFactory::new()),
            _ => Arc::new(JsonFormatFactory::new()),
        };
        let (state, plan) = self.frame.clone().into_parts();
        let file_type = format_as_file_type(factory);
        let plan = LogicalPlanBuilder::copy_to(plan, path, file_type, options, partition_by);
        let plan = plan.and_then(LogicalPlanBuilder::build);
        let plan = plan.map_err(|error| raise(&self.engine.planner().explained(error)))?;
        let cancel = CancelHandle::new();
        let work = self.work(&cancel, DataFrame::new(state, plan));
        Job::start(self.engine.clone(), cancel, work)
    }

    /// Streams the rows: the statement starts now, and each batch is made when it is asked for.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let cancel = CancelHandle::new();
        let work = self.work(&cancel, self.frame.clone());
        let stream = wait(py, &cancel, work)?;
        stream.export(py, cancel, requested_schema)
    }

    /// Starts the statement, for its batches to be asked for one after the other.
    fn open(&self, py: Python<'_>) -> PyResult<Batches> {
        let cancel = CancelHandle::new();
        let work = self.work(&cancel, self.frame.clone());
        let stream = wait(py, &cancel, work)?;
        Ok(Batches::new(stream, cancel))
    }

    /// The SQL that is sent to a server; `None` for a frame of this process.
    fn sql(&self) -> PyResult<Option<String>> {
        let text = self
            .remote
            .as_ref()
            .map(|queries| queries.text(self.frame.logical_plan()));
        text.transpose().map_err(|error| raise(&error))
    }

    /// The type of an expression over the frame's columns.
    fn type_of(&self, node: &Bound<'_, PyAny>) -> PyResult<String> {
        let expr = self.scoped(|scope| scope.expr(node))?;
        let known: Result<DataType, _> = expr.get_type(self.frame.schema());
        let known = known.map_err(|error| raise(&self.engine.planner().explained(error)))?;
        Ok(known.to_string())
    }
}

/// Stack that recursion over deep expressions takes; only pages that are touched cost memory.
const STACK_BYTES: usize = 64 << 20;

/// Stack that a thread of Python hardly has, so that the other one is taken.
const RED_ZONE_BYTES: usize = 16 << 20;

/// Does something that recurses over expressions.
fn on_large_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE_BYTES, STACK_BYTES, work)
}

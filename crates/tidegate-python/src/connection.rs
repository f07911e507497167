//! Sessions: of this process, or of a server.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::TableReference;
use datafusion::dataframe::DataFrame;
use futures::{StreamExt, TryStreamExt};
use pyo3::prelude::{PyAnyMethods, pyclass, pymethods};
use pyo3::types::{PyDict, PyDictMethods};
use pyo3::{Bound, Py, PyAny, PyRef, PyResult, Python};
use pyo3_arrow::input::AnyRecordBatch;
use tidegate::{
    CancelHandle, Error, ErrorKind, Planned, QueryProgress, SimulatedSpec, StatementKind,
    StoreOptions,
};
use tidegate_flight::{ConnectOptions, RemoteSession};

use crate::error::raise;
use crate::frame::Frame;
use crate::functions::Function;
use crate::job::Job;
use crate::literal::parameters;
use crate::order::kept;
use crate::remote::Queries;
use crate::rows::Stream;
use crate::runtime::{runtime, wait};
use crate::tasks::{Call, CallNeeds};

/// Rows of one batch of a table from outside: what one thread takes at a time.
const BATCH_ROWS: usize = 131_072;

/// What runs statements.
#[derive(Clone)]
pub(crate) enum Engine {
    /// A session of this process.
    Local(tidegate::Session),
    /// A session of a server, and one of this process that plans for it.
    Remote(Box<RemoteSession>, tidegate::Session),
}

impl Engine {
    /// Returns the session that plans frames.
    pub(crate) fn planner(&self) -> &tidegate::Session {
        match self {
            Self::Local(session) | Self::Remote(_, session) => session,
        }
    }

    /// Tells whether both are the same session.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let id = |engine: &Self| engine.planner().context().session_id();
        id(self) == id(other)
    }

    /// Runs a frame.
    pub(crate) fn run(
        &self,
        frame: DataFrame,
        remote: Option<Queries>,
        cancel: CancelHandle,
    ) -> impl Future<Output = Result<Stream, Error>> + Send + 'static {
        let engine = self.clone();
        async move {
            match (engine, remote) {
                (Self::Local(session), _) => {
                    let rows = session.start_frame(kept(frame), &cancel).await?;
                    Ok(Stream {
                        schema: rows.schema(),
                        batches: rows.map_err(Error::from).boxed(),
                    })
                }
                (engine @ Self::Remote(..), Some(queries)) => {
                    let text = queries.text(frame.logical_plan())?;
                    engine.execute(text, queries.values).await
                }
                (Self::Remote(..), None) => {
                    let message = "rows of this process cannot be sent to a server: load them into a table there";
                    Err(Error::new(ErrorKind::NotSupported, message))
                }
            }
        }
    }

    /// Runs a statement's text.
    pub(crate) fn execute(
        &self,
        sql: String,
        values: Option<RecordBatch>,
    ) -> impl Future<Output = Result<Stream, Error>> + Send + 'static {
        let engine = self.clone();
        async move {
            match engine {
                Self::Local(session) => {
                    let rows = session.execute(&sql).await?;
                    Ok(Stream {
                        schema: rows.schema(),
                        batches: rows.map_err(Error::from).boxed(),
                    })
                }
                Self::Remote(session, _) => {
                    let rows = match values {
                        Some(values) if values.num_columns() > 0 => {
                            session.execute_with(&sql, values).await?
                        }
                        _ => session.execute(&sql).await?,
                    };
                    Ok(Stream {
                        schema: rows.schema(),
                        batches: rows.boxed(),
                    })
                }
            }
        }
    }

    /// Tells how far a statement has come.
    pub(crate) fn progress(
        &self,
        py: Python<'_>,
        cancel: &CancelHandle,
    ) -> PyResult<Option<QueryProgress>> {
        match self {
            Self::Local(session) => Ok(session.progress_of(cancel)),
            Self::Remote(session, _) => {
                let session = session.clone();
                wait(py, &CancelHandle::new(), async move {
                    Ok(session.progress().await)
                })
            }
        }
    }
}

/// A session.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Session {
    engine: Engine,
}

impl Session {
    fn local_only(&self, what: &str) -> PyResult<&tidegate::Session> {
        match &self.engine {
            Engine::Local(session) => Ok(session),
            Engine::Remote(..) => {
                let message =
                    format!("{what} is for sessions of this process, and not of a server");
                Err(raise(&Error::new(ErrorKind::NotSupported, message)))
            }
        }
    }

    fn plan_local(
        &self,
        py: Python<'_>,
        session: tidegate::Session,
        sql: String,
        values: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(bool, Frame)> {
        let cancel = CancelHandle::new();
        let planned = wait(py, &cancel, async move { session.plan(&sql).await })?;
        let planned = match values {
            None => planned,
            Some(values) => {
                let values = parameters(&planned, &values)?;
                wait(py, &cancel, async move { planned.bind(&values, 0).await })?
            }
        };
        if planned.kind() == StatementKind::Query {
            let frame = wait(py, &cancel, async move { planned.frame().await })?;
            // Only types that are coerced are those of the rows.
            let (state, plan) = frame.into_parts();
            let plan = state
                .analyzer()
                .execute_and_check(plan, state.config_options(), |_, _| {})
                .map_err(|error| raise(&error.into()))?;
            let frame = DataFrame::new(state, plan);
            return Ok((true, Frame::new(&self.engine, frame, None)));
        }
        let job = Job::start(
            self.engine.clone(),
            cancel.clone(),
            started(planned, cancel),
        )?;
        self.answer(py, &job)
    }

    fn plan_remote(
        &self,
        py: Python<'_>,
        session: &RemoteSession,
        sql: String,
        values: Option<Bound<'_, PyAny>>,
        is_query: bool,
    ) -> PyResult<(bool, Frame)> {
        let cancel = CancelHandle::new();
        let (remote, text) = (session.clone(), sql.clone());
        let values = match values {
            None => None,
            Some(values) => Some(crate::literal::row(&values)?),
        };
        if !is_query {
            let work = self.engine.execute(sql, values);
            let job = Job::start(self.engine.clone(), cancel, work)?;
            return self.answer(py, &job);
        }
        let (columns, _) = wait(py, &cancel, async move { remote.columns(&text).await })?;
        let framed = Queries::frame(self.engine.planner(), &sql, Arc::new(columns), values);
        let (frame, queries) = framed.map_err(|error| raise(&error))?;
        Ok((true, Frame::new(&self.engine, frame, Some(queries))))
    }

    /// Makes a frame of what a statement answered.
    fn answer(&self, py: Python<'_>, job: &Job) -> PyResult<(bool, Frame)> {
        let (schema, batches) = job.collected(py)?;
        // The answer of a server lies here: so does its frame.
        let engine = Engine::Local(self.engine.planner().clone());
        let frame = table_frame(&engine, schema, batches)?;
        Ok((false, frame))
    }
}

async fn started(planned: Planned, cancel: CancelHandle) -> Result<Stream, Error> {
    let rows = planned.start(&cancel).await?;
    Ok(Stream {
        schema: rows.schema(),
        batches: rows.map_err(Error::from).boxed(),
    })
}

/// Makes a frame of batches in memory, which are not copied.
fn table_frame(engine: &Engine, schema: SchemaRef, batches: Vec<RecordBatch>) -> PyResult<Frame> {
    let session = engine.planner();
    let table = MemTable::try_new(schema, vec![cut(batches)]);
    let table: Arc<dyn TableProvider> = Arc::new(table.map_err(|error| raise(&error.into()))?);
    let frame = session.context().read_table(Arc::clone(&table));
    let frame = frame.map_err(|error| raise(&error.into()))?;
    Ok(Frame {
        table: Some(table),
        ..Frame::new(engine, frame, None)
    })
}

/// Cuts batches into slices, which threads can share. They stay in their order: a plan that gains by it spreads
/// them over partitions, and a plain scan keeps the rows as they are.
fn cut(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    let mut slices = Vec::new();
    for batch in batches {
        if batch.num_rows() <= 2 * BATCH_ROWS {
            slices.push(batch);
            continue;
        }
        let starts = (0..batch.num_rows()).step_by(BATCH_ROWS);
        slices.extend(
            starts.map(|start| batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start))),
        );
    }
    slices
}

#[pymethods]
impl Session {
    /// Makes a session of this process.
    #[staticmethod]
    fn local(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        runtime()?;
        let mut builder = tidegate::Session::builder();
        for (name, value) in options.iter() {
            let name: String = name.extract()?;
            builder = match name.as_str() {
                "memory_limit" => builder.memory_limit(value.extract()?),
                "device_memory_limit" => builder.device_memory_limit(value.extract()?),
                "temp_limit" => builder.temp_limit(value.extract()?),
                "temp_dir" => builder.temp_dir(value.extract::<PathBuf>()?),
                "threads" => builder.target_partitions(value.extract()?),
                "visible_devices" => builder.visible_devices(value.extract()?),
                "site_packages" => builder.site_packages(value.extract()?),
                "kernel_folder" => builder.kernel_folder(value.extract()?),
                "rates_folder" => builder.rates_folder(value.extract()?),
                "simulate_device" => {
                    let mut builder = builder;
                    for spec in value.extract::<Vec<String>>()? {
                        let spec: SimulatedSpec = spec.parse().map_err(|error| {
                            let message = format!("simulate_device '{spec}': {error}");
                            raise(&Error::new(ErrorKind::Sql, message))
                        })?;
                        builder = builder.simulate_device(spec);
                    }
                    builder
                }
                "task_slots" => {
                    let slots = value.extract::<HashMap<String, u32>>()?.into_iter();
                    slots.fold(builder, |builder, (name, count)| {
                        builder.task_slots(name, count)
                    })
                }
                "stores" => {
                    type Variables = Vec<(String, String)>;
                    type Options = Vec<(String, String, String)>;
                    let (variables, options): (Variables, Options) = value.extract()?;
                    let mut stores = StoreOptions::from_variables(variables);
                    for (place, name, value) in options {
                        stores
                            .set(&place, &name, &value)
                            .map_err(|error| raise(&error))?;
                    }
                    builder.stores(stores)
                }
                other => {
                    let message = format!("connect() has no option '{other}'");
                    return Err(crate::error::wrong_type(message));
                }
            };
        }
        let builder = builder.file_urls();
        let session = wait(py, &CancelHandle::new(), async move { builder.build() })?;
        Ok(Self {
            engine: Engine::Local(session),
        })
    }

    /// Connects to a server.
    #[staticmethod]
    fn remote(
        py: Python<'_>,
        url: String,
        user: Option<String>,
        password: Option<String>,
        token: Option<String>,
        ca: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        let options = ConnectOptions {
            url,
            user,
            password,
            token,
            ca,
        };
        let connected = async move {
            let remote = RemoteSession::connect(&options).await?;
            // It plans and runs nothing, so it needs no device.
            let planner = tidegate::Session::builder().visible_devices(Some(String::new()));
            Ok(Engine::Remote(Box::new(remote), planner.build()?))
        };
        let engine = wait(py, &CancelHandle::new(), connected)?;
        Ok(Self { engine })
    }

    /// The server's URL; `None` for a session of this process.
    #[getter]
    fn url(&self) -> Option<String> {
        match &self.engine {
            Engine::Local(_) => None,
            Engine::Remote(session, _) => Some(session.url()),
        }
    }

    /// Plans a statement, with these frames as further tables. A query is lazy; anything else runs, and its
    /// answer is a frame. Returns which of them it is, and the frame.
    #[pyo3(signature = (sql, values, tables, is_query))]
    fn plan(
        &self,
        py: Python<'_>,
        sql: String,
        values: Option<Bound<'_, PyAny>>,
        tables: HashMap<String, PyRef<'_, Frame>>,
        is_query: bool,
    ) -> PyResult<(bool, Frame)> {
        match &self.engine {
            Engine::Remote(session, _) => self.plan_remote(py, session, sql, values, is_query),
            Engine::Local(session) if tables.is_empty() => {
                self.plan_local(py, session.clone(), sql, values)
            }
            Engine::Local(session) => {
                let tables = tables.into_iter();
                let tables = tables.map(|(name, frame)| (name, frame.frame.clone().into_view()));
                let session = session.with_tables(tables.collect());
                self.plan_local(py, session, sql, values)
            }
        }
    }

    /// Lists the tables that a statement names and that there are not.
    fn missing_tables(&self, sql: &str) -> PyResult<Vec<String>> {
        match &self.engine {
            Engine::Local(session) => session.missing_tables(sql).map_err(|error| raise(&error)),
            Engine::Remote(..) => Ok(Vec::new()),
        }
    }

    /// Makes a frame of anything that exports Arrow batches; nothing is copied that need not be.
    #[pyo3(name = "from_arrow")]
    fn frame_of_arrow(&self, py: Python<'_>, data: AnyRecordBatch) -> PyResult<Frame> {
        self.local_only("from_arrow()")?;
        let reader = data.into_reader()?;
        let schema = reader.schema();
        let batches = py.detach(move || reader.collect::<Result<Vec<_>, _>>());
        let batches = batches.map_err(|error| {
            let message = format!("the Arrow data cannot be read: {error}");
            raise(&Error::with_source(ErrorKind::Sql, message, error))
        })?;
        // Streams may name other metadata than their batches.
        let same = |batch: RecordBatch| {
            batch
                .clone()
                .with_schema(Arc::clone(&schema))
                .unwrap_or(batch)
        };
        table_frame(
            &self.engine,
            Arc::clone(&schema),
            batches.into_iter().map(same).collect(),
        )
    }

    /// Gives a frame a name.
    fn register(&self, name: &str, frame: &Frame, replaces: bool) -> PyResult<()> {
        let session = self.local_only("register()")?;
        let name = TableReference::bare(name);
        let register = || {
            if replaces {
                session.context().deregister_table(name.clone())?;
            }
            session.context().register_table(name, frame.provider())
        };
        let registered = register();
        registered
            .map(drop)
            .map_err(|error| raise(&session.explained(error)))
    }

    /// Takes a table's name away; returns whether there was one.
    fn unregister(&self, name: &str) -> PyResult<bool> {
        let session = self.local_only("unregister()")?;
        let gone = session
            .context()
            .deregister_table(TableReference::bare(name));
        gone.map(|table| table.is_some())
            .map_err(|error| raise(&error.into()))
    }

    /// Adds a Python function, for SQL and frames by its name.
    fn register_function(&self, function: &Function) -> PyResult<()> {
        let session = self.local_only("create_function()")?;
        session.context().register_udf(function.0.as_ref().clone());
        Ok(())
    }

    /// Makes a call on a thread of the engine when what it needs is free, and then calls `done` with its value and
    /// its exception. For a server it is a session of this process that does.
    fn submit_call(
        &self,
        name: String,
        body: Py<PyAny>,
        done: Py<PyAny>,
        needs: CallNeeds,
    ) -> PyResult<Call> {
        Call::submit(self.engine.planner(), name, body, done, needs)
    }

    /// Lists the names of functions.
    fn functions(&self) -> Vec<String> {
        let state = self.engine.planner().context().state();
        let scalar = state.scalar_functions().keys();
        let others = state
            .aggregate_functions()
            .keys()
            .chain(state.window_functions().keys());
        let mut names: Vec<String> = scalar.chain(others).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// Reports the query that ended last in this process: its number, its text, and where it ran.
    fn last_report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let session = self.local_only("last_report()")?;
        let Some(report) = session.last_report() else {
            return Ok(None);
        };
        let told = PyDict::new(py);
        told.set_item("id", report.id)?;
        told.set_item("sql", report.sql.as_deref())?;
        told.set_item("state", report.state.to_string())?;
        told.set_item("plan_seconds", report.plan_seconds)?;
        told.set_item("seconds", report.seconds)?;
        told.set_item("rows", report.rows)?;
        told.set_item("peak_bytes", report.peak_bytes)?;
        told.set_item("error", report.error.as_deref())?;
        told.set_item("note", report.note.as_deref())?;
        told.set_item("placement", report.to_string())?;
        Ok(Some(told))
    }

    /// Lists the devices: names and descriptions.
    fn devices(&self) -> PyResult<Vec<(String, String)>> {
        Ok(self.local_only("devices()")?.device_names())
    }

    /// Ends the session on its server.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Engine::Remote(session, _) = &self.engine else {
            return Ok(());
        };
        let session = session.clone();
        wait(py, &CancelHandle::new(), async move {
            session.close().await;
            Ok(())
        })
    }
}

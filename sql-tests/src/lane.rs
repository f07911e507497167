//! The lanes: one way to answer SQL each, under one name used in test names, `onlyif` and `skipif`.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use sqllogictest::{AsyncDB, DBOutput};

use crate::cluster::{ClusterLaneError, ClusterSession};
use crate::flight::{FlightLaneError, FlightSession};
use crate::format::{self, ColumnKind};
use crate::gpus::{Gpus, NoGpu};
use crate::replanned::ReplannedSession;

/// A statement that takes longer has hung.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(240);

/// The simulated device's memory.
const DEVICE_BYTES: u64 = 2_000_000_000;

/// One way to answer SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// A Tidegate session without any device.
    Host,
    /// The same behind a server, through a Flight SQL client.
    Flight,
    /// The same over two executors, wherever a statement can be spread.
    Cluster,
    /// The same where the first hash join of a statement lacks memory: it is planned again, for operators that spill.
    Replanned,
    /// Additive regions whose morsels go to the host and to the simulated device in turn.
    Simulated,
    /// The simulated device answers all that it can express.
    Atomic,
    /// A GPU answers all that it can express.
    Device,
    /// Additive regions whose morsels go to the host and to a GPU in turn.
    Mixed,
    /// Plain DataFusion, which is where expected answers come from.
    Stock,
}

impl Lane {
    /// The lanes that every run covers; `Stock` has to be asked for.
    pub const TESTED: [Self; 8] = [
        Self::Host,
        Self::Flight,
        Self::Cluster,
        Self::Replanned,
        Self::Simulated,
        Self::Atomic,
        Self::Device,
        Self::Mixed,
    ];

    /// Gives the name used in test names and as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Flight => "flight",
            Self::Cluster => "cluster",
            Self::Replanned => "replanned",
            Self::Simulated => "simulated",
            Self::Atomic => "atomic",
            Self::Device => "device",
            Self::Mixed => "mixed",
            Self::Stock => "stock",
        }
    }

    /// Looks a lane up by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|lane| lane.name() == name)
    }

    fn all() -> impl Iterator<Item = Self> {
        Self::TESTED.into_iter().chain([Self::Stock])
    }

    /// Tells whether the lane is one that a machine without a GPU skips.
    pub fn needs_gpu(self) -> bool {
        matches!(self, Self::Device | Self::Mixed)
    }

    /// Reads from the environment which lanes run: `TIDEGATE_SLT_LANE` has their names, with commas
    /// between them; without it all of [`Lane::TESTED`] do.
    ///
    /// # Errors
    /// Fails if a name is not a lane's.
    pub fn chosen() -> Result<Vec<Self>, LaneError> {
        let Ok(names) = std::env::var("TIDEGATE_SLT_LANE") else {
            return Ok(Self::TESTED.to_vec());
        };
        let lanes: Option<Vec<Self>> = names.split(',').map(Self::from_name).collect();
        lanes.ok_or(LaneError::Unknown { names })
    }

    /// Gives the settings that make the lane what it is.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Host | Self::Flight | Self::Replanned | Self::Stock => &[],
            Self::Cluster => &["SET tidegate.spread = 'always'"],
            Self::Simulated | Self::Mixed => &[
                "SET tidegate.replay_placement = 'HD'",
                "SET tidegate.morsel_rows = 3",
            ],
            Self::Atomic | Self::Device => &["SET tidegate.placement = 'device'"],
        }
    }

    /// Opens a new connection: a session of its own, with the lane's settings.
    ///
    /// # Errors
    /// Fails if the lane needs a GPU and `gpus` has none.
    pub async fn connect(self, gpus: &Gpus) -> Result<Connection, LaneError> {
        let engine = match self {
            Self::Stock => Engine::Stock(Box::new(stock_context())),
            Self::Host => Engine::Tidegate(no_gpu().build()?),
            Self::Flight => Engine::Flight(Box::new(FlightSession::open(no_gpu()).await?)),
            Self::Cluster => Engine::Cluster(Box::new(ClusterSession::open(no_gpu).await?)),
            Self::Replanned => {
                let session = no_gpu().build()?;
                Engine::Replanned(Box::new(ReplannedSession::over(&session)?))
            }
            Self::Simulated | Self::Atomic => {
                let device = tidegate::SimulatedSpec::with_memory(DEVICE_BYTES);
                let builder = no_gpu().simulate_device(device);
                Engine::Tidegate(builder.build()?)
            }
            Self::Device | Self::Mixed => Engine::Tidegate(gpus.builder()?.build()?),
        };
        let connection = Connection { lane: self, engine };
        for setting in self.settings() {
            connection.collect(setting).await?;
        }
        Ok(connection)
    }
}

/// Starts a session that shows no GPU, whatever the machine has.
fn no_gpu() -> tidegate::SessionBuilder {
    tidegate::Session::builder()
        .visible_devices(Some(String::new()))
        .file_urls()
}

/// Makes a plain DataFusion session that can answer `SHOW`. It has Tidegate's rule of one NaN and one
/// zero, for DataFusion's own answers depend on the order of rows there. It reads no statistics of files: a
/// float column with equal bounds would lose its NaN.
fn stock_context() -> SessionContext {
    let config = SessionConfig::new()
        .with_information_schema(true)
        .with_collect_statistics(false);
    let context = SessionContext::new_with_config(config);
    context.add_analyzer_rule(Arc::new(tidegate::CanonicalFloats));
    context
}

/// A session of one lane, driven by the runner one statement at a time.
pub struct Connection {
    lane: Lane,
    engine: Engine,
}

enum Engine {
    Stock(Box<SessionContext>),
    Tidegate(tidegate::Session),
    Flight(Box<FlightSession>),
    Cluster(Box<ClusterSession>),
    Replanned(Box<ReplannedSession>),
}

impl Connection {
    /// Gives the DataFusion context, where tables can be registered.
    pub fn context(&self) -> &SessionContext {
        match &self.engine {
            Engine::Stock(context) => context,
            Engine::Tidegate(session) => session.context(),
            Engine::Flight(server) => server.session().context(),
            Engine::Cluster(cluster) => cluster.session().context(),
            Engine::Replanned(session) => session.context(),
        }
    }

    /// Returns how many of its statements were planned again for less memory, in the lane that does so.
    pub fn replanned(&self) -> Option<u64> {
        match &self.engine {
            Engine::Replanned(session) => Some(session.refused()),
            _ => None,
        }
    }

    /// Runs one statement and collects what it returns.
    pub async fn collect(&self, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>), LaneError> {
        let work = async {
            let stream = match &self.engine {
                Engine::Flight(server) => return Ok(server.collect(sql).await?),
                Engine::Stock(context) => context.sql(sql).await?.execute_stream().await?,
                Engine::Replanned(session) => {
                    session.refuse_next();
                    session.context().sql(sql).await?.execute_stream().await?
                }
                Engine::Tidegate(session) => session.execute(sql).await?,
                Engine::Cluster(cluster) => cluster.session().execute(sql).await?,
            };
            let schema = stream.schema();
            let batches = stream.try_collect().await?;
            Ok((schema, batches))
        };
        match tokio::time::timeout(STATEMENT_TIMEOUT, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(LaneError::TimedOut),
        }
    }
}

#[async_trait]
impl AsyncDB for Connection {
    type Error = LaneError;
    type ColumnType = ColumnKind;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnKind>, LaneError> {
        let (schema, batches) = self.collect(sql).await?;
        if schema.fields().is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let types = format::column_kinds(&schema);
        let rows = format::rows(&batches).map_err(DataFusionError::from)?;
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        // What holds for the host holds for the host behind a server, and for several.
        match self.lane {
            Lane::Flight | Lane::Cluster | Lane::Replanned => Lane::Host.name(),
            lane => lane.name(),
        }
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Says why a statement failed, in the words of the engine that failed.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// DataFusion's own error, in the stock lane or while reading a result.
    #[error("{0}")]
    DataFusion(#[from] DataFusionError),
    /// Tidegate's error.
    #[error("{0}")]
    Tidegate(#[from] tidegate::Error),
    /// The server's error, or one on the way to it.
    #[error("{0}")]
    Flight(#[from] FlightLaneError),
    /// There is no cluster.
    #[error("{0}")]
    Cluster(#[from] ClusterLaneError),
    /// The lane needs a GPU.
    #[error("{0}")]
    NoGpu(#[from] NoGpu),
    /// The environment names a lane that there is not.
    #[error("TIDEGATE_SLT_LANE={names}: the lanes are {lanes}", lanes = lane_names())]
    Unknown {
        /// What it says.
        names: String,
    },
    /// The statement did not end.
    #[error("statement timed out after {} s", STATEMENT_TIMEOUT.as_secs())]
    TimedOut,
}

fn lane_names() -> String {
    let names: Vec<_> = Lane::all().map(Lane::name).collect();
    names.join(", ")
}

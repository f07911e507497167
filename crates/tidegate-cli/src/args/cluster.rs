//! What `tidegate cluster` takes.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Subcommand;

use super::{LogFormat, LogLevel, ServeArgs, Time};

/// What a process of a cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum ClusterRole {
    /// Answer clients as `serve` does, and run their statements over the executors that join
    Scheduler(Box<SchedulerArgs>),
    /// Join a scheduler and run parts of its statements, until Ctrl-C or SIGTERM
    Executor(Box<ExecutorArgs>),
    /// Run a scheduler and executors on this machine, for trying a cluster out
    Local(Box<LocalArgs>),
}

/// How a scheduler listens.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct SchedulerArgs {
    /// Address at which executors join; one beyond this machine needs certificates, or
    /// --cluster-insecure
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:31338",
        env = "TIDEGATE_CLUSTER_LISTEN"
    )]
    pub(crate) cluster_listen: SocketAddr,

    /// Number of executors that must have joined before /ready says so
    #[arg(
        long,
        value_name = "N",
        default_value = "0",
        env = "TIDEGATE_CLUSTER_EXECUTORS_MIN"
    )]
    pub(crate) executors_min: usize,

    #[command(flatten)]
    pub(crate) links: LinkArgs,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// How an executor joins.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct ExecutorArgs {
    /// The address at which the scheduler lets executors join: grpc+tls://host:port, or
    /// grpc://host:port without TLS; of several schedulers, with commas between them
    #[arg(
        long,
        value_name = "URL",
        required = true,
        value_delimiter = ',',
        env = "TIDEGATE_CLUSTER_JOIN"
    )]
    pub(crate) join: Vec<String>,

    /// A name that no other executor of the cluster has
    #[arg(long, value_name = "NAME", env = "TIDEGATE_CLUSTER_NAME")]
    pub(crate) name: String,

    /// Address to listen on for the scheduler and other executors; one beyond this machine needs
    /// certificates, or --cluster-insecure
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:0",
        env = "TIDEGATE_CLUSTER_EXECUTOR_LISTEN"
    )]
    pub(crate) listen: SocketAddr,

    /// The host name by which the scheduler and other executors reach this one, which its
    /// certificate names [default: the --listen address]
    #[arg(long, value_name = "HOST", env = "TIDEGATE_CLUSTER_ADVERTISE")]
    pub(crate) advertise: Option<String>,

    #[command(flatten)]
    pub(crate) links: LinkArgs,

    /// Allow statements to read this file, folder, bucket (s3://bucket) or host (https://host), and
    /// everything below it; can be repeated
    #[arg(long, value_name = "PATH", env = "TIDEGATE_CLUSTER_ALLOW")]
    pub(crate) allow: Vec<PathBuf>,

    /// How long to wait for running tasks at shutdown
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        env = "TIDEGATE_CLUSTER_DRAIN"
    )]
    pub(crate) drain: Time,

    /// End when the scheduler does, instead of joining again
    #[arg(long)]
    pub(crate) ends_with_scheduler: bool,

    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "TIDEGATE_SERVE_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,

    /// Log level [default: info as JSON, else warn]
    #[arg(long, value_enum, env = "TIDEGATE_SERVE_LOG_LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
}

/// A cluster on one machine.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct LocalArgs {
    /// Number of executors
    #[arg(long, value_name = "N", default_value = "2")]
    pub(crate) executors: NonZeroUsize,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// How the processes of a cluster trust each other.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct LinkArgs {
    /// A file with the cluster's secret, at least 32 random bytes; the same for every process of the
    /// cluster
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CLUSTER_SECRET_FILE")]
    pub(crate) cluster_secret_file: PathBuf,

    /// The certificate chain in PEM that this process shows its peers, its own certificate first
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_CLUSTER_TLS_CERT",
        requires_all = ["cluster_tls_key", "cluster_tls_ca"]
    )]
    pub(crate) cluster_tls_cert: Option<PathBuf>,

    /// The certificate's private key in PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_CLUSTER_TLS_KEY",
        requires = "cluster_tls_cert"
    )]
    pub(crate) cluster_tls_key: Option<PathBuf>,

    /// The certificates in PEM that those of the peers are signed with
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_CLUSTER_TLS_CA",
        requires = "cluster_tls_cert"
    )]
    pub(crate) cluster_tls_ca: Option<PathBuf>,

    /// Talk without TLS beyond this machine: whoever reads the network's traffic reads the data, and
    /// the tokens that give access to it
    #[arg(long, env = "TIDEGATE_CLUSTER_INSECURE")]
    pub(crate) cluster_insecure: bool,
}

//! The command line: what can be typed, and what it means.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tidegate::{SimulatedSpec, StoreOptions};

use crate::config::{File, OptionReport, Setting};

mod cluster;
mod values;

pub(crate) use cluster::{ClusterRole, ExecutorArgs, LinkArgs, LocalArgs, SchedulerArgs};
pub(crate) use values::{Architecture, ByteSize, Format, HttpPort, MaxRows, ScaleFactor, Time};

/// SQL over Parquet, CSV and Arrow data, on the host and on CUDA devices.
///
/// Without arguments: a prompt on a terminal, else the statements on standard input.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) door: Option<Door>,

    /// Run these statements; can be repeated, in order with -f
    #[arg(
        short = 'c',
        long = "command",
        value_name = "SQL",
        allow_hyphen_values = true
    )]
    commands: Vec<String>,

    /// Run the statements of this file; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// What runs, in the order of the command line.
    #[arg(skip)]
    pub(crate) sources: Vec<Source>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Continue with the next statement when one fails; the exit status is still 1
    #[arg(long)]
    pub(crate) keep_going: bool,

    /// Set a value that statements refer to as $NAME, such as day="DATE '2024-01-31'" or k=3; can
    /// be repeated
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,

    #[command(flatten)]
    pub(crate) session: SessionArgs,

    /// Read the configuration from this file [default: tidegate/config.toml below $XDG_CONFIG_HOME]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG", global = true)]
    config: Option<PathBuf>,

    /// Set a setting of the session, such as tidegate.placement=host; can be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", global = true)]
    set: Vec<String>,

    /// The settings of the session, of wherever they come from.
    #[arg(skip)]
    pub(crate) settings: Vec<Setting>,

    /// The options that can be configured, with their values and origins.
    #[arg(skip)]
    pub(crate) options: Vec<OptionReport>,
}

/// How results are shown.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OutputArgs {
    /// Output format of results
    #[arg(
        long,
        value_enum,
        default_value_t = Format::Table,
        env = "TIDEGATE_FORMAT",
        global = true
    )]
    pub(crate) format: Format,

    /// Maximum number of rows of a table to show, or `all` [default: 40 at the prompt]
    #[arg(long, value_name = "N", env = "TIDEGATE_MAXROWS", global = true)]
    pub(crate) maxrows: Option<MaxRows>,

    /// Print how long each statement took
    #[arg(long, global = true)]
    pub(crate) timing: bool,

    /// Print where each query ran, and why
    #[arg(long, global = true)]
    pub(crate) placement: bool,

    /// Print results and errors only
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    /// Do not show a progress bar for long queries on a terminal
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
}

/// The server that statements run on, and how to get in.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConnectArgs {
    /// Run statements on a server: grpc+tls://host:port, or grpc://host:port without TLS; of several, with
    /// commas between them, the next takes over when one is lost
    #[arg(long, value_name = "URL", env = "TIDEGATE_CONNECT")]
    pub(crate) connect: Option<String>,

    /// Log in as this user; the password comes from TIDEGATE_PASSWORD, a file or a prompt
    #[arg(long, value_name = "NAME", env = "TIDEGATE_USER")]
    pub(crate) user: Option<String>,

    /// Read the password from the first line of this file
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,

    /// Authenticate with the token in the first line of this file, or in TIDEGATE_TOKEN, instead of
    /// logging in
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Trust the certificates in this PEM file [default: those that this machine trusts]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CA")]
    pub(crate) ca: Option<PathBuf>,
}

/// What the session may use.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionArgs {
    /// Host memory for statements, such as 512MB or 1.5GB [default: 70 % of the machine's memory]
    #[arg(
        long,
        value_name = "SIZE",
        env = "TIDEGATE_MEMORY_LIMIT",
        global = true
    )]
    pub(crate) memory_limit: Option<ByteSize>,

    /// Memory that each GPU may use, such as 40GB [default: 90 % of its free memory]
    #[arg(
        long,
        value_name = "SIZE",
        env = "TIDEGATE_DEVICE_MEMORY_LIMIT",
        global = true
    )]
    pub(crate) device_memory_limit: Option<ByteSize>,

    /// Write spill files to this folder [default: the system's folder for temporary files]
    #[arg(long, value_name = "FOLDER", env = "TIDEGATE_TEMP_DIR", global = true)]
    pub(crate) temp_dir: Option<PathBuf>,

    /// Maximum size of all spill files [default: 100GB]
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_TEMP_LIMIT", global = true)]
    pub(crate) temp_limit: Option<ByteSize>,

    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "N", env = "TIDEGATE_THREADS", global = true)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Add a simulated device with this memory, such as 2GB: it shows placement, it is not a GPU
    #[arg(long, value_name = "SPEC", global = true)]
    pub(crate) simulate_device: Vec<SimulatedSpec>,

    /// The options of object stores, of wherever they come from.
    #[arg(skip)]
    pub(crate) stores: StoreOptions,
}

/// The subcommands.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Door {
    /// Run a filter, projection and group-by on generated TPC-H data, and show where it ran
    Demo {
        /// Size of the data: 1 is 6 million rows, about 1 GB as text
        #[arg(long, value_name = "SF", default_value = "0.1")]
        scale_factor: ScaleFactor,
    },
    /// Show the devices found, where drivers were searched for, and the limits in force
    Doctor,
    /// List every option and setting with its value and origin
    Config {
        /// Print the reference page, in Markdown
        #[arg(long)]
        reference: bool,
    },
    /// Answer Arrow Flight SQL clients, such as ADBC and JDBC, until Ctrl-C or SIGTERM
    Serve(Box<ServeArgs>),
    /// Run statements over several processes, on one machine or many
    Cluster {
        #[command(subcommand)]
        role: ClusterRole,
    },
    /// Compile the CUDA kernels of a query with NVRTC, without running it: no GPU is needed
    Kernel(KernelArgs),
    /// Run a query and write how it ran as one HTML page: work by time, plan, places and reasons
    Report(ReportArgs),
    /// Print the completions of a shell, such as `source <(tidegate completions bash)` takes
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or that of a subcommand, as roff: `tidegate man | man -l -`
    Man {
        /// The subcommand
        #[arg(value_name = "SUBCOMMAND")]
        of: Option<String>,
    },
}

/// How `serve` listens, and whom it lets do what.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    pub(crate) task: Option<ServeTask>,

    /// Address to listen on; one beyond this machine needs TLS and users, or --insecure
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:31337",
        env = "TIDEGATE_SERVE_LISTEN"
    )]
    pub(crate) listen: SocketAddr,

    /// Serve health, metrics and a live page over HTTP, on this port of the --listen address, or on
    /// an address of its own
    #[arg(long, value_name = "[ADDRESS:]PORT", env = "TIDEGATE_SERVE_HTTP_PORT")]
    pub(crate) http_port: Option<HttpPort>,

    /// The certificate chain in PEM, the server's certificate first
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SERVE_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The certificate's private key in PEM
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SERVE_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Users who may log in: TOML tables [[users]] with name, password (a hash) and admin
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SERVE_USERS")]
    pub(crate) users: Option<PathBuf>,

    /// Listen beyond this machine without TLS or users: anyone who reaches the port has full access
    #[arg(long, env = "TIDEGATE_SERVE_INSECURE")]
    pub(crate) insecure: bool,

    /// Run the statements of this file at the start; every client sees their tables and settings
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SERVE_INIT")]
    pub(crate) init: Option<PathBuf>,

    /// Allow statements to read and write this file, folder, bucket (s3://bucket) or host
    /// (https://host), and everything below it; can be repeated
    #[arg(long, value_name = "PATH", env = "TIDEGATE_SERVE_ALLOW")]
    pub(crate) allow: Vec<PathBuf>,

    /// Maximum number of statements that run at once [default: one per core, at least 4]
    #[arg(long, value_name = "N", env = "TIDEGATE_SERVE_MAX_STATEMENTS")]
    pub(crate) max_statements: Option<NonZeroUsize>,

    /// Maximum number of statements that wait to run [default: 8 times --max-statements]
    #[arg(long, value_name = "N", env = "TIDEGATE_SERVE_QUEUE")]
    pub(crate) queue: Option<usize>,

    /// How long a statement may wait to run, such as 10s
    #[arg(
        long,
        value_name = "TIME",
        default_value = "60s",
        env = "TIDEGATE_SERVE_QUEUE_WAIT"
    )]
    pub(crate) queue_wait: Time,

    /// Maximum run time of a statement [default: no limit]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_SERVE_STATEMENT_TIMEOUT")]
    pub(crate) statement_timeout: Option<Time>,

    /// How long to wait for running statements at shutdown
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        env = "TIDEGATE_SERVE_DRAIN"
    )]
    pub(crate) drain: Time,

    /// How long to keep an idle session that logged in
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30min",
        env = "TIDEGATE_SERVE_SESSION_IDLE"
    )]
    pub(crate) session_idle: Time,

    /// How long to keep a result that is not fetched
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10min",
        env = "TIDEGATE_SERVE_RESULT_IDLE"
    )]
    pub(crate) result_idle: Time,

    /// Maximum number of open sessions
    #[arg(
        long,
        value_name = "N",
        default_value = "1000",
        env = "TIDEGATE_SERVE_MAX_SESSIONS"
    )]
    pub(crate) max_sessions: NonZeroUsize,

    /// Maximum number of open sessions per user, if there are users
    #[arg(
        long,
        value_name = "N",
        default_value = "250",
        env = "TIDEGATE_SERVE_MAX_USER_SESSIONS"
    )]
    pub(crate) max_user_sessions: NonZeroUsize,

    /// Maximum number of statements per user that run at once, if there are users [default:
    /// --max-statements]
    #[arg(long, value_name = "N", env = "TIDEGATE_SERVE_MAX_USER_STATEMENTS")]
    pub(crate) max_user_statements: Option<NonZeroUsize>,

    /// Maximum number of statements per user that wait to run, if there are users [default:
    /// --queue]
    #[arg(long, value_name = "N", env = "TIDEGATE_SERVE_MAX_USER_QUEUE")]
    pub(crate) max_user_queue: Option<usize>,

    /// Maximum number of connections; one more displaces the oldest unauthenticated one
    #[arg(
        long,
        value_name = "N",
        default_value = "1000",
        env = "TIDEGATE_SERVE_MAX_CONNECTIONS"
    )]
    pub(crate) max_connections: NonZeroUsize,

    /// Maximum number of unauthenticated connections per address and port; one more displaces the
    /// oldest of them
    #[arg(
        long,
        value_name = "N",
        default_value = "256",
        env = "TIDEGATE_SERVE_MAX_ADDRESS_CONNECTIONS"
    )]
    pub(crate) max_address_connections: NonZeroUsize,

    /// Close an unauthenticated connection that has been idle for this long
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5s",
        env = "TIDEGATE_SERVE_AUTHENTICATION_TIMEOUT"
    )]
    pub(crate) authentication_timeout: Time,

    /// Abort a result whose rows are not read, or an upload that sends nothing, for this long
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5min",
        env = "TIDEGATE_SERVE_UNREAD_TIMEOUT"
    )]
    pub(crate) unread_timeout: Time,

    /// Send a span of each query to this OpenTelemetry collector, by OTLP over gRPC (such as
    /// http://127.0.0.1:4317) [default: OTEL_EXPORTER_OTLP_ENDPOINT, if it is set]
    #[arg(long, value_name = "URL", env = "TIDEGATE_SERVE_OTLP_ENDPOINT")]
    pub(crate) otlp_endpoint: Option<String>,

    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "TIDEGATE_SERVE_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,

    /// Log level; `info` logs one line per finished query [default: info as JSON, else warn]
    #[arg(long, value_enum, env = "TIDEGATE_SERVE_LOG_LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Plain text
    Text,
    /// One JSON object per line
    Json,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing
    Off,
    /// Failures of the server
    Error,
    /// Warnings, such as refused logins
    Warn,
    /// Each event
    Info,
}

/// What `serve` does instead of serving.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum ServeTask {
    /// Read a password from standard input, and print its hash for the users file
    HashPassword,
}

/// What `kernel` compiles, and how.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct KernelArgs {
    /// The architecture to compile for
    #[arg(long, value_name = "ARCH", default_value = "sm_90")]
    pub(crate) arch: Architecture,

    /// Also print the CUDA C++ of each kernel
    #[arg(long)]
    pub(crate) source: bool,

    /// The query; `EXPLAIN (FORMAT CUDA)` in front of it returns the same source as rows
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
}

/// What `report` runs, and where the page goes.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct ReportArgs {
    /// The query
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,

    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub(crate) output: PathBuf,
}

/// Where statements come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The command line.
    Text(String),
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

/// Reads the command line; prints help, or the mistake in it, and ends the process.
///
/// The configuration file is read first: what it says are the defaults.
pub(crate) fn parse(arguments: Vec<OsString>) -> Args {
    let refuse = |message: String| -> ! {
        Args::command()
            .error(ErrorKind::ValueValidation, message)
            .exit()
    };
    let file = match File::find(&arguments) {
        Ok(file) => file,
        Err(message) => refuse(message),
    };
    let matches = file
        .apply(Args::command())
        .try_get_matches_from(arguments.clone());
    let matches = matches.unwrap_or_else(|error| {
        if error.kind() == ErrorKind::DisplayHelp
            && let Some(help) = help_of_server(&arguments)
        {
            // Whether anybody reads it is no matter, as for any other help.
            let _ = io::stdout().lock().write_all(help.as_bytes());
            process::exit(0);
        }
        explained(error).exit()
    });
    let mut args = from_matches(&matches).unwrap_or_else(|error| error.exit());
    args.settings = match file.settings(&args.set) {
        Ok(settings) => settings,
        Err(message) => refuse(message),
    };
    args.options = file.options(&matches);
    args.session.stores = file.stores();
    args
}

/// Completes a command, and hides from the help of `serve` what has no effect there: how results are shown.
pub(crate) fn with_own_help(mut command: Command) -> Command {
    const SHOWN: [&str; 6] = [
        "format",
        "maxrows",
        "timing",
        "placement",
        "quiet",
        "no_progress",
    ];
    command.build();
    command.mut_subcommand("serve", |serve| {
        serve.mut_args(|arg| match SHOWN.contains(&arg.get_id().as_str()) {
            true => arg.hide(true),
            false => arg,
        })
    })
}

/// Returns the help of `serve`, if that is asked for.
fn help_of_server(arguments: &[OsString]) -> Option<String> {
    let is_there = |word: &str| arguments.iter().any(|argument| argument == word);
    if !is_there("serve") || is_there("hash-password") || is_there("help") {
        return None;
    }
    let mut command = with_own_help(Args::command());
    let serve = command.find_subcommand_mut("serve")?;
    let help = match is_there("--help") {
        true => serve.render_long_help(),
        false => serve.render_help(),
    };
    Some(help.to_string())
}

/// Says what to do with a file that was named in the place of a subcommand.
fn explained(error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    if !name.contains(['.', '/']) {
        return error;
    }
    let message = format!(
        "'{name}' is no subcommand, and there are no database files: query a file of data with \
         -c \"SELECT * FROM '{name}'\", and run a file of statements with -f {name}"
    );
    Args::command().error(ErrorKind::InvalidSubcommand, message)
}

fn from_matches(matches: &ArgMatches) -> Result<Args, clap::Error> {
    let mut args = Args::from_arg_matches(matches)?;
    args.sources = sources(&args, matches);
    if args.door.is_some() && !args.sources.is_empty() {
        let message = "-c and -f cannot be used together with a subcommand";
        return Err(Args::command().error(ErrorKind::ArgumentConflict, message));
    }
    let names_a_login = ["user", "password_file", "token_file", "ca"]
        .iter()
        .any(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
    if names_a_login && args.connect.connect.is_none() {
        let message = "--user, --password-file, --token-file and --ca go with --connect";
        return Err(Args::command().error(ErrorKind::MissingRequiredArgument, message));
    }
    let is_named = matches.value_source("connect") == Some(ValueSource::CommandLine);
    if args.door.is_some() && is_named {
        let message = "--connect runs statements on a server, and the subcommands work here";
        return Err(Args::command().error(ErrorKind::ArgumentConflict, message));
    }
    Ok(args)
}

/// Puts -c and -f into the order in which they were written.
fn sources(args: &Args, matches: &ArgMatches) -> Vec<Source> {
    let places = |id: &str| match matches.value_source(id) {
        Some(ValueSource::CommandLine) => matches.indices_of(id).into_iter().flatten().collect(),
        _ => Vec::new(),
    };
    let texts = args.commands.iter().cloned().map(Source::Text);
    let files = args.files.iter().map(|file| match file.as_os_str() == "-" {
        true => Source::Stdin,
        false => Source::File(file.clone()),
    });
    let mut placed: Vec<(usize, Source)> = places("commands").into_iter().zip(texts).collect();
    placed.extend(places("files").into_iter().zip(files));
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, source)| source).collect()
}

#[cfg(test)]
mod tests;

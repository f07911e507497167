//! Values of options: what they are written like.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use tidegate::options::{parse_bytes, parse_duration};

/// Where HTTP is spoken: a port at the address of `--listen`, or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpPort {
    Port(u16),
    Address(SocketAddr),
}

impl HttpPort {
    /// Returns the address, beside that of the Flight port.
    pub(crate) fn beside(self, listen: SocketAddr) -> SocketAddr {
        match self {
            Self::Port(port) => SocketAddr::new(listen.ip(), port),
            Self::Address(address) => address,
        }
    }
}

impl FromStr for HttpPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.parse().map(Self::Port).ok();
        port.or_else(|| text.parse().map(Self::Address).ok())
            .ok_or_else(|| "expected a port, or an address such as 127.0.0.1:8080".to_string())
    }
}

/// A time above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_duration(text) {
            Some(time) if !time.is_zero() => Ok(Self(time)),
            _ => Err("expected a time such as 500ms, 30s, 5min or 2h".to_string()),
        }
    }
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns in a frame, for reading
    Table,
    /// Each row as a block of lines, for rows that are wider than the screen
    Expanded,
    /// Comma-separated values, with a header
    Csv,
    /// Tab-separated values, with a header; null is \N
    Tsv,
    /// One JSON array of objects for each statement
    Json,
    /// One JSON object on each line
    Ndjson,
    /// A table in Markdown
    Markdown,
    /// An Arrow IPC stream
    Arrow,
    /// A Parquet file
    Parquet,
}

impl Format {
    /// Returns whether it is for programs alone, and holds one result.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table => "table",
            Self::Expanded => "expanded",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Markdown => "markdown",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
        })
    }
}

/// How many rows of a table are shown; `None` is all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaxRows(pub(crate) Option<usize>);

impl FromStr for MaxRows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "all" => Ok(Self(None)),
            number => match number.parse() {
                Ok(rows) => Ok(Self(Some(rows))),
                Err(_) => Err("expected a number of rows or 'all'".to_string()),
            },
        }
    }
}

/// The name of a GPU architecture with code of its own, such as `sm_90` or `sm_90a`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Architecture(pub(crate) String);

impl FromStr for Architecture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let version = text.strip_prefix("sm_").unwrap_or_default();
        let number = version.strip_suffix(['a', 'f']).unwrap_or(version);
        let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
        match is_number && (2..=3).contains(&number.len()) {
            true => Ok(Self(text.to_string())),
            false => Err("expected an architecture such as sm_90".to_string()),
        }
    }
}

/// A number of bytes above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_bytes(text) {
            Some(0) => Err("the size must be above zero".to_string()),
            Some(u64::MAX) => Err("the size is too large".to_string()),
            Some(bytes) => Ok(Self(bytes)),
            None => Err("expected a size such as 512MB, 1.5GB or 2GiB".to_string()),
        }
    }
}

/// A TPC-H scale factor that fits a demonstration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScaleFactor(pub(crate) f64);

impl FromStr for ScaleFactor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(scale) if (0.001..=1000.0).contains(&scale) => Ok(Self(scale)),
            _ => Err("expected a number from 0.001 to 1000".to_string()),
        }
    }
}

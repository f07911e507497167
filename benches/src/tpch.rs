//! The 22 TPC-H queries, with the specification's validation parameters, and their tables as Parquet.

use std::path::{Path, PathBuf};

use tidegate::Session;

use crate::Failure;

/// Returns the text of query `number`, 1 to 22; query 15 is written without its view.
pub fn query(number: usize) -> &'static str {
    QUERIES[number - 1]
}

const QUERIES: [&str; 22] = [
    include_str!("tpch/q01.sql"),
    include_str!("tpch/q02.sql"),
    include_str!("tpch/q03.sql"),
    include_str!("tpch/q04.sql"),
    include_str!("tpch/q05.sql"),
    include_str!("tpch/q06.sql"),
    include_str!("tpch/q07.sql"),
    include_str!("tpch/q08.sql"),
    include_str!("tpch/q09.sql"),
    include_str!("tpch/q10.sql"),
    include_str!("tpch/q11.sql"),
    include_str!("tpch/q12.sql"),
    include_str!("tpch/q13.sql"),
    include_str!("tpch/q14.sql"),
    include_str!("tpch/q15.sql"),
    include_str!("tpch/q16.sql"),
    include_str!("tpch/q17.sql"),
    include_str!("tpch/q18.sql"),
    include_str!("tpch/q19.sql"),
    include_str!("tpch/q20.sql"),
    include_str!("tpch/q21.sql"),
    include_str!("tpch/q22.sql"),
];

/// The eight tables.
pub const TABLES: [&str; 8] = [
    "customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier",
];

/// Generates the tables into a folder of `folder` unless they are there; returns that folder.
///
/// # Errors
/// Fails if the folder cannot be written.
pub async fn generate(folder: &Path, scale_factor: &str) -> Result<PathBuf, Failure> {
    let folder = folder.join(format!("sf{scale_factor}"));
    std::fs::create_dir_all(&folder)?;
    let session = Session::new()?;
    for table in TABLES {
        let path = folder.join(format!("{table}.parquet"));
        if !path.exists() {
            let path = path.display();
            let copy = format!(
                "COPY (SELECT * FROM tpch('{table}', {scale_factor})) TO '{path}' STORED AS PARQUET"
            );
            session.collect(&copy).await?;
        }
    }
    Ok(folder)
}

/// Registers the tables of a folder.
///
/// # Errors
/// Fails if a file is not there or cannot be read.
pub async fn register(session: &Session, folder: &Path) -> Result<(), Failure> {
    for table in TABLES {
        let path = folder.join(format!("{table}.parquet"));
        session
            .register_parquet(table, &path.to_string_lossy())
            .await?;
    }
    Ok(())
}

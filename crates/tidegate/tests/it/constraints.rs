//! Constraints of tables that a program registers.

use std::sync::Arc;

use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::{Constraint, Constraints};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};

use crate::support::{answer, host_only, rows, write_parquet};

fn key() -> Constraints {
    // The column k has seven values and NULLs.
    Constraints::new_unverified(vec![Constraint::PrimaryKey(vec![0])])
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_tables_of_datafusions_are_not_believed() {
    let session = host_only();
    let batch = rows(0, 100);
    let memory = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    let memory: Arc<dyn TableProvider> = Arc::new(memory.with_constraints(key()));
    session.register_table("m", memory).unwrap();

    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 100, 50);
    let url = ListingTableUrl::parse(folder.path().to_str().unwrap()).unwrap();
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
    let config = ListingTableConfig::new(url).with_listing_options(options);
    let state = session.context().state();
    let config = config.infer_schema(&state).await.unwrap();
    let files = ListingTable::try_new(config)
        .unwrap()
        .with_constraints(key());
    session.register_table("f", Arc::new(files)).unwrap();

    for table in ["m", "f"] {
        let distinct = format!("SELECT DISTINCT k FROM {table}");
        // The name of the column is a line too.
        assert_eq!(answer(&session, &distinct).await.len(), 9, "{table}");
        let groups = format!("SELECT count(*) FROM (SELECT k, count(*) FROM {table} GROUP BY k)");
        let groups = answer(&session, &groups).await;
        assert!(
            groups.iter().any(|line| line.contains("| 8 ")),
            "{groups:?}"
        );
    }
    session
        .collect("INSERT INTO m VALUES (NULL, 1, 's')")
        .await
        .unwrap();
    let count = answer(&session, "SELECT count(*) FROM m").await;
    assert!(
        count.iter().any(|line| line.contains("| 101 ")),
        "{count:?}"
    );
}

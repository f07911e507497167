//! What there is: catalogs, schemas, tables, types, facts, keys.

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Schema};
use arrow_flight::IpcMessage;
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
};

use crate::support::{answer, fetch, lines, start};

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_schemas_and_tables_are_listed() {
    let server = start().await;
    let client = &mut server.client().await;
    answer(client, "CREATE TABLE t(a BIGINT NOT NULL, b TEXT)").await;
    answer(client, "CREATE VIEW v AS SELECT a FROM t").await;
    answer(client, "CREATE TABLE temp.own AS VALUES (1)").await;
    let info = client.get_catalogs().await.unwrap();
    assert_eq!(lines(&fetch(client, info).await.unwrap()), ["datafusion"]);
    let all = CommandGetDbSchemas {
        catalog: None,
        db_schema_filter_pattern: None,
    };
    let info = client.get_db_schemas(all).await.unwrap();
    let schemas = lines(&fetch(client, info).await.unwrap());
    assert_eq!(
        schemas,
        ["datafusion|public", "datafusion|system", "datafusion|temp"]
    );
    let asked = |pattern: &str, types: &[&str]| CommandGetTables {
        catalog: Some("datafusion".into()),
        db_schema_filter_pattern: None,
        table_name_filter_pattern: Some(pattern.into()),
        table_types: types.iter().map(|name| (*name).to_string()).collect(),
        include_schema: false,
    };
    for (pattern, types, expect) in [
        ("t", &[][..], vec!["datafusion|public|t|TABLE"]),
        ("%", &["VIEW"], vec!["datafusion|public|v|VIEW"]),
        ("o_n", &[], vec!["datafusion|temp|own|LOCAL TEMPORARY"]),
        (
            "queries",
            &["SYSTEM TABLE"],
            vec!["datafusion|system|queries|SYSTEM TABLE"],
        ),
        ("t", &["VIEW"], vec![]),
    ] {
        let info = client.get_tables(asked(pattern, types)).await.unwrap();
        assert_eq!(
            lines(&fetch(client, info).await.unwrap()),
            expect,
            "{pattern}"
        );
    }
    let with_schema = CommandGetTables {
        include_schema: true,
        ..asked("t", &[])
    };
    let info = client.get_tables(with_schema).await.unwrap();
    let batches = fetch(client, info).await.unwrap();
    let bytes = batches[0].column(4).as_binary::<i32>().value(0).to_vec();
    let schema = Schema::try_from(IpcMessage(bytes.into())).unwrap();
    assert_eq!(schema.field(0).data_type(), &DataType::Int64);
    // The types are those of the rows when they are fetched.
    assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
    let nullable = [0, 1].map(|column| schema.field(column).is_nullable());
    assert_eq!(nullable, [false, true]);
    // What is another client's own is not there.
    let other = &mut server.client().await;
    let info = other.get_tables(asked("own", &[])).await.unwrap();
    assert!(lines(&fetch(other, info).await.unwrap()).is_empty());
    assert!(answer(client, "SELECT * FROM temp.own").await == ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_types_and_keys_are_told() {
    let server = start().await;
    let client = &mut server.client().await;
    let info = client.get_table_types().await.unwrap();
    assert_eq!(fetch(client, info).await.unwrap()[0].num_rows(), 4);
    let asked = vec![
        SqlInfo::FlightSqlServerName,
        SqlInfo::FlightSqlServerTransaction,
        SqlInfo::FlightSqlServerBulkIngestion,
    ];
    let info = client.get_sql_info(asked).await.unwrap();
    let facts = lines(&fetch(client, info).await.unwrap());
    assert_eq!(facts.len(), 3);
    assert!(facts[0].contains("Tidegate"), "{facts:?}");
    let info = client.get_sql_info(vec![]).await.unwrap();
    assert!(fetch(client, info).await.unwrap()[0].num_rows() > 70);
    let info = client
        .get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: None })
        .await
        .unwrap();
    assert!(fetch(client, info).await.unwrap()[0].num_rows() > 15);
    let table = || "t".to_string();
    let infos = [
        client
            .get_primary_keys(CommandGetPrimaryKeys {
                catalog: None,
                db_schema: None,
                table: table(),
            })
            .await,
        client
            .get_exported_keys(CommandGetExportedKeys {
                catalog: None,
                db_schema: None,
                table: table(),
            })
            .await,
        client
            .get_imported_keys(CommandGetImportedKeys {
                catalog: None,
                db_schema: None,
                table: table(),
            })
            .await,
        client
            .get_cross_reference(CommandGetCrossReference {
                pk_catalog: None,
                pk_db_schema: None,
                pk_table: table(),
                fk_catalog: None,
                fk_db_schema: None,
                fk_table: table(),
            })
            .await,
    ];
    for info in infos {
        assert!(lines(&fetch(client, info.unwrap()).await.unwrap()).is_empty());
    }
}

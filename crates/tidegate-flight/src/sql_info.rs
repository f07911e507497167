//! Facts about the server and its SQL, by the numbers that Arrow's `FlightSql.proto` gives them.

use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    SqlInfo, SqlNullOrdering, SqlOuterJoinsSupportLevel, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, SqlTransactionIsolationLevel,
};
use tonic::Status;

use crate::options::Limits;
use crate::status::defect;

/// Returns all facts.
pub(crate) fn facts(limits: &Limits) -> Result<SqlInfoData, Status> {
    let mut facts = SqlInfoDataBuilder::new();
    facts.append(SqlInfo::FlightSqlServerName, "Tidegate");
    facts.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    facts.append(SqlInfo::FlightSqlServerArrowVersion, arrow::ARROW_VERSION);
    facts.append(SqlInfo::FlightSqlServerReadOnly, false);
    facts.append(SqlInfo::FlightSqlServerSql, true);
    facts.append(SqlInfo::FlightSqlServerSubstrait, false);
    let no_transactions = SqlSupportedTransaction::None as i32;
    facts.append(SqlInfo::FlightSqlServerTransaction, no_transactions);
    facts.append(SqlInfo::FlightSqlServerCancel, true);
    facts.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    facts.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, false);
    facts.append(SqlInfo::FlightSqlServerStatementTimeout, timeout(limits));
    facts.append(SqlInfo::FlightSqlServerTransactionTimeout, 0_i32);
    definitions(&mut facts);
    queries(&mut facts);
    bounds(&mut facts, limits);
    facts
        .build()
        .map_err(|error| defect("the facts about the server cannot be written", &error))
}

/// Milliseconds; 0 for no limit.
fn timeout(limits: &Limits) -> i32 {
    let limit = limits.statement_timeout.unwrap_or_default();
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX)
}

fn definitions(facts: &mut SqlInfoDataBuilder) {
    facts.append(SqlInfo::SqlDdlCatalog, true);
    facts.append(SqlInfo::SqlDdlSchema, true);
    facts.append(SqlInfo::SqlDdlTable, true);
    let lower = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32;
    facts.append(SqlInfo::SqlIdentifierCase, lower);
    facts.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    let as_written = SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i32;
    facts.append(SqlInfo::SqlQuotedIdentifierCase, as_written);
    facts.append(SqlInfo::SqlAllTablesAreSelectable, true);
    facts.append(SqlInfo::SqlExtraNameCharacters, "");
    facts.append(SqlInfo::SqlSchemaTerm, "schema");
    facts.append(SqlInfo::SqlCatalogTerm, "catalog");
    facts.append(SqlInfo::SqlProcedureTerm, "");
    facts.append(SqlInfo::SqlCatalogAtStart, true);
    facts.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    facts.append(SqlInfo::SqlSupportsIntegrityEnhancementFacility, false);
    facts.append(SqlInfo::SqlStoredProceduresSupported, false);
    facts.append(SqlInfo::SqlSelectForUpdateSupported, false);
}

fn queries(facts: &mut SqlInfoDataBuilder) {
    let high = SqlNullOrdering::SqlNullsSortedHigh as i32;
    facts.append(SqlInfo::SqlNullOrdering, high);
    facts.append(SqlInfo::SqlKeywords, &["CACHE", "KILL", "UNCACHE"][..]);
    let numeric = [
        "ABS", "ACOS", "ASIN", "ATAN", "ATAN2", "CEIL", "COS", "COT", "DEGREES", "EXP", "FLOOR",
        "LOG", "LOG10", "PI", "POWER", "RADIANS", "ROUND", "SIGN", "SIN", "SQRT", "TAN", "TRUNC",
    ];
    facts.append(SqlInfo::SqlNumericFunctions, &numeric[..]);
    let strings = [
        "ASCII",
        "CHARACTER_LENGTH",
        "CHR",
        "CONCAT",
        "LEFT",
        "LENGTH",
        "LOWER",
        "LTRIM",
        "REPEAT",
        "REPLACE",
        "RIGHT",
        "RTRIM",
        "SUBSTR",
        "TRIM",
        "UPPER",
    ];
    facts.append(SqlInfo::SqlStringFunctions, &strings[..]);
    facts.append(
        SqlInfo::SqlSystemFunctions,
        &["COALESCE", "NULLIF", "VERSION"][..],
    );
    let dates = [
        "CURRENT_DATE",
        "CURRENT_TIME",
        "DATE_BIN",
        "DATE_PART",
        "DATE_TRUNC",
        "NOW",
        "TO_TIMESTAMP",
    ];
    facts.append(SqlInfo::SqlDatetimeFunctions, &dates[..]);
    facts.append(SqlInfo::SqlSearchStringEscape, "\\");
    facts.append(SqlInfo::SqlSupportsColumnAliasing, true);
    facts.append(SqlInfo::SqlNullPlusNullIsNull, true);
    facts.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
    facts.append(SqlInfo::SqlSupportsDifferentTableCorrelationNames, false);
    facts.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    facts.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    facts.append(SqlInfo::SqlSupportedGroupBy, 0b11_i32);
    facts.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
    facts.append(SqlInfo::SqlSupportedGrammar, 0b111_i32);
    facts.append(SqlInfo::SqlAnsi92SupportedLevel, 0b1_i32);
    let all_joins = 1 << SqlOuterJoinsSupportLevel::SqlFullOuterJoins as i32;
    facts.append(SqlInfo::SqlOuterJoinsSupportLevel, all_joins);
    facts.append(SqlInfo::SqlSupportedSubqueries, 0b1111_i32);
    facts.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    facts.append(SqlInfo::SqlSupportedUnions, 0b11_i32);
    let isolation = SqlTransactionIsolationLevel::SqlTransactionNone as i32;
    facts.append(SqlInfo::SqlDefaultTransactionIsolation, isolation);
    facts.append(SqlInfo::SqlTransactionsSupported, false);
    facts.append(SqlInfo::SqlSupportedTransactionsIsolationLevels, 0_i32);
    facts.append(SqlInfo::SqlDataDefinitionCausesTransactionCommit, false);
    facts.append(SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false);
    facts.append(SqlInfo::SqlBatchUpdatesSupported, true);
    facts.append(SqlInfo::SqlSavepointsSupported, false);
    facts.append(SqlInfo::SqlNamedParametersSupported, false);
    facts.append(SqlInfo::SqlLocatorsUpdateCopy, false);
    facts.append(SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false);
}

/// The protocol says 0 for what has no limit or whose limit is not known.
fn bounds(facts: &mut SqlInfoDataBuilder, limits: &Limits) {
    let bound = |limit: usize| i64::try_from(limit).unwrap_or(i64::MAX);
    facts.append(SqlInfo::SqlMaxConnections, bound(limits.connections));
    facts.append(
        SqlInfo::SqlMaxStatementLength,
        bound(limits.statement_bytes),
    );
    facts.append(SqlInfo::SqlMaxStatements, bound(limits.handles));
    for unbounded in [
        SqlInfo::SqlMaxBinaryLiteralLength,
        SqlInfo::SqlMaxCharLiteralLength,
        SqlInfo::SqlMaxColumnNameLength,
        SqlInfo::SqlMaxColumnsInGroupBy,
        SqlInfo::SqlMaxColumnsInIndex,
        SqlInfo::SqlMaxColumnsInOrderBy,
        SqlInfo::SqlMaxColumnsInSelect,
        SqlInfo::SqlMaxColumnsInTable,
        SqlInfo::SqlMaxCursorNameLength,
        SqlInfo::SqlMaxIndexLength,
        SqlInfo::SqlDbSchemaNameLength,
        SqlInfo::SqlMaxProcedureNameLength,
        SqlInfo::SqlMaxCatalogNameLength,
        SqlInfo::SqlMaxRowSize,
        SqlInfo::SqlMaxTableNameLength,
        SqlInfo::SqlMaxTablesInSelect,
        SqlInfo::SqlMaxUsernameLength,
    ] {
        facts.append(unbounded, 0_i64);
    }
}

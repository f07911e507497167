//! Mistakes of users of other systems, and what they are told.

use std::fs;

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use tidegate::Session;

/// Statements with a mistake, one on each line; `\n` stands for a new line.
const MISTAKES: &str = include_str!("mistakes.txt");

/// What no error says.
const FORBIDDEN: [&str; 12] = [
    "Internal error",
    "bug in DataFusion",
    "report",
    "not implemented",
    "Ident {",
    "ObjectName",
    "Span(",
    "Valid fields",
    "Utf8",
    "Int64",
    "Error during planning",
    "caused by",
];

async fn session() -> Session {
    let builder = Session::builder().visible_devices(Some(String::new()));
    let session = builder.target_partitions(1).build().unwrap();
    for table in [
        "CREATE TABLE people (name VARCHAR, city VARCHAR, age_years INT, born DATE, seen TIMESTAMP, \
         tags INT[], doc VARCHAR, score DOUBLE) AS VALUES ('ann', 'oslo', 31, DATE '1990-01-02', \
         TIMESTAMP '2024-01-02 03:04:05', [1, 2], '{\"a\": {\"b\": 1}}', 1.5)",
        "CREATE TABLE orders (id INT, name VARCHAR, amount DOUBLE) AS VALUES (1, 'ann', 2.5)",
    ] {
        session.collect(table).await.unwrap();
    }
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_and_what_is_said_of_them() {
    let session = session().await;
    let mut told = String::new();
    let mut count = 0;
    for line in MISTAKES.lines() {
        let sql = line.replace("\\n", "\n");
        let error = match session.collect(&sql).await {
            Ok(_) => panic!("no error: {sql}"),
            Err(error) => format!("{error:#}"),
        };
        for word in FORBIDDEN {
            assert!(!error.contains(word), "{sql}\n{error}");
        }
        told.push_str(&format!("{error}\n\n"));
        count += 1;
    }
    assert!(count >= 120, "{count} mistakes");
    insta::assert_snapshot!(told);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_read_by_their_path() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("trips.csv"), "a\n1\n").unwrap();
    fs::write(at("x.dat"), "a\n1\n").unwrap();
    fs::write(at("x.xlsx"), "PK").unwrap();
    fs::create_dir(at("empty")).unwrap();
    let builder = Session::builder().visible_devices(Some(String::new()));
    let session = builder.file_urls().build().unwrap();
    for (name, expect) in [
        (
            "x.dat",
            "'x.dat' is there, and its ending does not say what it is\nhelp: read it with read_csv('x.dat')",
        ),
        (
            "x.xlsx",
            "'x.xlsx' is a spreadsheet, which is not read\nhelp: save the sheet as CSV, and read FROM 'x.csv'",
        ),
        (
            "trisp.csv",
            "'trisp.csv' not found\nhelp: did you mean 'trips.csv'?",
        ),
        (
            "nothing.csv",
            "'nothing.csv' not found\nhelp: the folder '.' has empty, trips.csv, x.dat, x.xlsx",
        ),
        (
            "none/a.csv",
            "'none/a.csv' not found\nhelp: there is no folder 'none'",
        ),
        (
            "empty/a.csv",
            "'empty/a.csv' not found\nhelp: the folder 'empty' is empty",
        ),
        (
            "*.parq",
            "'*.parq' not found\nhelp: no file matches the pattern",
        ),
    ] {
        let path = at(name).display().to_string();
        let error = session
            .collect(&format!("SELECT * FROM '{path}'"))
            .await
            .unwrap_err();
        let text = format!("{error:#}");
        let (shown, rest): (Vec<&str>, Vec<&str>) = text
            .lines()
            .partition(|line| line.starts_with("  1 | ") || line.starts_with("    | "));
        assert_eq!(shown.len(), 2, "{text}");
        let here = folder.path().display().to_string();
        let text = rest
            .join("\n")
            .replace(&format!("{here}/"), "")
            .replace(&here, ".");
        assert!(text.starts_with(expect), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_other_systems_give_the_same() {
    let session = session().await;
    for (sql, expect) in [
        ("year(born)", "1990"),
        ("epoch(seen)", "1704164645.0"),
        ("last_day(born)", "1990-01-31"),
        ("date_add(born, INTERVAL '1 day')", "1990-01-03"),
        ("date_sub(born, INTERVAL '1 day')", "1990-01-01"),
        ("strftime(born, '%d.%m.%Y')", "02.01.1990"),
        ("if(score > 1, 'a', 'b')", "a"),
        ("mod(7, 4)", "3"),
        ("charindex('n', name)", "2"),
        ("isnull(NULL, name)", "ann"),
        ("count_if(score > 1)", "1"),
        ("listagg(name, ',')", "ann"),
        ("stuff('abc', 1, 1, 'x')", "xbc"),
        ("regexp_full_match(name, 'a|n')", "false"),
        ("array_transform(tags, x -> x + 1)", "[2, 3]"),
        ("array_filter(tags, x -> x > 1 AND x < 5)", "[2]"),
        ("list_any_match(tags, x -> x = 2)", "true"),
        ("doc -> 'a'", "{\"b\": 1}"),
        ("doc -> 'a' ->> 'b'", "1"),
        ("doc ->> '$.a.b' = '1'", "true"),
        ("'1' = doc -> 'a' ->> 'b'", "true"),
        ("doc ->> 'x' IS NULL", "true"),
        ("json_keys(doc)", "[a]"),
        ("json_array_length('[1, 2]')", "2"),
        ("json_valid('[1')", "false"),
        ("unnest(json_list('[7]'))", "7"),
        ("'1'::int64 + '2'::long", "3"),
        ("'12.345'::number(10, 2)", "12.35"),
        ("'2024-01-01'::datetime", "2024-01-01T00:00:00"),
    ] {
        let rows = session
            .collect(&format!("SELECT {sql} AS v FROM people"))
            .await;
        let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let options = FormatOptions::default();
        let column = rows[0].column(0);
        let shown = ArrayFormatter::try_new(column, &options);
        assert_eq!(shown.unwrap().value(0).to_string(), expect, "{sql}");
    }
}

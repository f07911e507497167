//! `COPY t [(columns)] FROM 'file' [(FORMAT csv, HEADER, …)]`: rows of a file go into a table.
//!
//! It becomes `INSERT INTO t (columns) SELECT * FROM read_csv('file', …)`. Values of CSV files are read as text, so
//! that the table's types say what they are, unless formats of dates are given.

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::copy::{List, quoted, truth};
use super::words::is_word;
use super::{StatementError, tokenize};

/// Options by their names in PostgreSQL and DuckDB, and the argument of `read_csv`.
const ARGUMENTS: [(&str, &str); 21] = [
    ("comment", "comment"),
    ("compression", "compression"),
    ("date_format", DATE_FORMAT),
    ("dateformat", DATE_FORMAT),
    ("decimal_separator", "decimal_separator"),
    ("delim", "delim"),
    ("delimiter", "delim"),
    ("encoding", "encoding"),
    ("escape", "escape"),
    ("header", HEADER),
    ("ignore_errors", IGNORE_ERRORS),
    ("new_line", "new_line"),
    ("normalize_names", NORMALIZE_NAMES),
    ("null", "nullstr"),
    ("nullstr", "nullstr"),
    ("quote", "quote"),
    ("sep", "delim"),
    ("skip", "skip"),
    ("thousands", "thousands"),
    ("timestamp_format", TIMESTAMP_FORMAT),
    ("timestampformat", TIMESTAMP_FORMAT),
];

const HEADER: &str = "header";
const IGNORE_ERRORS: &str = "ignore_errors";
const NORMALIZE_NAMES: &str = "normalize_names";
const DATE_FORMAT: &str = "dateformat";
const TIMESTAMP_FORMAT: &str = "timestampformat";

/// Formats, and the functions that read them.
const READERS: [(&str, &str); 7] = [
    ("csv", CSV),
    ("text", CSV),
    ("tsv", CSV),
    ("parquet", "read_parquet"),
    ("json", JSON),
    ("ndjson", JSON),
    ("arrow", "read_arrow"),
];

const CSV: &str = "read_csv";
const JSON: &str = "read_json";

/// Writes a `COPY … FROM` as an INSERT; leaves any other statement as it is.
pub(super) fn as_insert(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, StatementError> {
    let Some(from) = place_of_from(&tokens) else {
        return Ok(tokens);
    };
    let mut list = List {
        tokens: &tokens,
        next: from + 1,
    };
    let path = match list.take().map(|token| &token.token) {
        Some(Token::SingleQuotedString(path)) => path.clone(),
        Some(word) if is_word(word, "STDIN") => "/dev/stdin".into(),
        _ => return Err(list.error("syntax error: expected a file's path in quotes".into())),
    };
    let mut options = Options::default();
    if list.peek().is_some_and(|token| is_word(token, "WITH")) {
        list.take();
    }
    if list.peek() == Some(&Token::LParen) {
        list.take();
        while !options.take(&mut list)? {}
    }
    if !matches!(list.peek(), None | Some(Token::SemiColon | Token::EOF)) {
        list.take();
        let message = "syntax error: options of COPY stand in parentheses: (HEADER, DELIMITER ';')";
        return Err(list.error(message.into()));
    }
    let span = tokens[from].span;
    let written = |text: &str| {
        let (written, _) = tokenize(text, &GenericDialect {});
        let written = written.into_iter();
        written.map(move |token| TokenWithSpan::new(token.token, span))
    };
    let copy = tokens
        .iter()
        .position(|token| is_word(&token.token, "COPY"));
    let target = copy.map_or(0, |copy| copy + 1);
    let head = tokens[..target.saturating_sub(1)].iter().cloned();
    let head = head.chain(written("INSERT INTO"));
    let table = &tokens[target..from];
    let head = head.chain(table.iter().cloned());
    let names_columns = table.iter().any(|token| token.token == Token::LParen);
    let query = options.query(&path, names_columns);
    Ok(head.chain(written(&query)).collect())
}

/// Finds FROM behind the table of a COPY.
fn place_of_from(tokens: &[TokenWithSpan]) -> Option<usize> {
    let is_space = |place: &usize| matches!(tokens[*place].token, Token::Whitespace(_));
    let mut places = (0..tokens.len()).filter(|place| !is_space(place));
    let mut first = places.next()?;
    if is_word(&tokens[first].token, "EXPLAIN") {
        first = places.next()?;
    }
    if !is_word(&tokens[first].token, "COPY") {
        return None;
    }
    // A query in parentheses stands before TO alone.
    if !matches!(tokens[places.next()?].token, Token::Word(_)) {
        return None;
    }
    let mut is_in_list = false;
    for place in places {
        match &tokens[place].token {
            Token::LParen => is_in_list = true,
            Token::RParen => is_in_list = false,
            Token::Word(_) | Token::Comma if is_in_list => {}
            from if is_word(from, "FROM") => return Some(place),
            to if is_word(to, "TO") => return None,
            Token::Word(_) | Token::Period => {}
            _ => return None,
        }
    }
    None
}

/// What is said of the file.
#[derive(Default)]
struct Options {
    format: Option<String>,
    arguments: Vec<(&'static str, String)>,
}

impl Options {
    /// Takes one option; returns whether it was the last.
    fn take(&mut self, list: &mut List<'_>) -> Result<bool, StatementError> {
        let name = match list.take().map(|token| &token.token) {
            Some(Token::Word(word)) => word.value.to_lowercase(),
            _ => return Err(list.error("syntax error: expected an option of COPY".into())),
        };
        let value = list.value()?;
        let known = ARGUMENTS.iter().find(|(known, _)| *known == name);
        match (known.map(|(_, argument)| *argument), value) {
            (None, Some(value)) if name == "format" => {
                let value = value.to_lowercase();
                if !READERS.iter().any(|(format, _)| *format == value) {
                    let message = "COPY … FROM reads the formats csv, parquet, json and arrow";
                    return Err(list.error(message.into()));
                }
                self.format = Some(value);
            }
            (Some(argument @ (HEADER | IGNORE_ERRORS | NORMALIZE_NAMES)), value) => {
                match truth(value) {
                    Some(value) => self.arguments.push((argument, value)),
                    None => {
                        let message = format!(
                            "{} is true or false, or stands alone for true",
                            name.to_uppercase()
                        );
                        return Err(list.error(message));
                    }
                }
            }
            (Some("skip"), Some(value)) if value.parse::<u64>().is_ok() => {
                self.arguments.push(("skip", value));
            }
            (Some(argument), Some(value)) => self.arguments.push((argument, quoted(&value))),
            (Some(_), None) => {
                let message = format!("syntax error: expected a value of {}", name.to_uppercase());
                return Err(list.error(message));
            }
            (None, _) => {
                let message = format!(
                    "COPY … FROM has no option {}: it has FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, \
                     DATEFORMAT, TIMESTAMPFORMAT, DECIMAL_SEPARATOR, THOUSANDS, COMMENT, SKIP, ENCODING, COMPRESSION, \
                     IGNORE_ERRORS",
                    name.to_uppercase()
                );
                return Err(list.error(message));
            }
        }
        match list.take().map(|token| &token.token) {
            Some(Token::Comma) => Ok(false),
            Some(Token::RParen) => Ok(true),
            _ => Err(list.error("syntax error: expected ',' or ')'".into())),
        }
    }

    /// Writes the query that reads the file. Objects of JSON go by the names of their members, unless columns are named.
    fn query(mut self, path: &str, names_columns: bool) -> String {
        let by_ending = || {
            let ending = path
                .rsplit_once('.')
                .map(|(_, ending)| ending.to_lowercase());
            ending.filter(|ending| READERS.iter().any(|(format, _)| format == ending))
        };
        let format = self.format.take().or_else(by_ending);
        let reader = READERS
            .iter()
            .find(|(name, _)| Some(*name) == format.as_deref());
        let reader = reader.map_or(CSV, |(_, reader)| reader);
        let is_format = |name: &str| [DATE_FORMAT, TIMESTAMP_FORMAT].contains(&name);
        if reader == CSV && !self.arguments.iter().any(|(name, _)| is_format(name)) {
            self.arguments.push(("all_varchar", true.to_string()));
        }
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|(name, value)| format!(", {name} => {value}"));
        let arguments: String = arguments.collect();
        let by_name = match reader == JSON && !names_columns {
            true => "BY NAME ",
            false => "",
        };
        format!(
            " {by_name}SELECT * FROM {reader}({}{arguments})",
            quoted(path)
        )
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::GenericDialect;

    use super::super::tokenize;
    use super::as_insert;

    fn written(sql: &str) -> Result<String, String> {
        let (tokens, _) = tokenize(sql, &GenericDialect {});
        let tokens = as_insert(tokens).map_err(|error| error.to_string())?;
        Ok(tokens.iter().map(|token| token.token.to_string()).collect())
    }

    #[test]
    fn files_are_inserted() {
        for (sql, expected) in [
            (
                "COPY t FROM 'x.csv'",
                "INSERT INTO t  SELECT * FROM read_csv('x.csv', all_varchar => true)",
            ),
            (
                "copy s.\"T\" (a, \"to\") from 'its.csv' with (header, delimiter ';', null '-')",
                "INSERT INTO s.\"T\" (a, \"to\")  SELECT * FROM read_csv('its.csv', header => true, delim => \
                 ';', nullstr => '-', all_varchar => true)",
            ),
            (
                "COPY t FROM 'x.parquet'",
                "INSERT INTO t  SELECT * FROM read_parquet('x.parquet')",
            ),
            (
                "COPY t FROM STDIN (FORMAT json)",
                "INSERT INTO t  BY NAME SELECT * FROM read_json('/dev/stdin')",
            ),
            (
                "COPY t FROM 'x' (DATEFORMAT '%d.%m.%Y', SKIP 2)",
                "INSERT INTO t  SELECT * FROM read_csv('x', dateformat => '%d.%m.%Y', skip => 2)",
            ),
            ("COPY t TO 'x.csv'", "COPY t TO 'x.csv'"),
            (
                "COPY (SELECT 1 FROM t) TO 'x.csv'",
                "COPY (SELECT 1 FROM t) TO 'x.csv'",
            ),
            ("COPY \"from\" TO 'x.csv'", "COPY \"from\" TO 'x.csv'"),
            ("SELECT 1 FROM copy", "SELECT 1 FROM copy"),
        ] {
            assert_eq!(written(sql).unwrap(), expected);
        }
    }

    #[test]
    fn options_that_are_not_there_are_refused() {
        for (sql, expected) in [
            ("COPY t FROM x", "a file's path in quotes"),
            ("COPY t FROM 'x' (FROBNICATE 1)", "no option FROBNICATE"),
            (
                "COPY t FROM 'x' (FORMAT xlsx)",
                "csv, parquet, json and arrow",
            ),
            ("COPY t FROM 'x' (HEADER maybe)", "true or false"),
            ("COPY t FROM 'x' CSV HEADER", "in parentheses"),
            ("COPY t FROM 'x' (QUOTE)", "a value of QUOTE"),
        ] {
            let error = written(sql).unwrap_err();
            assert!(error.contains(expected), "{sql}: {error}");
        }
    }
}

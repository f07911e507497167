//! `COPY … TO 'file' (FORMAT csv, HEADER, …)`: the options of PostgreSQL and DuckDB, in DataFusion's words.
//!
//! DataFusion's parser knows `STORED AS`, `PARTITIONED BY` and `OPTIONS`. A list in parentheses behind the file's
//! name is replaced by those before it parses, and columns behind the table's name by a query of them.

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::words::is_word;
use super::{StatementError, tokenize};
use crate::files::copied::{APPEND, FILENAME_PATTERN, OVERWRITE, OVERWRITE_OR_IGNORE, SINGLE_FILE};
use crate::functions::letters::by_letters;

/// Options by their names in either system, and DataFusion's name.
const OPTIONS: [(&str, &str); 23] = [
    ("header", "format.has_header"),
    ("delimiter", "format.delimiter"),
    ("delim", "format.delimiter"),
    ("sep", "format.delimiter"),
    ("quote", "format.quote"),
    ("escape", "format.escape"),
    ("null", "format.null_value"),
    ("nullstr", "format.null_value"),
    ("dateformat", "format.date_format"),
    ("date_format", "format.date_format"),
    ("timestampformat", "format.timestamp_format"),
    ("timestamp_format", "format.timestamp_format"),
    ("compression", "format.compression"),
    ("codec", "format.compression"),
    ("compression_level", COMPRESSION_LEVEL),
    ("row_group_size", "format.max_row_group_size"),
    ("encoding", ENCODING),
    ("array", LINES),
    ("append", APPEND),
    ("overwrite", OVERWRITE),
    ("overwrite_or_ignore", OVERWRITE_OR_IGNORE),
    ("filename_pattern", FILENAME_PATTERN),
    ("per_thread_output", SINGLE_FILE),
];

/// Options that are true or false, or stand alone for true.
const FLAGS: [&str; 4] = ["header", "append", "overwrite", "overwrite_or_ignore"];

/// Options that are true or false, or stand alone for true, and say the opposite of DataFusion's.
const OPPOSITES: [&str; 2] = ["array", "per_thread_output"];

/// Stands for the level until it is known what it is the level of.
const COMPRESSION_LEVEL: &str = "compression_level";

/// Says whether JSON is written as lines, and not as one array.
const LINES: &str = "format.newline_delimited";

/// Stands for the encoding, which is UTF-8.
const ENCODING: &str = "encoding";

/// Levels that Parquet's writer asks for.
const LEVELS: [(&str, &str); 3] = [("zstd", "3"), ("gzip", "6"), ("brotli", "1")];

/// Writes a COPY with options in parentheses as DataFusion has it; leaves any other statement as it is.
pub(super) fn with_options(
    tokens: Vec<TokenWithSpan>,
) -> Result<Vec<TokenWithSpan>, StatementError> {
    let tokens = with_query(tokens);
    let Some((open, after_target)) = list_of(&tokens) else {
        return Ok(tokens);
    };
    let mut list = List {
        tokens: &tokens,
        next: open + 1,
    };
    let mut options = Options::default();
    while !options.take(&mut list)? {}
    let (written, _) = tokenize(&options.text(), &GenericDialect {});
    let span = tokens[open].span;
    let written = written
        .into_iter()
        .map(|token| TokenWithSpan::new(token.token, span));
    let (end, mut tokens) = (list.next, tokens);
    tokens.splice(after_target..end, written);
    Ok(tokens)
}

/// Writes `COPY t (a, b) TO` as `COPY (SELECT a, b FROM t) TO`; leaves any other statement as it is.
fn with_query(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let Some((table, open, close)) = columns_of(&tokens) else {
        return tokens;
    };
    let token = |token, like: &TokenWithSpan| TokenWithSpan::new(token, like.span);
    let word = |text, like: &TokenWithSpan| token(Token::make_word(text, None), like);
    let space = |like: &TokenWithSpan| token(Token::Whitespace(Whitespace::Space), like);
    let (first, last) = (&tokens[open], &tokens[close]);
    let mut query = vec![
        token(Token::LParen, first),
        word("SELECT", first),
        space(first),
    ];
    query.extend_from_slice(&tokens[open + 1..close]);
    query.extend([space(last), word("FROM", last), space(last)]);
    query.extend_from_slice(&tokens[table..open]);
    query.push(token(Token::RParen, last));
    tokens.splice(table..=close, query);
    tokens
}

/// Finds the table of a COPY that writes some of its columns, and the parentheses around those.
fn columns_of(tokens: &[TokenWithSpan]) -> Option<(usize, usize, usize)> {
    let mut words = behind_copy(tokens)?;
    let table = words.next()?;
    if !matches!(tokens[table].token, Token::Word(_)) {
        return None;
    }
    let mut is_name = true;
    let open = loop {
        let place = words.next()?;
        match (&tokens[place].token, is_name) {
            (Token::Period, true) => is_name = false,
            (Token::Word(_), false) => is_name = true,
            (Token::LParen, true) => break place,
            _ => return None,
        }
    };
    let close = loop {
        let place = words.next()?;
        match &tokens[place].token {
            Token::RParen => break place,
            Token::Word(_) | Token::Comma => {}
            _ => return None,
        }
    };
    is_word(&tokens[words.next()?].token, "TO").then_some((table, open, close))
}

/// Returns the places behind COPY that are no space; `None` of another statement.
fn behind_copy(tokens: &[TokenWithSpan]) -> Option<impl Iterator<Item = usize> + '_> {
    let is_space = move |place: &usize| matches!(tokens[*place].token, Token::Whitespace(_));
    let mut words = (0..tokens.len()).filter(move |place| !is_space(place));
    let mut first = &tokens[words.next()?].token;
    if is_word(first, "EXPLAIN") {
        while matches!(first, Token::Word(_)) && !is_word(first, "COPY") {
            first = &tokens[words.next()?].token;
        }
    }
    is_word(first, "COPY").then_some(words)
}

/// Finds the parenthesis that opens the options of a COPY, and the place behind the file's name.
fn list_of(tokens: &[TokenWithSpan]) -> Option<(usize, usize)> {
    let mut words = behind_copy(tokens)?;
    let mut depth = 0_usize;
    loop {
        match &tokens[words.next()?].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            token if depth == 0 && is_word(token, "TO") => break,
            _ => {}
        }
    }
    let target = words.next()?;
    if !matches!(tokens[target].token, Token::SingleQuotedString(_)) {
        return None;
    }
    let mut open = words.next()?;
    if is_word(&tokens[open].token, "WITH") {
        open = words.next()?;
    }
    (tokens[open].token == Token::LParen).then_some((open, target + 1))
}

/// The tokens of the options.
pub(super) struct List<'a> {
    pub(super) tokens: &'a [TokenWithSpan],
    /// The next token, space included.
    pub(super) next: usize,
}

impl<'a> List<'a> {
    pub(super) fn take(&mut self) -> Option<&'a TokenWithSpan> {
        loop {
            let token = self.tokens.get(self.next)?;
            self.next += 1;
            if !matches!(token.token, Token::Whitespace(_)) {
                return Some(token);
            }
        }
    }

    pub(super) fn peek(&mut self) -> Option<&'a Token> {
        let from = self.next;
        let token = self.take().map(|token| &token.token);
        self.next = from;
        token
    }

    /// Says what is wrong with the token that was taken last.
    pub(super) fn error(&self, message: String) -> StatementError {
        let last = self.tokens.get(self.next.saturating_sub(1));
        let (line, column) = last.map_or((1, 1), |token| {
            (token.span.start.line, token.span.start.column)
        });
        StatementError::Syntax {
            message,
            line,
            column,
        }
    }

    /// Takes a name, or names in parentheses.
    fn names(&mut self) -> Result<Vec<String>, StatementError> {
        let is_list = self.peek() == Some(&Token::LParen);
        if is_list {
            self.take();
        }
        let mut names = Vec::new();
        loop {
            match self.take().map(|token| &token.token) {
                // DataFusion's parser takes the name as it stands, quotes and all.
                Some(Token::Word(word)) => names.push(match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                }),
                _ => return Err(self.error("syntax error: expected a column's name".into())),
            }
            if !is_list {
                return Ok(names);
            }
            match self.take().map(|token| &token.token) {
                Some(Token::Comma) => {}
                Some(Token::RParen) => return Ok(names),
                _ => return Err(self.error("syntax error: expected ',' or ')'".into())),
            }
        }
    }

    /// Takes a value, if there is one.
    pub(super) fn value(&mut self) -> Result<Option<String>, StatementError> {
        let text = match self.peek() {
            Some(Token::Comma | Token::RParen) => return Ok(None),
            Some(Token::SingleQuotedString(text)) => text.clone(),
            Some(Token::EscapedStringLiteral(text)) => text.clone(),
            Some(Token::Number(digits, _)) => digits.clone(),
            Some(Token::Word(word)) => word.value.clone(),
            Some(Token::Mul) => "*".into(),
            _ => {
                self.take();
                return Err(self.error("syntax error: expected the option's value".into()));
            }
        };
        self.take();
        Ok(Some(text))
    }
}

/// What is said of the file.
#[derive(Default)]
struct Options {
    format: Option<String>,
    partitions: Vec<String>,
    level: Option<String>,
    others: Vec<(String, String)>,
}

impl Options {
    /// Takes one option; returns whether it was the last.
    fn take(&mut self, list: &mut List<'_>) -> Result<bool, StatementError> {
        let name = match list.take().map(|token| &token.token) {
            Some(Token::Word(word)) => word.value.to_lowercase(),
            _ => return Err(list.error("syntax error: expected an option of COPY".into())),
        };
        match name.as_str() {
            "format" => match list.value()? {
                Some(format) => self.format = Some(format.to_uppercase()),
                None => return Err(list.error("syntax error: expected the format's name".into())),
            },
            "partition_by" | "partitioned_by" => self.partitions = list.names()?,
            "force_quote" => {
                match list.value()?.as_deref() {
                    Some("*") => self
                        .others
                        .push(("format.quote_style".into(), "Always".into())),
                    _ => {
                        let message = "FORCE_QUOTE of some columns is not supported: FORCE_QUOTE *";
                        return Err(list.error(message.into()));
                    }
                };
            }
            "kv_metadata" => self.metadata(list)?,
            name => self.other(name, list)?,
        }
        match list.take().map(|token| &token.token) {
            Some(Token::Comma) => Ok(false),
            Some(Token::RParen) => Ok(true),
            _ => Err(list.error("syntax error: expected ',' or ')'".into())),
        }
    }

    fn other(&mut self, name: &str, list: &mut List<'_>) -> Result<(), StatementError> {
        let Some((_, option)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
            let message = format!(
                "COPY has no option {}: it has FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, DATEFORMAT, \
                 TIMESTAMPFORMAT, COMPRESSION, COMPRESSION_LEVEL, ROW_GROUP_SIZE, KV_METADATA, PARTITION_BY, \
                 PER_THREAD_OUTPUT, FILENAME_PATTERN, APPEND, OVERWRITE, OVERWRITE_OR_IGNORE, \
                 ARRAY, FORCE_QUOTE; others are written OPTIONS ('format.name' 'value')",
                name.to_uppercase()
            );
            return Err(list.error(message));
        };
        let value = list.value()?;
        if FLAGS.contains(&name) || OPPOSITES.contains(&name) {
            let Some(is_said) = truth(value) else {
                let name = name.to_uppercase();
                let message = format!("{name} is true or false, or stands alone for true");
                return Err(list.error(message));
            };
            let is_set = (is_said == "true") != OPPOSITES.contains(&name);
            self.others.push((option.to_string(), is_set.to_string()));
            return Ok(());
        }
        let value = match (*option, value) {
            ("format.delimiter", Some(value)) if value == "\\t" => "\t".into(),
            ("format.date_format" | "format.timestamp_format", Some(value)) => {
                by_letters(&value).unwrap_or(value)
            }
            (_, Some(value)) => value,
            (_, None) => {
                let message = format!("syntax error: expected a value of {}", name.to_uppercase());
                return Err(list.error(message));
            }
        };
        match *option {
            ENCODING if ["utf8", "utf-8"].contains(&value.to_lowercase().as_str()) => {}
            ENCODING => return Err(list.error("files are written as UTF-8".into())),
            COMPRESSION_LEVEL => self.level = Some(value),
            option => self.others.push((option.to_string(), value)),
        }
        Ok(())
    }

    /// Takes the keys and values of a Parquet file's own: `{a: 'x', b: 5}`.
    fn metadata(&mut self, list: &mut List<'_>) -> Result<(), StatementError> {
        let wrong = "syntax error: KV_METADATA takes keys with their values, as in {author: 'me'}";
        let mut before = Token::LBrace;
        loop {
            if list.take().map(|token| &token.token) != Some(&before) {
                return Err(list.error(wrong.into()));
            }
            let key = list.value()?;
            let colon = list.take().map(|token| &token.token);
            let (Some(key), Some(Token::Colon), Some(value)) = (key, colon, list.value()?) else {
                return Err(list.error(wrong.into()));
            };
            self.others.push((format!("format.metadata::{key}"), value));
            before = Token::Comma;
            if list.peek() == Some(&Token::RBrace) {
                list.take();
                return Ok(());
            }
        }
    }

    /// Writes the options as DataFusion's parser reads them.
    fn text(self) -> String {
        let mut text = String::from(" ");
        let is_parquet = self
            .format
            .as_deref()
            .is_none_or(|format| format == "PARQUET");
        if let Some(format) = self.format {
            text += &format!("STORED AS {format} ");
        }
        if !self.partitions.is_empty() {
            text += &format!("PARTITIONED BY ({}) ", self.partitions.join(", "));
        }
        let mut options = Vec::new();
        for (name, value) in self.others {
            let level = LEVELS.iter().find(|(codec, _)| {
                name == "format.compression" && value.eq_ignore_ascii_case(codec)
            });
            let value = match level {
                Some((codec, level)) if is_parquet => {
                    let level = self.level.as_deref().unwrap_or(level);
                    format!("{codec}({level})")
                }
                _ => value,
            };
            options.push(format!("{} {}", quoted(&name), quoted(&value)));
        }
        if !options.is_empty() {
            text += &format!("OPTIONS ({})", options.join(", "));
        }
        text
    }
}

/// Writes a string literal.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns whether an option is set: one without a value is; `None` for a value that says neither.
pub(super) fn truth(value: Option<String>) -> Option<String> {
    let is_true = match value.map(|value| value.to_lowercase()).as_deref() {
        None | Some("true" | "on" | "1" | "yes") => true,
        Some("false" | "off" | "0" | "no") => false,
        Some(_) => return None,
    };
    Some(is_true.to_string())
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::GenericDialect;

    use super::super::tokenize;
    use super::with_options;

    fn written(sql: &str) -> Result<String, String> {
        let (tokens, _) = tokenize(sql, &GenericDialect {});
        let tokens = with_options(tokens).map_err(|error| error.to_string())?;
        Ok(tokens.iter().map(|token| token.token.to_string()).collect())
    }

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        assert_eq!(written(sql).unwrap().trim_end(), expect);
    }

    #[track_caller]
    fn check_error(sql: &str, expect: &str) {
        let error = written(sql).unwrap_err();
        assert!(error.contains(expect), "{sql}: {error}");
    }

    #[test]
    fn options_become_those_of_datafusion() {
        check(
            "COPY (SELECT (1) AS \"to\") TO 'x.csv' (FORMAT csv, HEADER, DELIM ';', NULL 'none')",
            "COPY (SELECT (1) AS \"to\") TO 'x.csv' STORED AS CSV OPTIONS ('format.has_header' 'true', \
             'format.delimiter' ';', 'format.null_value' 'none')",
        );
        check(
            "EXPLAIN ANALYZE VERBOSE COPY t TO 'x.csv' (FORMAT csv, HEADER)",
            "EXPLAIN ANALYZE VERBOSE COPY t TO 'x.csv' STORED AS CSV OPTIONS ('format.has_header' 'true')",
        );
        check(
            "COPY t TO 'x' WITH (format 'parquet', codec zstd, compression_level 9, partition_by (a, \"B\"))",
            "COPY t TO 'x' STORED AS PARQUET PARTITIONED BY (a, B) OPTIONS ('format.compression' \
             'zstd(9)')",
        );
        check(
            "COPY t TO 'x.csv' (HEADER off, COMPRESSION gzip, FORMAT csv);",
            "COPY t TO 'x.csv' STORED AS CSV OPTIONS ('format.has_header' 'false', 'format.compression' \
             'gzip');",
        );
        check(
            "COPY t TO 'x.csv' (DELIMITER '\\t')",
            "COPY t TO 'x.csv' OPTIONS ('format.delimiter' '\t')",
        );
        check(
            "COPY t TO 'x.json' (ARRAY)",
            "COPY t TO 'x.json' OPTIONS ('format.newline_delimited' 'false')",
        );
        check(
            "COPY t TO 'x' (FORMAT parquet, OVERWRITE, APPEND false, PER_THREAD_OUTPUT, KV_METADATA {a: 'x', b: 5})",
            "COPY t TO 'x' STORED AS PARQUET OPTIONS ('format.overwrite' 'true', 'format.append' 'false', \
             'format.single_file_output' 'false', 'format.metadata::a' 'x', 'format.metadata::b' '5')",
        );
    }

    #[test]
    fn columns_become_a_query() {
        check(
            "COPY s.\"T\" (a, \"to\") TO 'x.csv' (HEADER)",
            "COPY (SELECT a, \"to\" FROM s.\"T\" ) TO 'x.csv' OPTIONS ('format.has_header' 'true')",
        );
        check(
            "EXPLAIN COPY t(a) TO 'x.csv'",
            "EXPLAIN COPY (SELECT a FROM t) TO 'x.csv'",
        );
        for sql in ["COPY (SELECT (a) FROM t) TO 'x.csv'", "COPY t (a"] {
            check(sql, sql);
        }
    }

    #[test]
    fn other_statements_stay() {
        for sql in [
            "COPY t TO 'x.csv' STORED AS CSV OPTIONS ('format.has_header' 'true')",
            "COPY t TO 'x.csv'",
            "SELECT copy TO 'x' (FORMAT csv)",
            "COPY t TO",
        ] {
            check(sql, sql);
        }
    }

    #[test]
    fn mistakes_are_named() {
        check_error(
            "COPY t TO 'x' (FORMAT)",
            "format's name at line 1, column 16",
        );
        check_error("COPY t TO 'x' (HEADER maybe)", "true or false");
        check_error("COPY t TO 'x' (KV_METADATA {a})", "keys with their values");
        check_error("COPY t TO 'x' (COLOUR red)", "no option COLOUR");
        check_error("COPY t TO 'x' (DELIMITER)", "a value of DELIMITER");
        check_error("COPY t TO 'x' (HEADER true", "expected ',' or ')'");
        check_error("COPY t TO 'x' (ENCODING latin1)", "UTF-8");
    }
}

//! `COPY … TO '/dev/stdout'`, `'-'` and `COPY … TO STDOUT`: a COPY whose rows are wanted as a stream of bytes.
//!
//! COPY writes files, whole and then renamed. So whoever has the stream lets the statement write a file of its own
//! ([`StreamedCopy::to_file`]), and sends that on.

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokenize;
use super::walk::Walk;
use super::words::is_word;

/// Names of standard output.
const NAMES: [&str; 5] = [
    "-",
    "/dev/stdout",
    "/dev/fd/1",
    "/proc/self/fd/1",
    "file:///dev/stdout",
];

/// The format of what does not say which.
const FORMAT: &str = "csv";

/// A COPY to standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedCopy<'a> {
    before: &'a str,
    after: &'a str,
    format: String,
}

/// Returns a statement that is a COPY to standard output.
pub fn streamed_copy(sql: &str) -> Option<StreamedCopy<'_>> {
    let (tokens, error) = tokenize(sql, &GenericDialect {});
    let is_space = |token: &&TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut words = tokens.iter().filter(|token| !is_space(token));
    if error.is_some() || !is_word(&words.next()?.token, "COPY") {
        return None;
    }
    let mut depth = 0_usize;
    loop {
        match &words.next()?.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            token if depth == 0 && is_word(token, "TO") => break,
            _ => {}
        }
    }
    let target = words.next()?;
    let is_stream = match &target.token {
        Token::SingleQuotedString(name) => NAMES.contains(&name.as_str()),
        token => is_word(token, "STDOUT"),
    };
    if !is_stream {
        return None;
    }
    let mut walk = Walk::new(sql);
    let begin = walk.to(target.span.start);
    let end = walk.to(target.span.end);
    let rest: Vec<&Token> = words.map(|word| &word.token).collect();
    let format = format_of(&rest).filter(|name| name.chars().all(char::is_alphanumeric));
    Some(StreamedCopy {
        before: &sql[..begin],
        after: &sql[end..],
        format: format.unwrap_or_else(|| FORMAT.into()),
    })
}

/// Reads `FORMAT csv` or `STORED AS CSV`.
fn format_of(options: &[&Token]) -> Option<String> {
    let named = options.windows(3).find_map(|three| match three {
        [stored, of, name] if is_word(stored, "STORED") && is_word(of, "AS") => Some(name),
        [word, name, _] if is_word(word, "FORMAT") => Some(name),
        _ => None,
    });
    match named? {
        Token::Word(word) => Some(word.value.to_lowercase()),
        Token::SingleQuotedString(name) => Some(name.to_lowercase()),
        _ => None,
    }
}

impl StreamedCopy<'_> {
    /// Returns the format of the bytes, in lower case: `csv`, `parquet`.
    pub fn format(&self) -> &str {
        &self.format
    }

    /// Returns the statement with a file in the place of standard output. A path that ends in the format's name is
    /// written as one file.
    pub fn to_file(&self, path: &str) -> String {
        let path = path.replace('\'', "''");
        format!("{}'{path}'{}", self.before, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::streamed_copy;

    #[test]
    fn copies_to_standard_output_are_found() {
        for (sql, format, expect) in [
            ("COPY t TO '/dev/stdout'", "csv", "COPY t TO 'x'"),
            (
                "copy (SELECT 'ü' AS to) to STDOUT (FORMAT parquet);",
                "parquet",
                "copy (SELECT 'ü' AS to) to 'x' (FORMAT parquet);",
            ),
            (
                "COPY t TO '-' STORED AS JSON ",
                "json",
                "COPY t TO 'x' STORED AS JSON ",
            ),
            (
                "COPY t TO '/dev/fd/1' (HEADER, FORMAT 'CSV')",
                "csv",
                "COPY t TO 'x' (HEADER, FORMAT 'CSV')",
            ),
        ] {
            let copy = streamed_copy(sql).unwrap();
            assert_eq!(copy.format(), format, "{sql}");
            assert_eq!(copy.to_file("x"), expect);
        }
        for sql in [
            "COPY t TO 'stdout.csv'",
            "SELECT 1",
            "COPY (SELECT '/dev/stdout') TO 'x.csv'",
            "COPY t FROM STDIN",
        ] {
            assert_eq!(streamed_copy(sql), None, "{sql}");
        }
    }
}

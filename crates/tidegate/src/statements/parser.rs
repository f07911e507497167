//! The parser: extension statements, which DataFusion does not know, around DataFusion's own parser.
//!
//! ```text
//! KILL [QUERY] id
//! CACHE TABLE name [(column, …)] ON (DEVICE | HOST)
//! UNCACHE TABLE name
//! SET VARIABLE name = value
//! RESET VARIABLE name
//! DROP MACRO [TABLE] [IF EXISTS] name
//! EXPLAIN FORMAT CUDA query
//! EXPLAIN (FORMAT CUDA) query
//! SUMMARIZE ([TABLE] table … | query)
//! COPY … TO 'file' [WITH] (option [value], …)
//! ```

mod created;

use datafusion::common::config::SqlParserOptions;
use datafusion::common::{not_impl_err, plan_datafusion_err};
use datafusion::error::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use sqlparser::ast::Ident;
use sqlparser::dialect::{Dialect, PostgreSqlDialect};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Whitespace};

use super::numbers::{joined_numbers, joined_powers};
use super::text::dialect_of;
use super::words::{is_word, places};
use super::{
    StatementError, asof, comprehensions, copy, copy_from, depth, from_first, in_lists,
    interval_words, lambda_words, pattern_words, pivot_words, placeholders, sample_words,
    select_words, shares, struct_types, symmetric, table_words, told_tables, using_sample,
};
use crate::error::Error;

/// Words that begin a query.
const QUERY_WORDS: [&str; 4] = ["SELECT", "WITH", "VALUES", "FROM"];

/// What a statement's first words tell.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// `KILL QUERY`, with the number of the query.
    Kill(u64),
    /// A statement about the column cache.
    Cache(CacheStatement),
    /// `SET VARIABLE`, with the query of its value, or `RESET VARIABLE`.
    Variable(String, Option<Unparsed>),
    /// `EXPLAIN` of a query, in a format of regions.
    Regions(RegionFormat, Unparsed),
    /// What DataFusion plans.
    Standard(Unparsed),
}

/// What `EXPLAIN` shows of a query's regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionFormat {
    /// `FORMAT CUDA`: their kernels.
    Cuda,
    /// `FORMAT PROGRAM`: their row programs.
    Program,
}

/// A statement that DataFusion's parser is still to read.
#[derive(Debug)]
pub(crate) struct Unparsed {
    tokens: Vec<TokenWithSpan>,
    /// Whether the statement is `SUMMARIZE` of these tokens.
    is_summary: bool,
}

/// A statement as DataFusion's parser reads it.
#[derive(Debug)]
pub(crate) struct ParsedStatement {
    pub(crate) statement: Statement,
    /// Whether its columns are asked for, by `SUMMARIZE`, not its rows.
    pub(crate) is_summary: bool,
}

/// A statement about the column cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CacheStatement {
    /// Keep a table, or some of its columns.
    Cache {
        table: Vec<Ident>,
        /// Empty for all.
        columns: Vec<Ident>,
        tier: Tier,
    },
    /// Let it go.
    Uncache { table: Vec<Ident> },
}

/// Where a table is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Device,
    Host,
}

/// Reads the words of a statement, space and comments left out.
pub(super) struct TidegateParser {
    tokens: Vec<TokenWithSpan>,
    /// The next token that is no space.
    next: usize,
}

impl TidegateParser {
    pub(super) fn new(tokens: Vec<TokenWithSpan>) -> Self {
        let mut parser = Self { tokens, next: 0 };
        parser.skip_space();
        parser
    }

    pub(super) fn parse(mut self) -> Result<Parsed, StatementError> {
        if self.takes("KILL") {
            return self.kill();
        }
        if self.takes_all(&["CACHE", "TABLE"]) {
            return self.cache();
        }
        if self.takes_all(&["UNCACHE", "TABLE"]) {
            let table = self.name()?;
            self.end()?;
            return Ok(Parsed::Cache(CacheStatement::Uncache { table }));
        }
        if self.takes_all(&["SET", "VARIABLE"]) {
            return self.variable();
        }
        if self.takes_all(&["RESET", "VARIABLE"]) {
            let name = self.part("a variable's name")?;
            self.end()?;
            return Ok(Parsed::Variable(name.value.to_lowercase(), None));
        }
        self.function_for_macro();
        if self.is_next("PREPARE") {
            placeholders::number(&mut self.tokens)?;
            placeholders::number_names(&mut self.tokens)?;
        }
        self.set_for_pragma();
        self.name_json();
        self.tokens = interval_words::in_singular(struct_types::with_brackets(self.tokens));
        self.tokens = table_words::as_queries(self.tokens);
        self.write_created();
        self.tokens = using_sample::behind_tables(self.tokens);
        self.tokens = told_tables::as_calls(sample_words::as_standard(self.tokens));
        self.tokens = shares::as_calls(symmetric::as_calls(self.tokens));
        self.tokens = copy::with_options(copy_from::as_insert(self.tokens)?)?;
        self.tokens = pivot_words::behind_tables(self.tokens);
        self.tokens = comprehensions::as_calls(pattern_words::as_regular(self.tokens));
        self.tokens = in_lists::as_comparisons(in_lists::in_parentheses(self.tokens));
        self.tokens = lambda_words::as_arrows(from_first::select_all(self.tokens));
        self.tokens = asof::with_matches(select_words::as_standard(self.tokens));
        let Some((format, is_list)) = self.region_format() else {
            return Ok(Parsed::Standard(self.standard()?));
        };
        if is_list && !self.takes(")") {
            return Err(self.expected("')'"));
        }
        if self.is_at_end() {
            return Err(self.expected("a query"));
        }
        Ok(Parsed::Regions(format, self.standard()?))
    }

    /// Reads the name and the value of a variable: `x = 5` becomes `SELECT 5`.
    fn variable(mut self) -> Result<Parsed, StatementError> {
        let name = self.part("a variable's name")?.value.to_lowercase();
        if !self.takes("=") && !self.takes(":=") && !self.takes("TO") {
            return Err(self.expected("= and a value"));
        }
        if self.is_at_end() {
            return Err(self.expected("a value"));
        }
        let mut query = self.tokens.split_off(self.next);
        let span = query.first().map_or(Span::empty(), |first| first.span);
        let space = Token::Whitespace(Whitespace::Space);
        let select = [Token::make_keyword("SELECT"), space];
        query.splice(..0, select.map(|token| TokenWithSpan::new(token, span)));
        let value = Self::new(query).parse()?;
        Ok(Parsed::Variable(name, value.standard()))
    }

    /// Makes `DROP FUNCTION f` of `DROP MACRO f` and `DROP MACRO TABLE f`.
    fn function_for_macro(&mut self) {
        let words = places(&self.tokens);
        if let [drop, what, next, ..] = words[..]
            && is_word(&self.tokens[drop].token, "DROP")
            && is_word(&self.tokens[what].token, "MACRO")
        {
            self.tokens[what].token = Token::make_keyword("FUNCTION");
            if is_word(&self.tokens[next].token, "TABLE") && words.len() > 3 {
                self.tokens.remove(next);
            }
        }
    }

    /// Makes `SET threads = 4` of `PRAGMA threads = 4`.
    fn set_for_pragma(&mut self) {
        if let [pragma, _, equals, ..] = places(&self.tokens)[..]
            && is_word(&self.tokens[pragma].token, "PRAGMA")
            && self.tokens[equals].token == Token::Eq
        {
            self.tokens[pragma].token = Token::make_keyword("SET");
        }
    }

    /// Takes `FORMAT JSON` of an EXPLAIN for `FORMAT PGJSON`, as DataFusion calls it.
    fn name_json(&mut self) {
        let words = places(&self.tokens);
        let begins = words
            .first()
            .is_some_and(|first| is_word(&self.tokens[*first].token, "EXPLAIN"));
        for pair in words.windows(2).filter(|_| begins) {
            let [before, token] = [pair[0], pair[1]].map(|place| &self.tokens[place].token);
            if QUERY_WORDS.iter().any(|word| is_word(token, word)) {
                break;
            }
            if is_word(before, "FORMAT") && is_word(token, "JSON") {
                self.tokens[pair[1]].token = Token::make_word("PGJSON", None);
                break;
            }
        }
    }

    /// Takes `EXPLAIN` with a format of regions; returns it, and whether a parenthesis is open.
    fn region_format(&mut self) -> Option<(RegionFormat, bool)> {
        let formats = [
            ("CUDA", RegionFormat::Cuda),
            ("PROGRAM", RegionFormat::Program),
        ];
        formats.into_iter().find_map(|(word, format)| {
            let is_list = self.takes_all(&["EXPLAIN", "(", "FORMAT", word]);
            let is_it = is_list || self.takes_all(&["EXPLAIN", "FORMAT", word]);
            is_it.then_some((format, is_list))
        })
    }

    fn kill(mut self) -> Result<Parsed, StatementError> {
        self.takes("QUERY");
        let id = match self.peek() {
            Some(Token::Number(digits, _)) => digits.parse().ok(),
            _ => None,
        };
        let Some(id) = id else {
            return Err(self.expected("the query_id of system.queries"));
        };
        self.advance();
        self.end()?;
        Ok(Parsed::Kill(id))
    }

    fn cache(mut self) -> Result<Parsed, StatementError> {
        let table = self.name()?;
        let columns = self.columns()?;
        let tier = self.tier()?;
        self.end()?;
        Ok(Parsed::Cache(CacheStatement::Cache {
            table,
            columns,
            tier,
        }))
    }

    /// Leaves the rest to DataFusion's parser; of a table to be summarized, all rows are selected.
    fn standard(mut self) -> Result<Unparsed, StatementError> {
        let span = self.tokens.get(self.next).map_or(Span::empty(), |t| t.span);
        let is_summary = self.takes("SUMMARIZE");
        let is_table = is_summary && self.takes("TABLE");
        if is_summary && self.is_at_end() {
            return Err(self.expected("a table or a query"));
        }
        let selects_all = is_summary && (is_table || !self.begins_query());
        let head = match selects_all {
            true => vec![
                Token::make_keyword("SELECT"),
                Token::Mul,
                Token::make_keyword("FROM"),
            ],
            false => Vec::new(),
        };
        let head = head
            .into_iter()
            .map(|token| TokenWithSpan::new(token, span));
        let before: Vec<TokenWithSpan> = self.tokens.splice(..self.next, head).collect();
        let is_word = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
        if before.iter().any(is_word) {
            // Behind those words, the scan may have taken the query for another thing.
            depth::check(&self.tokens)?;
        }
        Ok(Unparsed {
            tokens: self.tokens,
            is_summary,
        })
    }

    fn begins_query(&self) -> bool {
        let mut begins = QUERY_WORDS.iter().chain(&["("]);
        begins.any(|word| self.is_next(word))
    }

    fn part(&mut self, what: &str) -> Result<Ident, StatementError> {
        let Some(Token::Word(word)) = self.peek() else {
            return Err(self.expected(what));
        };
        let part = Ident {
            value: word.value.clone(),
            quote_style: word.quote_style,
            span: Span::empty(),
        };
        self.advance();
        Ok(part)
    }

    fn name(&mut self) -> Result<Vec<Ident>, StatementError> {
        let mut parts = vec![self.part("a table's name")?];
        while self.takes(".") {
            parts.push(self.part("a name after the dot")?);
        }
        Ok(parts)
    }

    fn columns(&mut self) -> Result<Vec<Ident>, StatementError> {
        let mut columns = Vec::new();
        if !self.takes("(") {
            return Ok(columns);
        }
        loop {
            columns.push(self.part("a column's name")?);
            if self.takes(")") {
                return Ok(columns);
            }
            if !self.takes(",") {
                return Err(self.expected("',' or ')'"));
            }
        }
    }

    fn tier(&mut self) -> Result<Tier, StatementError> {
        if !self.takes("ON") {
            return Err(self.expected("ON DEVICE or ON HOST"));
        }
        if self.takes("DEVICE") {
            return Ok(Tier::Device);
        }
        if self.takes("HOST") {
            return Ok(Tier::Host);
        }
        Err(self.expected("DEVICE or HOST"))
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|token| &token.token)
    }

    fn is_at_end(&self) -> bool {
        matches!(self.peek(), None | Some(Token::SemiColon))
    }

    /// Tells whether an unquoted word or a symbol comes next.
    fn is_next(&self, expected: &str) -> bool {
        match self.peek() {
            Some(token @ Token::Word(_)) => is_word(token, expected),
            Some(token) => token.to_string() == expected,
            None => false,
        }
    }

    /// Moves over whatever comes next.
    fn advance(&mut self) {
        self.next += 1;
        self.skip_space();
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(Token::Whitespace(_))) {
            self.next += 1;
        }
    }

    /// Moves over an unquoted word or a symbol, if it comes next.
    fn takes(&mut self, expected: &str) -> bool {
        let is_next = self.is_next(expected);
        if is_next {
            self.advance();
        }
        is_next
    }

    /// Moves over words and symbols, if all of them come next.
    fn takes_all(&mut self, expected: &[&str]) -> bool {
        let from = self.next;
        let are_next = expected.iter().all(|expected| self.takes(expected));
        if !are_next {
            self.next = from;
        }
        are_next
    }

    /// Makes sure that nothing follows but semicolons.
    fn end(&mut self) -> Result<(), StatementError> {
        while self.takes(";") {}
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end of the statement")),
        }
    }

    /// Says what should have come next, and what did.
    fn expected(&self, what: &str) -> StatementError {
        let (found, at) = match self.tokens.get(self.next) {
            Some(next) => (next.token.to_string(), next.span.start),
            None => {
                let end = self.tokens.last().map(|last| last.span.end);
                ("nothing".to_string(), end.unwrap_or(Location::new(1, 1)))
            }
        };
        StatementError::Syntax {
            message: format!("syntax error: expected {what}, found {found}"),
            line: at.line,
            column: at.column,
        }
    }
}

impl Parsed {
    /// Returns a statement that DataFusion plans; `None` of an extension statement.
    pub(crate) fn standard(self) -> Option<Unparsed> {
        match self {
            Self::Standard(statement) => Some(statement),
            Self::Kill(_) | Self::Cache(_) | Self::Variable(..) | Self::Regions(..) => None,
        }
    }
}

impl Unparsed {
    /// Has DataFusion's parser read the statement.
    ///
    /// # Errors
    /// Those of DataFusion's parser, and [`StatementError::Syntax`] for a number that a word follows
    /// without a space.
    pub(crate) fn parse(
        self,
        options: &SqlParserOptions,
    ) -> Result<ParsedStatement, DataFusionError> {
        let tokens = joined_powers(joined_numbers(self.tokens).map_err(Error::from)?);
        let dialect: Box<dyn Dialect> = match computes_type(&tokens) {
            true => Box::new(PostgreSqlDialect {}),
            false => dialect_of(options),
        };
        let mut statements = DFParserBuilder::new(tokens)
            .with_dialect(&*dialect)
            .with_recursion_limit(options.recursion_limit.get())
            .build()?
            .parse_statements()?;
        if statements.len() > 1 {
            return not_impl_err!("The context currently only supports a single SQL statement");
        }
        let statement = statements.pop_front().ok_or_else(|| {
            plan_datafusion_err!("No SQL statements were provided in the query string")
        })?;
        Ok(ParsedStatement {
            statement,
            is_summary: self.is_summary,
        })
    }
}

/// Tells whether tokens are `ALTER TABLE … TYPE … USING …`, which only PostgreSQL's dialect takes.
fn computes_type(tokens: &[TokenWithSpan]) -> bool {
    let is_space = |token: &&TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut words = tokens.iter().filter(|token| !is_space(token));
    let mut is_next = |word: &str| {
        words
            .next()
            .is_some_and(|token| is_word(&token.token, word))
    };
    is_next("ALTER") && is_next("TABLE") && words.any(|token| is_word(&token.token, "USING"))
}

#[cfg(test)]
mod tests;

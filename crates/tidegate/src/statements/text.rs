//! A statement's text, cut into tokens once.
//!
//! Whatever is to be known of a text before it is planned is read from these tokens: whether it may
//! be parsed at all, its hints, its long strings, its secrets. [`SqlText::parse`] hands the same
//! tokens to the parser.

use std::sync::Arc;

use datafusion::common::config::SqlParserOptions;
use sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use sqlparser::tokenizer::{Location, TokenWithSpan};

use super::hints::{Hint, hints};
use super::literals::long_literal_bytes;
use super::parser::{Parsed, TidegateParser};
use super::redacted::redacted_tokens;
use super::{StatementError, depth, placeholders, syntax_error, tokenize};

/// A statement's text and its tokens, in the dialect of a session; its shape is within the bounds.
pub(crate) struct SqlText<'a> {
    text: &'a str,
    tokens: Vec<TokenWithSpan>,
}

/// What a text says of its run, beside its meaning. A session state that plans a statement carries it
/// as an extension of its config.
#[derive(Clone, Debug)]
pub(crate) struct StatementContext {
    /// The text without the secrets in it.
    pub(crate) shown: Arc<str>,
    /// Its settings.
    pub(crate) hints: Vec<Hint>,
    /// The bytes of its long strings together: a row may hold each of them.
    pub(crate) long_literal_bytes: usize,
    /// The names of the parameters of `PREPARE`, by their numbers; empty where they have none.
    pub(crate) parameters: Vec<String>,
}

impl<'a> SqlText<'a> {
    /// Cuts a text into tokens.
    ///
    /// # Errors
    /// [`StatementError`] for what has no tokens, or a shape that could overflow a stack or keep the
    /// parser busy for ever.
    pub(crate) fn new(text: &'a str, options: &SqlParserOptions) -> Result<Self, StatementError> {
        let (tokens, error) = tokenize(text, &*dialect_of(options));
        depth::check(&tokens)?;
        match error {
            Some(error) => Err(syntax_error(&error, Location::new(1, 1))),
            None => Ok(Self { text, tokens }),
        }
    }

    /// Reads what the text says of its run.
    ///
    /// # Errors
    /// [`StatementError::Syntax`] for a hint that is none.
    pub(crate) fn context(&self) -> Result<Arc<StatementContext>, StatementError> {
        Ok(Arc::new(StatementContext {
            shown: redacted_tokens(self.text, &self.tokens, true).into(),
            hints: hints(&self.tokens)?,
            long_literal_bytes: long_literal_bytes(&self.tokens),
            parameters: placeholders::names(&self.tokens),
        }))
    }

    /// Writes parameters that are written as `?` as `$1`, `$2`, …, in the order of the text.
    ///
    /// # Errors
    /// [`StatementError::Syntax`] for a statement that has parameters of both kinds.
    pub(crate) fn number_placeholders(&mut self) -> Result<(), StatementError> {
        placeholders::number(&mut self.tokens)
    }

    /// Tells which statement it is. DataFusion's part of the work is left: it may recurse.
    ///
    /// # Errors
    /// [`StatementError`] for a statement of Tidegate's own with a mistake.
    pub(crate) fn parse(self) -> Result<Parsed, StatementError> {
        TidegateParser::new(self.tokens).parse()
    }
}

/// Returns the dialect that is set; the setting takes the names of dialects only.
pub(super) fn dialect_of(options: &SqlParserOptions) -> Box<dyn Dialect> {
    dialect_from_str(options.dialect).unwrap_or_else(|| Box::new(GenericDialect {}))
}

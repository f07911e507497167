//! Cuts SQL text into statements, and bounds a statement before it is parsed.
//!
//! Everything here works on the tokens of the dialect that the engine parses with (sqlparser's
//! generic one), so strings, dollar quotes, quoted names and comments end where the parser thinks
//! they end, and none of it recurses: text of any size and shape is read in linear time on a
//! constant stack.
//!
//! [`locate`] cuts a script at its semicolons; [`is_complete`] tells a prompt whether
//! to ask for another line; [`highlight`] tells it what to colour, and [`redacted`] leaves secrets out
//! of a text that is kept or shown.
//!
//! A statement's way to a plan begins with `SqlText`: its text is cut into tokens once, and its shape
//! is bounded, so that neither the parser nor the planner overflows its stack or is kept busy for
//! ever. The parser reads extension statements, which DataFusion does not plan, and leaves the tokens
//! of any other to DataFusion's own; `Rewrites` prepares the parsed form for the planner.

pub(crate) mod aliases;
mod any_lists;
mod array_queries;
mod arrows;
pub(crate) mod asof;
mod assignments;
mod calls;
mod casts;
mod collations;
pub(crate) mod columns;
mod comprehensions;
mod copy;
mod copy_from;
mod depth;
mod distinct;
mod escapes;
mod exact_numbers;
mod fetches;
mod from_first;
mod from_the_end;
mod grouped;
mod highlight;
mod hints;
mod in_lists;
mod interval_words;
mod intervals;
mod joins;
mod json_paths;
mod json_structures;
mod json_tables;
mod lambda_words;
pub(crate) mod letter_case;
mod level;
mod limits;
mod list_literals;
mod literals;
mod methods;
mod numbers;
mod operators;
mod order_all;
mod output_names;
mod parser;
mod pattern_words;
pub(crate) mod pivot;
mod pivot_words;
mod placeholders;
mod redacted;
pub(crate) mod repeated;
mod rewrites;
mod sample_words;
pub(crate) mod scope;
mod select_words;
mod series;
mod shadowed;
mod shares;
mod shifts;
mod streamed;
mod struct_types;
mod symmetric;
mod table_fields;
mod table_macros;
mod table_words;
mod text;
mod told_tables;
mod truncate;
mod truths;
mod tuples;
mod typed_values;
mod unnested;
pub(crate) mod using;
mod using_sample;
mod value_types;
pub(crate) mod visits;
mod walk;
pub(crate) mod whole_rows;
mod windows;
mod words;
mod zones;

use datafusion::common::config::SqlParserOptions;
use sqlparser::dialect::{Dialect, GenericDialect};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};

use crate::error::{Error, ErrorKind, SqlPlace};
use walk::Walk;

pub(crate) use calls::{call, string};
pub use highlight::{HighlightKind, HighlightSpan, KEYWORDS, highlight};
pub(crate) use hints::Hint;
pub(crate) use order_all::{order_by_places, place_all, unplaced_all};
pub(crate) use output_names::name_outputs;
pub(crate) use parser::{CacheStatement, Parsed, ParsedStatement, RegionFormat, Tier, Unparsed};
pub use placeholders::with_values;
pub use redacted::redacted;
pub(crate) use rewrites::Rewrites;
pub(crate) use select_words::BY_NAME;
pub use streamed::{StreamedCopy, streamed_copy};
pub(crate) use text::{SqlText, StatementContext};
pub(crate) use told_tables::TOLD;
pub(crate) use typed_values::{named_row, row_values};

/// Bytes that are tokenized at a time, so that a script needs memory for its largest statement and
/// not for all of them.
const WINDOW: usize = 1 << 20;

/// The longest excerpt of a statement that a message quotes, in characters.
const EXCERPT_MAX: usize = 70;

/// What to do about a string that does not end.
pub(crate) const STRING_HELP: &str = "a string ends with '; a ' in it is written twice: 'it''s'";

/// Says why text is not a list of statements, or why a statement is refused before it is parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// The text cannot be cut into tokens, for example because a quote is never closed.
    #[error("{message} at line {line}, column {column}")]
    Syntax {
        /// What is wrong, in lower case.
        message: String,
        /// Line of the text, from 1.
        line: u64,
        /// Column in characters, from 1.
        column: u64,
    },
    /// One statement has more of something than is safe to parse and to plan.
    #[error("{message}")]
    Limit {
        /// What it has too much of, how much, what is allowed, and a way out.
        message: String,
    },
}

impl StatementError {
    /// Makes an error that shows the place in the text, whose lines are counted as the error counts them.
    pub fn in_text(self, text: &str) -> Error {
        let Self::Syntax {
            message,
            line,
            column,
        } = &self
        else {
            return self.into();
        };
        let place = SqlPlace::new(text, *line, *column, 1);
        let is_string = message.contains("string literal");
        let help = is_string.then(|| STRING_HELP.to_string());
        let error = Error::from(self.clone()).with_message(message.clone());
        error.at(Some(place)).with_help(help)
    }
}

impl From<StatementError> for Error {
    fn from(error: StatementError) -> Self {
        Self::with_source(ErrorKind::Sql, error.to_string(), error)
    }
}

/// One statement of a script and where it stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    text: String,
    head: usize,
    line: u64,
}

impl Statement {
    /// Returns the statement as it was written, leading comments included, without its semicolon.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the line of the script on which the statement's first word stands, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the statement's first words on one line, for messages.
    pub fn excerpt(&self) -> String {
        let mut words = String::new();
        for c in self.text[self.head..].chars() {
            let space = c.is_whitespace() || c.is_control();
            if space && words.ends_with(' ') {
                continue;
            }
            words.push(if space { ' ' } else { c });
            if words.chars().count() > EXCERPT_MAX {
                words.pop();
                return format!("{}…", words.trim_end());
            }
        }
        words
    }
}

/// Cuts `text` at every semicolon that is not part of a string, a quoted name or a comment, and says
/// where each statement stands.
///
/// Statements keep their text, comments included; what holds only space and comments is dropped.
///
/// # Errors
/// [`StatementError::Syntax`], with nothing cut, when the text cannot be cut into tokens.
pub fn locate(text: &str) -> Result<Vec<Statement>, StatementError> {
    let mut statements = Vec::new();
    let mut base = Location::new(1, 1);
    let mut start = 0_usize;
    let mut size = WINDOW;
    loop {
        let end = text.floor_char_boundary(start.saturating_add(size));
        let window = &text[start..end];
        // What the end of the window cuts in two is behind its last semicolon, which is all that is
        // used of a window unless it is the last.
        let (tokens, error) = tokenize(window, &GenericDialect {});
        let mut cutter = Cutter::new(window, base);
        for token in &tokens {
            if let Some(statement) = cutter.token(token) {
                statements.push(statement);
            }
        }
        if end == text.len() {
            if let Some(error) = error {
                return Err(syntax_error(&error, base));
            }
            statements.extend(cutter.rest());
            return Ok(statements);
        }
        if cutter.start == 0 {
            size = size.saturating_mul(2);
        } else {
            start += cutter.start;
            base = cutter.start_location;
            size = WINDOW;
        }
    }
}

/// Tells whether a prompt should run `text` as it stands: it ends with a semicolon and no quote,
/// comment, parenthesis or bracket is open. Blank text and text with an error that no further line
/// can mend are complete too.
pub fn is_complete(text: &str) -> bool {
    let (tokens, error) = tokenize(text, &GenericDialect {});
    if let Some(error) = error {
        return !can_be_continued(&error, text);
    }
    let mut open = 0_i64;
    let mut last = None;
    for token in tokens.iter().map(|t| &t.token) {
        match token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket | Token::LBrace => open += 1,
            Token::RParen | Token::RBracket | Token::RBrace => open -= 1,
            _ => {}
        }
        last = Some(token);
    }
    match last {
        None => true,
        Some(token) => *token == Token::SemiColon && open <= 0,
    }
}

/// Cuts text into words and symbols, without space and comments, up to the first mistake.
pub(crate) fn words(text: &str, options: &SqlParserOptions) -> Vec<TokenWithSpan> {
    let (mut tokens, _) = tokenize(text, &*text::dialect_of(options));
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    tokens
}

/// Cuts text into tokens, up to the first mistake.
fn tokenize(text: &str, dialect: &dyn Dialect) -> (Vec<TokenWithSpan>, Option<TokenizerError>) {
    let mut tokens = Vec::new();
    let error = Tokenizer::new(dialect, text)
        .tokenize_with_location_into_buf(&mut tokens)
        .err();
    (tokens, error)
}

/// Tells an open quote or comment from an error inside one. An escape string (`E'...'`) reports
/// both alike, so there the semicolon decides.
fn can_be_continued(error: &TokenizerError, text: &str) -> bool {
    let message = error.message.as_str();
    if message.contains("encoded string") {
        return !text.trim_end().ends_with(';');
    }
    ["Unterminated", "Unexpected EOF", "Expected close delimiter"]
        .iter()
        .any(|start| message.starts_with(start))
}

fn syntax_error(error: &TokenizerError, base: Location) -> StatementError {
    let mut message = error.message.clone();
    if let Some(first) = message.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    let at = error.location;
    StatementError::Syntax {
        message: message.trim_end_matches('.').to_string(),
        line: base.line + at.line.saturating_sub(1),
        column: match at.line {
            1 => base.column + at.column.saturating_sub(1),
            _ => at.column,
        },
    }
}

/// Walks the tokens of a window and the text beside them, since tokens know lines and columns where
/// cutting needs bytes.
struct Cutter<'a> {
    /// Where it stands in the window.
    walk: Walk<'a>,
    /// Location of the window's first character in the whole text.
    base: Location,
    /// Byte and location (in the whole text) behind the last semicolon.
    start: usize,
    start_location: Location,
    /// Byte and line of the first word of the statement under way.
    head: Option<(usize, u64)>,
    /// End of the hint comment whose inner tokens are passing by.
    hint_end: Location,
}

impl<'a> Cutter<'a> {
    fn new(window: &'a str, base: Location) -> Self {
        Self {
            walk: Walk::new(window),
            base,
            start: 0,
            start_location: base,
            head: None,
            hint_end: Location::new(1, 1),
        }
    }

    /// Takes the next token; returns a statement when the token ends one that is not empty.
    fn token(&mut self, token: &TokenWithSpan) -> Option<Statement> {
        if token.span.start < self.hint_end {
            return None;
        }
        self.walk.to(token.span.start);
        if self.walk.rest().starts_with("/*!") {
            // The tokenizer replaces a hint comment by what stands in it, located as if its opening
            // were not there. It belongs to the statement whole.
            self.head.get_or_insert((self.walk.offset, self.line()));
            self.skip_comment();
            self.hint_end = self.walk.location;
            return None;
        }
        match token.token {
            Token::Whitespace(_) => None,
            Token::SemiColon => {
                let statement = self.statement(self.walk.offset);
                self.walk.step();
                self.start = self.walk.offset;
                self.start_location = self.whole(self.walk.location);
                statement
            }
            _ => {
                self.head.get_or_insert((self.walk.offset, self.line()));
                None
            }
        }
    }

    /// Returns what stands behind the last semicolon, unless it is empty.
    fn rest(mut self) -> Option<Statement> {
        self.statement(self.walk.text.len())
    }

    fn statement(&mut self, end: usize) -> Option<Statement> {
        let (head, line) = self.head.take()?;
        let untrimmed = &self.walk.text[self.start..end];
        let text = untrimmed.trim_start();
        Some(Statement {
            head: head - self.start - (untrimmed.len() - text.len()),
            text: text.trim_end().to_string(),
            line,
        })
    }

    /// Moves over a comment that the tokenizer has found to be closed, nested ones included.
    fn skip_comment(&mut self) {
        let mut open = 0_usize;
        loop {
            let rest = self.walk.rest();
            let opens = rest.starts_with("/*");
            let closes = rest.starts_with("*/");
            if opens || closes {
                self.walk.step();
            }
            if !self.walk.step() {
                return;
            }
            open += usize::from(opens);
            open -= usize::from(closes);
            if open == 0 {
                return;
            }
        }
    }

    fn line(&self) -> u64 {
        self.whole(self.walk.location).line
    }

    /// Turns a location in the window into one in the whole text.
    fn whole(&self, at: Location) -> Location {
        let column = match at.line {
            1 => self.base.column + at.column - 1,
            _ => at.column,
        };
        Location::new(self.base.line + at.line - 1, column)
    }
}

#[cfg(test)]
mod tests;

//! Cuts SQL text into statements, and bounds a statement before it is parsed.
//!
//! Everything here works on the tokens of the dialect that the engine parses with (sqlparser's
//! generic one), so strings, dollar quotes, quoted names and comments end where the parser thinks
//! they end, and none of it recurses: text of any size and shape is read in linear time on a
//! constant stack.
//!
//! [`split`] and [`locate`] cut a script at its semicolons; [`is_complete`] tells a prompt whether
//! to ask for another line; [`check_depth`] refuses what would overflow the stack of the parser or
//! the planner, or keep the parser busy for ever; `cache_statement`, `explained_kernels`,
//! `killed_query` and `summarized` read the statements that DataFusion does not plan, `hints` the
//! settings of one, `number_placeholders` and `plain_numbers` prepare the text of one that it does, and
//! `Rewrites` its parsed form; [`pieces`] tells a prompt what to colour, and
//! [`redacted`] leaves secrets out of a text that is kept or shown.

mod cache;
mod depth;
mod explain;
mod hints;
mod kill;
mod level;
mod limits;
mod literals;
mod numbers;
mod own;
mod pieces;
mod placeholders;
mod redacted;
mod rewrites;
mod summarize;
mod words;

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};

pub(crate) use cache::{CacheStatement, NamePart, Tier, cache_statement};
pub use depth::check_depth;
pub(crate) use explain::explained_kernels;
pub(crate) use hints::{hints, may_have_hints};
pub(crate) use kill::killed_query;
pub use limits::{
    MAX_CHAIN, MAX_DOUBLING, MAX_JOINS, MAX_NESTING, MAX_QUERIES, MAX_SET_OPERATIONS,
};
pub(crate) use literals::long_literal_bytes;
pub(crate) use numbers::plain_numbers;
pub use pieces::{KEYWORDS, Piece, PieceKind, pieces};
pub(crate) use placeholders::number_placeholders;
pub use placeholders::with_values;
pub use redacted::redacted;
pub(crate) use rewrites::Rewrites;
pub(crate) use summarize::summarized;

/// Bytes that are tokenized at a time, so that a script needs memory for its largest statement and
/// not for all of them.
const WINDOW: usize = 1 << 20;

/// The longest excerpt of a statement that a message quotes, in characters.
const EXCERPT_MAX: usize = 70;

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
    /// One expression has too many operators in a row.
    #[error(
        "expression chain of {found} operators exceeds the limit of {limit}: use IN (...), a VALUES table, or split the expression"
    )]
    Chain {
        /// Operators found.
        found: usize,
        /// Operators allowed, [`MAX_CHAIN`].
        limit: usize,
    },
    /// Parentheses, brackets, CASE, type brackets or EXPLAIN are nested too deep.
    #[error(
        "nesting of {found} levels of parentheses, brackets or CASE exceeds the limit of {limit}: name inner parts in a WITH clause"
    )]
    Nesting {
        /// Levels found.
        found: usize,
        /// Levels allowed, [`MAX_NESTING`].
        limit: usize,
    },
    /// Expression subqueries, calls with a syntax of their own, dotted names or NOT are nested so
    /// deep that the parser and the planner, which go through each twice, might not come back.
    #[error(
        "nesting of {found} subqueries, calls such as CAST, name parts or NOT exceeds the limit of {limit}: name inner parts in a WITH clause"
    )]
    Doubling {
        /// Levels found; POSITION counts twice.
        found: usize,
        /// Levels allowed, [`MAX_DOUBLING`].
        limit: usize,
    },
    /// One statement has too many UNION, EXCEPT or INTERSECT.
    #[error(
        "{found} set operations exceed the limit of {limit} in one statement: use a VALUES table, or insert the parts into one table"
    )]
    SetOperations {
        /// Set operations found.
        found: usize,
        /// Set operations allowed, [`MAX_SET_OPERATIONS`].
        limit: usize,
    },
    /// One statement joins too many tables, commas in FROM included.
    #[error(
        "{found} joins exceed the limit of {limit} in one statement: store an intermediate result with CREATE TABLE ... AS"
    )]
    Joins {
        /// Joins found.
        found: usize,
        /// Joins allowed, [`MAX_JOINS`].
        limit: usize,
    },
    /// One statement holds too many queries, WITH clauses and subqueries included.
    #[error(
        "{found} queries exceed the limit of {limit} in one statement: store an intermediate result with CREATE TABLE ... AS"
    )]
    Queries {
        /// Queries found.
        found: usize,
        /// Queries allowed, [`MAX_QUERIES`].
        limit: usize,
    },
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

/// Cuts `text` at every semicolon that is not part of a string, a quoted name or a comment.
///
/// Statements keep their text, comments included; what holds only space and comments is dropped.
/// Fails, with nothing cut, when the text cannot be tokenized.
pub fn split(text: &str) -> Result<Vec<String>, StatementError> {
    Ok(locate(text)?.into_iter().map(|s| s.text).collect())
}

/// Does what [`split`] does, and says where each statement stands.
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
        let (tokens, error) = tokenize(window);
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
    let (tokens, error) = tokenize(text);
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

fn tokenize(text: &str) -> (Vec<TokenWithSpan>, Option<TokenizerError>) {
    let mut tokens = Vec::new();
    let error = Tokenizer::new(&GenericDialect {}, text)
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
    window: &'a str,
    /// Location of the window's first character in the whole text.
    base: Location,
    /// Where the walk stands: bytes into the window, and the same place as the tokenizer counts.
    offset: usize,
    location: Location,
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
            window,
            base,
            offset: 0,
            location: Location::new(1, 1),
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
        while self.location < token.span.start && self.step() {}
        if self.window[self.offset..].starts_with("/*!") {
            // The tokenizer replaces a hint comment by what stands in it, located as if its opening
            // were not there. It belongs to the statement whole.
            self.head.get_or_insert((self.offset, self.line()));
            self.skip_comment();
            self.hint_end = self.location;
            return None;
        }
        match token.token {
            Token::Whitespace(_) => None,
            Token::SemiColon => {
                let statement = self.statement(self.offset);
                self.step();
                self.start = self.offset;
                self.start_location = self.whole(self.location);
                statement
            }
            _ => {
                self.head.get_or_insert((self.offset, self.line()));
                None
            }
        }
    }

    /// Returns what stands behind the last semicolon, unless it is empty.
    fn rest(mut self) -> Option<Statement> {
        self.statement(self.window.len())
    }

    fn statement(&mut self, end: usize) -> Option<Statement> {
        let (head, line) = self.head.take()?;
        let untrimmed = &self.window[self.start..end];
        let text = untrimmed.trim_start();
        Some(Statement {
            head: head - self.start - (untrimmed.len() - text.len()),
            text: text.trim_end().to_string(),
            line,
        })
    }

    /// Moves over one character as the tokenizer does; false at the end.
    fn step(&mut self) -> bool {
        let Some(c) = self.window[self.offset..].chars().next() else {
            return false;
        };
        self.offset += c.len_utf8();
        self.location = match c {
            '\n' => Location::new(self.location.line + 1, 1),
            _ => Location::new(self.location.line, self.location.column + 1),
        };
        true
    }

    /// Moves over a comment that the tokenizer has found to be closed, nested ones included.
    fn skip_comment(&mut self) {
        let mut open = 0_usize;
        loop {
            let rest = &self.window[self.offset..];
            let opens = rest.starts_with("/*");
            let closes = rest.starts_with("*/");
            if opens || closes {
                self.step();
            }
            if !self.step() {
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
        self.whole(self.location).line
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

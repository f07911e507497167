//! Bounds the shape of statements from their tokens.
//!
//! A parser, a planner and the code that drops a tree recurse as deep as the tree is. sqlparser
//! counts its own recursion in most places, but an operator chain is read in a loop and comes out
//! as deep as it is long, types and INTERVAL recurse uncounted, and calls with a syntax of their
//! own are tried twice a level, as expression subqueries are planned twice. One pass over the
//! tokens with a stack of at most [`MAX_NESTING`] levels finds an upper bound for each of these.
//!
//! sqlparser takes almost any keyword for a name where it expects an operand, so a keyword ends a
//! chain here only where it cannot be one: behind an operand. Where the two readings differ, the
//! count is too high, never too low.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::StatementError;
use super::level::{Level, Opener, Place, Seen};
use super::limits::{Found, MAX_NESTING};
use super::words::{
    continues_operator, goes_on_from_name, is_call, is_infix, is_join, is_literal, is_read_twice,
    is_set_operation, is_type, takes_by,
};

/// Refuses a text with a statement whose shape could overflow a stack or keep the parser busy for
/// ever.
///
/// # Errors
/// [`StatementError`] with the first limit that is passed, how far, and a way out.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<(), StatementError> {
    for statement in tokens.split(|token| token.token == Token::SemiColon) {
        let mut scan = Scan::new();
        for token in statement {
            scan.token(&token.token);
        }
        scan.found.check()?;
    }
    Ok(())
}

struct Scan {
    levels: Vec<Level>,
    /// Levels open beyond [`MAX_NESTING`], which are counted but not kept.
    beyond: usize,
    place: Place,
    /// The two tokens before, the nearer one first.
    seen: [Seen; 2],
    /// Whether the last NOT is known to stand before its operand.
    is_prefix: bool,
    explains: usize,
    found: Found,
}

impl Scan {
    fn new() -> Self {
        Self {
            levels: vec![Level::new(Opener::Statement, 0)],
            beyond: 0,
            place: Place::Start,
            seen: [Seen::Other; 2],
            is_prefix: false,
            explains: 0,
            found: Found::default(),
        }
    }

    fn token(&mut self, token: &Token) {
        if matches!(token, Token::Whitespace(_)) {
            return;
        }
        match self.seen[0] {
            // These are read again with all that stands in their level.
            Seen::Word(Keyword::SELECT) if goes_on_from_name(token) => {
                self.top().doubling += 1;
            }
            Seen::Word(Keyword::CASE) if is_read_twice(Keyword::CASE, token) => {
                self.top().doubling += 1;
            }
            Seen::Word(Keyword::NOT) if self.is_prefix => {}
            Seen::Word(word) if is_read_twice(word, token) => self.top().retried += 1,
            _ => {}
        }
        self.count_doubling(0);
        let now = match token {
            Token::Word(word) => self.word(word.keyword),
            token => self.symbol(token),
        };
        self.seen = [now, self.seen[0]];
    }

    fn symbol(&mut self, token: &Token) -> Seen {
        match token {
            Token::LParen => {
                self.open_parenthesis();
                return Seen::Parenthesis;
            }
            Token::LBracket => self.open_bracket(),
            Token::LBrace => self.open(Opener::Bracket, 0),
            Token::RParen | Token::RBracket | Token::RBrace => {
                self.close_bracket();
                return Seen::Closed;
            }
            Token::Lt if matches!(self.seen[0], Seen::Word(word) if is_type(word)) => {
                self.operator();
                self.open(Opener::Type, 0);
            }
            Token::Gt if self.top().opener == Opener::Type => self.close_type(1),
            Token::ShiftRight if self.top().opener == Opener::Type => self.close_type(2),
            Token::Comma => {
                let level = self.top();
                level.end_expression();
                let joins = usize::from(level.in_from);
                self.found.joins += joins;
                self.place = Place::Start;
            }
            Token::Period => {
                self.access();
                self.place = Place::Operator;
                return Seen::Period;
            }
            Token::Mul if self.place == Place::Start || self.seen[0] == Seen::Period => {
                self.place = Place::Operand;
            }
            Token::VerticalBarRightAngleBracket => {
                self.found.queries += 1;
                self.end_clause();
            }
            token if is_literal(token) => self.place = Place::Operand,
            _ => self.operator(),
        }
        Seen::Other
    }

    fn word(&mut self, keyword: Keyword) -> Seen {
        match keyword {
            Keyword::SELECT => self.select(),
            Keyword::FROM => self.from(),
            Keyword::CASE => self.open(Opener::Case, 0),
            Keyword::NOT => self.not(),
            Keyword::INTERVAL => self.place = Place::Operator,
            Keyword::EXPLAIN if self.found.queries == 0 => {
                self.explains += 1;
                self.found.nesting = self.found.nesting.max(self.explains);
            }
            Keyword::DISTINCT | Keyword::ALL if self.place == Place::Start => {}
            Keyword::DISTINCT if self.follows_is() => {}
            Keyword::WHEN if self.place == Place::Start => {}
            Keyword::PRIOR | Keyword::CONNECT_BY_ROOT if self.place != Place::Operand => self.not(),
            keyword if self.place == Place::Operator && self.continues(keyword) => self.operator(),
            // Where these are names, counting them is safe.
            keyword if is_set_operation(keyword) => {
                self.found.set_operations += 1;
                self.end_clause();
            }
            keyword if is_join(keyword) => {
                self.found.joins += 1;
                self.end_expression();
            }
            _ if self.place == Place::Operand => return self.word_behind_operand(keyword),
            Keyword::TABLE | Keyword::VALUES if self.seen[0] == Seen::Parenthesis => {
                self.query_without_select();
                self.place = Place::Operand;
            }
            _ => {
                self.place = Place::Operand;
                let keep = is_call(keyword) || is_type(keyword) || keyword == Keyword::VALUES;
                return match keep {
                    true => Seen::Word(keyword),
                    false => Seen::Other,
                };
            }
        }
        Seen::Word(keyword)
    }

    /// Takes a word that cannot be an operand: an infix operator, a clause, an alias, or a later
    /// part of one.
    fn word_behind_operand(&mut self, keyword: Keyword) -> Seen {
        match keyword {
            Keyword::AND | Keyword::OR | Keyword::XOR => {
                self.close_types();
                let level = self.top();
                level.logical += 1;
                (level.operators, level.path, level.retried) = (0, 0, 0);
                self.place = Place::Operator;
                self.count_chain();
            }
            keyword if is_infix(keyword) => self.operator(),
            Keyword::NOTNULL => {
                self.operator();
                self.place = Place::Operand;
            }
            Keyword::END => self.close_case(),
            Keyword::WHERE
            | Keyword::HAVING
            | Keyword::QUALIFY
            | Keyword::WINDOW
            | Keyword::SET
            | Keyword::RETURNING => self.end_clause(),
            Keyword::BY if matches!(self.seen[0], Seen::Word(word) if takes_by(word)) => {
                self.end_clause();
            }
            Keyword::ON => {
                self.end_expression();
                self.place = Place::Operator;
            }
            Keyword::USING | Keyword::LIMIT | Keyword::OFFSET => self.end_expression(),
            Keyword::WHEN | Keyword::THEN | Keyword::ELSE if self.in_case() => {
                self.end_expression();
            }
            Keyword::AS => self.place = Place::Start,
            Keyword::TABLESAMPLE | Keyword::SAMPLE => self.place = Place::Operator,
            // An alias: rows of values stand where an operand begins.
            Keyword::VALUES => return Seen::Other,
            _ => {}
        }
        Seen::Word(keyword)
    }

    fn select(&mut self) {
        self.found.queries += 1;
        let is_subquery = self.seen[0] == Seen::Parenthesis && !self.top().is_table;
        if is_subquery || self.seen == [Seen::Parenthesis; 2] {
            self.top().doubling += 1;
            self.count_doubling(0);
        }
        self.end_clause();
    }

    fn from(&mut self) {
        if self.seen[0] == Seen::Word(Keyword::DISTINCT) && self.place == Place::Operator {
            return; // IS [NOT] DISTINCT FROM
        }
        if self.seen[0] == Seen::Parenthesis {
            self.query_without_select();
        }
        if self.place == Place::Operator {
            self.top().from_unsure = true;
        }
        self.end_expression();
        self.top().in_from = true;
    }

    /// Counts `(FROM t)`, `(TABLE t)` and `(VALUES ...)`, where the first word may be a name too.
    fn query_without_select(&mut self) {
        self.found.queries += 1;
        self.top().doubling += 1;
        self.count_doubling(0);
    }

    /// Tells whether a DISTINCT here belongs to IS [NOT] DISTINCT FROM.
    fn follows_is(&self) -> bool {
        let is = Seen::Word(Keyword::IS);
        self.place == Place::Operator
            && (self.seen[0] == is || self.seen == [Seen::Word(Keyword::NOT), is])
    }

    fn continues(&self, keyword: Keyword) -> bool {
        matches!(self.seen[0], Seen::Word(before) if continues_operator(before, keyword))
    }

    /// Ends an expression and, if it is one, the list of tables in FROM.
    fn end_clause(&mut self) {
        let operand = self.place == Place::Operator;
        let level = self.top();
        level.in_from = level.from_unsure || (level.in_from && operand);
        self.end_expression();
    }

    /// Ends an expression, unless the word is an operand of it.
    fn end_expression(&mut self) {
        if self.place == Place::Operator {
            self.place = Place::Operand;
            return;
        }
        self.close_types();
        self.top().end_expression();
        self.place = Place::Start;
    }

    fn operator(&mut self) {
        self.top().operator();
        self.place = Place::Operator;
        self.count_chain();
    }

    /// Takes a NOT. Behind an operand it may still begin one, as in TRIM(BOTH NOT ...): what
    /// follows tells.
    fn not(&mut self) {
        self.is_prefix = self.place != Place::Operand && self.seen[0] != Seen::Word(Keyword::IS);
        self.top().retried += usize::from(self.is_prefix);
        self.count_doubling(0);
        self.operator();
    }

    fn access(&mut self) {
        self.top().path += 1;
        self.count_doubling(0);
        self.count_chain();
    }

    fn open_parenthesis(&mut self) {
        let tries = match self.seen[0] {
            // POSITION is tried in three ways; the others go on with a call that may be one.
            Seen::Word(Keyword::POSITION | Keyword::FILTER | Keyword::OVER | Keyword::GROUP)
            | Seen::Closed => 2,
            Seen::Word(Keyword::VALUES) => {
                let level = self.top();
                level.in_from = level.from_unsure;
                0
            }
            Seen::Word(keyword) => usize::from(is_call(keyword)),
            _ => 0,
        };
        let in_from = self.place == Place::Start && self.top().in_from;
        self.open(Opener::Bracket, tries);
        self.top().is_table = in_from || self.seen[0] == Seen::Word(Keyword::AS);
        self.top().is_operator = self.seen[0] == Seen::Word(Keyword::OPERATOR);
    }

    fn open_bracket(&mut self) {
        let array = self.seen[0] == Seen::Word(Keyword::ARRAY);
        if self.place == Place::Operand && !array {
            self.access();
        }
        self.open(Opener::Bracket, usize::from(array));
    }

    fn open(&mut self, opener: Opener, tries: usize) {
        self.place = Place::Start;
        self.count_doubling(tries);
        if self.levels.len() > MAX_NESTING {
            self.beyond += 1;
        } else {
            let doubling = self.top().doubling() + tries;
            self.levels.push(Level::new(opener, doubling));
        }
        let depth = self.levels.len() - 1 + self.beyond;
        self.found.nesting = self.found.nesting.max(depth);
    }

    /// Closes the innermost bracket and whatever was left open in it; a bracket that was never
    /// opened closes nothing.
    fn close_bracket(&mut self) {
        self.place = Place::Operand;
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        let mut openers = self.levels.iter().map(|level| level.opener);
        if let Some(innermost) = openers.rposition(|opener| opener == Opener::Bracket) {
            if self.levels[innermost].is_operator {
                self.place = Place::Operator;
            }
            self.levels.truncate(innermost);
        }
    }

    fn close_case(&mut self) {
        if self.beyond > 0 {
            self.beyond -= 1;
        } else if self.in_case() {
            self.levels.pop();
        }
    }

    fn in_case(&mut self) -> bool {
        self.close_types();
        self.top().opener == Opener::Case
    }

    fn close_type(&mut self, brackets: usize) {
        for _ in 0..brackets {
            if self.top().opener == Opener::Type {
                self.levels.pop();
                self.top().operator();
            }
        }
        // As a comparison, which only the parser can tell, it wants an operand.
        self.place = Place::Operator;
        self.count_chain();
    }

    /// Closes what looked like a type and was a comparison: `array < 5 AND ...`.
    fn close_types(&mut self) {
        while self.top().opener == Opener::Type {
            self.levels.pop();
        }
    }

    fn top(&mut self) -> &mut Level {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn count_chain(&mut self) {
        let level = self.top();
        let chain = level.logical + level.operators + level.path;
        self.found.chain = self.found.chain.max(chain);
    }

    fn count_doubling(&mut self, more: usize) {
        let open = self.top().doubling() + more;
        self.found.doubling = self.found.doubling.max(open);
    }
}

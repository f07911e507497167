//! The words of a statement that is ours, read one after the other.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::StatementError;

/// The tokens of a statement without space and comments, and how far they were read.
pub(super) struct Words {
    tokens: Vec<TokenWithSpan>,
    next: usize,
    end: Location,
}

impl Words {
    pub(super) fn new(tokens: Vec<TokenWithSpan>) -> Self {
        let end = tokens
            .last()
            .map_or(Location::new(1, 1), |token| token.span.end);
        let is_word = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
        Self {
            tokens: tokens.into_iter().filter(is_word).collect(),
            next: 0,
            end,
        }
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|token| &token.token)
    }

    /// Returns where the next token begins, or where the statement ends.
    pub(super) fn location(&self) -> Location {
        let next = self.tokens.get(self.next);
        next.map_or(self.end, |token| token.span.start)
    }

    /// Moves over whatever comes next.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Moves over an unquoted word, if it comes next.
    pub(super) fn takes(&mut self, expected: &str) -> bool {
        let is_next = matches!(
            self.peek(),
            Some(Token::Word(word))
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected)
        );
        self.next += usize::from(is_next);
        is_next
    }

    /// Moves over a token, if it comes next.
    pub(super) fn takes_token(&mut self, expected: &Token) -> bool {
        let is_next = self.peek() == Some(expected);
        self.next += usize::from(is_next);
        is_next
    }

    /// Makes sure that nothing follows but semicolons.
    pub(super) fn end(&mut self) -> Result<(), StatementError> {
        while self.takes_token(&Token::SemiColon) {}
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end of the statement")),
        }
    }

    /// Says what should have come next, and what did.
    pub(super) fn expected(&self, what: &str) -> StatementError {
        let at = self.location();
        let found = self
            .peek()
            .map_or("nothing".to_string(), ToString::to_string);
        StatementError::Syntax {
            message: format!("syntax error: expected {what}, found {found}"),
            line: at.line,
            column: at.column,
        }
    }
}

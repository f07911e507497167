//! `CREATE TABLE t(a, b) AS SELECT …` and `CREATE TABLE t AS SELECT … WITH NO DATA`, which DataFusion's parser does not take.
//!
//! The query becomes a subquery whose columns have these names, `CREATE TABLE t AS SELECT * FROM (SELECT …) AS q(a, b)`,
//! and of which no row is taken.

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::{TidegateParser, is_word, places};

/// What the subquery is called.
const QUERY: &str = "q";

impl TidegateParser {
    /// Writes names of columns and WITH [NO] DATA as the parser takes them; leaves any other statement as it is.
    pub(super) fn write_created(&mut self) {
        let begin = self.next;
        let written = self.created();
        self.next = begin;
        if let Some(written) = written {
            self.tokens = written;
        }
    }

    fn created(&mut self) -> Option<Vec<TokenWithSpan>> {
        if !self.takes("CREATE") {
            return None;
        }
        self.takes_all(&["OR", "REPLACE"]);
        let _ = self.takes("TEMP") || self.takes("TEMPORARY");
        if !self.takes("TABLE") {
            return None;
        }
        self.takes_all(&["IF", "NOT", "EXISTS"]);
        self.name().ok()?;
        let list = self.next;
        // Columns that have types, too, are the parser's.
        let columns = self.columns().ok()?;
        if !self.takes("AS") || self.is_at_end() {
            return None;
        }
        let query = self.next;
        let mut words = places(&self.tokens);
        words.retain(|place| self.tokens[*place].token != Token::SemiColon);
        let is = |place: usize, word: &str| is_word(&self.tokens[place].token, word);
        let (last, with_data, has_data) = match words.as_slice() {
            [.., last, with, no, data]
                if is(*with, "WITH") && is(*no, "NO") && is(*data, "DATA") =>
            {
                (*last, *data, false)
            }
            [.., last, with, data] if is(*with, "WITH") && is(*data, "DATA") => {
                (*last, *data, true)
            }
            [.., last] => (*last, *last, true),
            [] => return None,
        };
        if last < query || (columns.is_empty() && last == with_data) {
            return None;
        }
        let head = vec![
            Token::make_keyword("AS"),
            Token::make_keyword("SELECT"),
            Token::Mul,
            Token::make_keyword("FROM"),
            Token::LParen,
        ];
        let mut tail = vec![
            Token::RParen,
            Token::make_keyword("AS"),
            Token::make_word(QUERY, Some('"')),
        ];
        for (number, column) in columns.iter().enumerate() {
            tail.push(if number > 0 {
                Token::Comma
            } else {
                Token::LParen
            });
            tail.push(Token::make_word(&column.value, column.quote_style));
        }
        if !columns.is_empty() {
            tail.push(Token::RParen);
        }
        if !has_data {
            tail.push(Token::make_keyword("LIMIT"));
            tail.push(Token::Number("0".to_string(), false));
        }
        let span = self.tokens[query].span;
        let spaced = |tokens: Vec<Token>| {
            let tokens = tokens.into_iter();
            let tokens = tokens.flat_map(|token| [Token::Whitespace(Whitespace::Space), token]);
            tokens.map(move |token| TokenWithSpan::new(token, span))
        };
        let mut written = self.tokens[..list].to_vec();
        written.extend(spaced(head));
        written.extend_from_slice(&self.tokens[query..=last]);
        written.extend(spaced(tail));
        written.extend_from_slice(&self.tokens[with_data + 1..]);
        Some(written)
    }
}

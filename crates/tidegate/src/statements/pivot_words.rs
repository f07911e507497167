//! `PIVOT t ON k IN (…) USING sum(v) GROUP BY g` and `UNPIVOT t ON a, b INTO NAME k VALUE v`, as DuckDB has them.
//!
//! The parser knows the forms of the SQL of others, which stand behind a table: `SELECT * FROM t PIVOT (sum(v) FOR k IN (…))`
//! and `SELECT * FROM t UNPIVOT (v FOR k IN (a, b))`. The words are put in that order. The columns of GROUP BY, for which
//! that form has no place, become the arguments of a function among the aggregates ([`GROUPS`]).
//! Where columns have no values, they become `FOR k IN (ANY)` or `FOR (j, k) IN (ANY)`. What is computed of aggregates, `sum(v) + 1`,
//! is the argument of a function, too ([`COMPUTED`]), and `*` behind ON is `COLUMNS(*)`. What is not of this form stays, and is a
//! syntax error.

use std::ops::Range;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::pivot::{COMPUTED, GROUPS};
use super::words::{is_word, outside};

/// The most statements of this form in one text.
const PIVOTS_MAX: usize = 100;

/// Words before a query, beside an opening parenthesis.
const BEFORE: [&str; 4] = ["AS", "EXPLAIN", "ANALYZE", "SUMMARIZE"];

/// Words that end the lists of these statements.
const ENDS: [&str; 6] = ["ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT"];

/// Puts PIVOT and UNPIVOT behind their tables.
pub(super) fn behind_tables(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has_any =
        |token: &TokenWithSpan| is_word(&token.token, "PIVOT") || is_word(&token.token, "UNPIVOT");
    if !tokens.iter().any(has_any) {
        return tokens;
    }
    let mut end = tokens.len();
    for _ in 0..PIVOTS_MAX {
        // Inner ones stand behind the words of outer ones.
        let Some(first) = (0..end).rev().find(|index| begins(&tokens, *index)) else {
            break;
        };
        end = first;
        if let Some((range, written)) = written(&tokens, first) {
            tokens.splice(range, written);
        }
    }
    tokens
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Tells whether a query begins with PIVOT or UNPIVOT at a place.
fn begins(tokens: &[TokenWithSpan], index: usize) -> bool {
    let token = &tokens[index].token;
    if !is_word(token, "PIVOT") && !is_word(token, "UNPIVOT") {
        return false;
    }
    let before = tokens[..index].iter().rev().find(|token| !is_space(token));
    let behind = tokens[index + 1..].iter().find(|token| !is_space(token));
    match before.map(|before| &before.token) {
        None | Some(Token::LParen) => true,
        // Behind WITH; a table in parentheses has its values in parentheses.
        Some(Token::RParen) => behind.is_some_and(|behind| behind.token != Token::LParen),
        Some(token) => BEFORE.iter().any(|word| is_word(token, word)),
    }
}

/// Where the clauses of a statement stand, those in parentheses left out.
struct Clauses<'a> {
    tokens: &'a [TokenWithSpan],
    /// Behind PIVOT, to the end of the query.
    range: Range<usize>,
}

impl Clauses<'_> {
    /// Finds a word of these between two places; returns where it stands, or the end.
    fn find(&self, from: usize, words: &[&str]) -> usize {
        let mut rest = outside(self.tokens, from..self.range.end);
        let found = rest.find(|(_, token)| words.iter().any(|word| is_word(token, word)));
        found.map_or(self.range.end, |(place, _)| place)
    }

    fn end_of_query(tokens: &[TokenWithSpan], from: usize) -> usize {
        let mut rest = outside(tokens, from..tokens.len());
        let end = rest.find(|(_, token)| matches!(token, Token::RParen | Token::SemiColon));
        end.map_or(tokens.len(), |(end, _)| end)
    }

    /// Tells whether there is a comma outside of parentheses.
    fn has_comma(&self, range: Range<usize>) -> bool {
        outside(self.tokens, range).any(|(_, token)| *token == Token::Comma)
    }

    /// Cuts a list at the commas outside of parentheses.
    fn items(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut begin = range.start;
        let mut items = Vec::new();
        for (place, token) in outside(self.tokens, range.clone()) {
            if *token == Token::Comma {
                items.push(begin..place);
                begin = place + 1;
            }
        }
        items.push(begin..range.end);
        items
    }

    /// Tells whether an item is one call, with words behind it alone.
    fn is_call(&self, item: Range<usize>) -> bool {
        let mut num_words = 0;
        for (_, token) in outside(self.tokens, item) {
            match token {
                Token::LParen if num_words == 0 => return false,
                Token::LParen | Token::LBracket | Token::LBrace => {}
                Token::Whitespace(_) | Token::Period => {}
                Token::Word(_) => num_words += 1,
                _ => return false,
            }
        }
        num_words > 0
    }

    fn is_empty(&self, range: Range<usize>) -> bool {
        self.tokens[range].iter().all(is_space)
    }
}

/// Writes the statement that begins at a place behind its table; `None` if it is not of the form.
fn written(tokens: &[TokenWithSpan], first: usize) -> Option<(Range<usize>, Vec<TokenWithSpan>)> {
    let end = Clauses::end_of_query(tokens, first);
    let clauses = Clauses {
        tokens,
        range: first + 1..end,
    };
    let mut writer = Writer {
        tokens,
        first,
        written: Vec::new(),
    };
    let done = match is_word(&tokens[first].token, "PIVOT") {
        true => pivot(&clauses, &mut writer),
        false => unpivot(&clauses, &mut writer),
    };
    done?;
    Some((first..end, writer.written))
}

struct Writer<'a> {
    tokens: &'a [TokenWithSpan],
    first: usize,
    written: Vec<TokenWithSpan>,
}

impl Writer<'_> {
    fn words(&mut self, text: &str) {
        let span = self.tokens[self.first].span;
        let space = Token::Whitespace(sqlparser::tokenizer::Whitespace::Space);
        for word in text.split(' ') {
            let token = match word {
                "(" => Token::LParen,
                ")" => Token::RParen,
                "," => Token::Comma,
                "*" => Token::Mul,
                word => Token::make_keyword(word),
            };
            self.written.push(TokenWithSpan::new(space.clone(), span));
            self.written.push(TokenWithSpan::new(token, span));
        }
        self.written.push(TokenWithSpan::new(space, span));
    }

    fn quoted(&mut self, name: &str) {
        let span = self.tokens[self.first].span;
        let token = Token::make_word(name, Some('"'));
        self.written.push(TokenWithSpan::new(token, span));
    }

    fn copy(&mut self, range: Range<usize>) {
        self.written.extend_from_slice(&self.tokens[range]);
    }
}

fn pivot(clauses: &Clauses<'_>, writer: &mut Writer<'_>) -> Option<()> {
    let end = clauses.range.end;
    let on = clauses.find(clauses.range.start, &["ON"]);
    let using = clauses.find(on, &["USING", "GROUP"]);
    let using = using.min(clauses.find(on, &ENDS));
    let has_using = using < end && is_word(&clauses.tokens[using].token, "USING");
    let group = clauses
        .find(using, &["GROUP"])
        .min(clauses.find(using, &ENDS));
    let has_group = group < end && is_word(&clauses.tokens[group].token, "GROUP");
    let rest = clauses.find(group, &ENDS);
    let values = clauses.find(on, &["IN"]);
    let is_listed = values < using;
    let has_several = !is_listed && clauses.has_comma(on + 1..using);
    if on == end || clauses.is_empty(on + 1..using) || clauses.is_empty(clauses.range.start..on) {
        return None;
    }
    writer.words("SELECT * FROM");
    writer.copy(clauses.range.start..on);
    writer.words("PIVOT (");
    match has_using {
        true => aggregates(clauses, writer, using + 1..group),
        false => writer.words("COUNT ( * )"),
    }
    if has_group {
        let by = clauses.find(group, &["BY"]);
        if by >= rest {
            return None;
        }
        writer.words(",");
        writer.quoted(GROUPS);
        writer.words("(");
        writer.copy(by + 1..rest);
        writer.words(")");
    }
    writer.words("FOR");
    if has_several {
        writer.words("(");
    }
    writer.copy(on + 1..using);
    if has_several {
        writer.words(")");
    }
    if !is_listed {
        writer.words("IN ( ANY )");
    }
    writer.words(")");
    writer.copy(rest..end);
    Some(())
}

/// Writes a list of aggregates, and of what is computed of them.
fn aggregates(clauses: &Clauses<'_>, writer: &mut Writer<'_>, list: Range<usize>) {
    let is_written =
        |item: &Range<usize>| clauses.is_empty(item.clone()) || clauses.is_call(item.clone());
    let items = clauses.items(list.clone());
    if items.iter().all(is_written) {
        return writer.copy(list);
    }
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            writer.words(",");
        }
        if is_written(&item) {
            writer.copy(item);
            continue;
        }
        let name = clauses.find(item.start, &["AS"]).min(item.end);
        writer.quoted(COMPUTED);
        writer.words("(");
        writer.copy(item.start..name);
        writer.words(")");
        writer.copy(name..item.end);
    }
}

fn unpivot(clauses: &Clauses<'_>, writer: &mut Writer<'_>) -> Option<()> {
    let tokens = clauses.tokens;
    let end = clauses.range.end;
    let on = clauses.find(clauses.range.start, &["ON"]);
    let rest = clauses.find(on, &ENDS);
    let into = clauses.find(on, &["INTO"]).min(rest);
    let name = clauses.find(into, &["NAME"]).min(rest);
    let value = clauses.find(name, &["VALUE"]).min(rest);
    let mut table = clauses.range.start;
    let mut nulls = clauses
        .range
        .clone()
        .filter(|index| !is_space(&tokens[*index]));
    let keeps_nulls = match (nulls.next(), nulls.next()) {
        (Some(include), Some(nulls))
            if is_word(&tokens[include].token, "INCLUDE")
                && is_word(&tokens[nulls].token, "NULLS") =>
        {
            table = nulls + 1;
            true
        }
        _ => false,
    };
    let has_names = into < rest;
    if on == end || clauses.is_empty(table..on) || (has_names && (name == rest || value == rest)) {
        return None;
    }
    writer.words("SELECT * FROM");
    writer.copy(table..on);
    writer.words(if keeps_nulls {
        "UNPIVOT INCLUDE NULLS ("
    } else {
        "UNPIVOT ("
    });
    match has_names {
        true => {
            let is_list = tokens[value..rest]
                .iter()
                .any(|token| token.token == Token::Comma);
            if is_list {
                writer.words("(");
            }
            writer.copy(value + 1..rest);
            if is_list {
                writer.words(")");
            }
            writer.words("FOR");
            writer.copy(name + 1..value);
        }
        false => {
            writer.quoted("value");
            writer.words("FOR");
            writer.quoted("name");
        }
    }
    let first = tokens[on + 1..into].iter().find(|token| !is_space(token));
    let is_all = first.is_some_and(|first| first.token == Token::Mul);
    writer.words("IN (");
    if is_all {
        writer.words("COLUMNS (");
    }
    writer.copy(on + 1..into);
    if is_all {
        writer.words(")");
    }
    writer.words(")");
    writer.words(")");
    writer.copy(rest..end);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::behind_tables;
    use crate::statements::tests::{tokens, written};

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        let words = written(&behind_tables(tokens(sql)));
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(words.join(" "), expect);
    }

    #[test]
    fn pivots_stand_behind_their_tables() {
        for (sql, expect) in [
            (
                "PIVOT t ON k IN ('a', 'b') USING sum(v) AS s, max(v)",
                "SELECT * FROM t PIVOT ( sum(v) AS s, max(v) FOR k IN ('a', 'b') )",
            ),
            (
                "PIVOT (SELECT * FROM t) ON k IN (1) GROUP BY g, h ORDER BY g LIMIT 3",
                "SELECT * FROM (SELECT * FROM t) PIVOT ( COUNT ( * ) , \"group by\" ( g, h ) FOR k IN (1) ) \
                 ORDER BY g LIMIT 3",
            ),
            (
                "PIVOT t ON year(d) USING sum(v) GROUP BY g",
                "SELECT * FROM t PIVOT ( sum(v) , \"group by\" ( g ) FOR year(d) IN ( ANY ) )",
            ),
            (
                "WITH p AS (PIVOT t ON k IN (1) USING sum(v)) SELECT * FROM p",
                "WITH p AS ( SELECT * FROM t PIVOT ( sum(v) FOR k IN (1) ) ) SELECT * FROM p",
            ),
            (
                "UNPIVOT t ON a, b INTO NAME k VALUE v ORDER BY k",
                "SELECT * FROM t UNPIVOT ( v FOR k IN ( a, b ) ) ORDER BY k",
            ),
            (
                "UNPIVOT INCLUDE NULLS t ON (a, b) AS x INTO NAME k VALUE v, w",
                "SELECT * FROM t UNPIVOT INCLUDE NULLS ( ( v, w ) FOR k IN ( (a, b) AS x ) )",
            ),
            (
                "PIVOT t ON j, k USING sum(v) + 1 AS s, max(v)",
                "SELECT * FROM t PIVOT ( \"value of\" ( sum(v) + 1 ) AS s , max(v) FOR ( j, k ) IN ( ANY ) )",
            ),
            (
                "UNPIVOT t ON * EXCLUDE (a)",
                "SELECT * FROM t UNPIVOT ( \"value\" FOR \"name\" IN ( COLUMNS ( * EXCLUDE (a) ) ) )",
            ),
            (
                "UNPIVOT t ON a",
                "SELECT * FROM t UNPIVOT ( \"value\" FOR \"name\" IN ( a ) )",
            ),
        ] {
            check(sql, expect);
        }
    }

    #[test]
    fn other_words_stay() {
        for sql in [
            "SELECT * FROM t PIVOT (sum(v) FOR k IN (1))",
            "SELECT * FROM (SELECT 1) PIVOT (sum(v) FOR k IN (1))",
            "SELECT pivot FROM t",
            "UNPIVOT",
        ] {
            check(sql, sql);
        }
    }
}

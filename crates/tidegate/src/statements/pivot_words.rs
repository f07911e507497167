//! `PIVOT t ON k IN (…) USING sum(v) GROUP BY g` and `UNPIVOT t ON a, b INTO NAME k VALUE v`, as DuckDB has them.
//!
//! The parser knows the forms of the SQL of others, which stand behind a table: `SELECT * FROM t PIVOT (sum(v) FOR k IN (…))`
//! and `SELECT * FROM t UNPIVOT (v FOR k IN (a, b))`. The words are put in that order. The columns of GROUP BY, for which
//! that form has no place, become the arguments of a function among the aggregates ([`GROUPS`]).
//! Where columns have no values, they become `FOR k IN (ANY)` or `FOR (j, k) IN (ANY)`. What is computed of aggregates, `sum(v) + 1`,
//! is the argument of a function, too ([`COMPUTED`]), and `*` behind ON is `COLUMNS(*)`. Of several lists of values, `j IN (1, 2), k IN
//! (3)`, each value goes with each of the others: `(j, k) IN ((1, 3), (2, 3))`. DuckDB has several lists and GROUP BY in the form
//! behind a table, too. What is not of these forms stays, and is a syntax error.

use std::ops::Range;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::pivot::{COLUMNS_MAX, COMPUTED, GROUPS, ROWS};
use super::words::{is_word, outside};

/// The most statements of this form in one text.
const PIVOTS_MAX: usize = 100;

/// Words before a query, beside an opening parenthesis.
const BEFORE: [&str; 4] = ["AS", "EXPLAIN", "ANALYZE", "SUMMARIZE"];

/// Words that end the lists of these statements.
const ENDS: [&str; 6] = ["ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT"];

/// Puts PIVOT and UNPIVOT behind their tables.
pub(super) fn behind_tables(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has_any = |token: &TokenWithSpan| is_pivot(&token.token) || is_unpivot(&token.token);
    if !tokens.iter().any(has_any) {
        return tokens;
    }
    // From behind, so that places before stay.
    let behind = (0..tokens.len()).rev();
    let behind =
        behind.filter(|index| is_word(&tokens[*index].token, "PIVOT") && !begins(&tokens, *index));
    for index in behind.take(PIVOTS_MAX).collect::<Vec<_>>() {
        if let Some((range, written)) = in_known_form(&tokens, index) {
            tokens.splice(range, written);
        }
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

fn is_pivot(token: &Token) -> bool {
    is_word(token, "PIVOT") || is_word(token, "PIVOT_WIDER")
}

fn is_unpivot(token: &Token) -> bool {
    is_word(token, "UNPIVOT") || is_word(token, "PIVOT_LONGER")
}

/// Tells whether a query begins with PIVOT or UNPIVOT at a place.
fn begins(tokens: &[TokenWithSpan], index: usize) -> bool {
    let token = &tokens[index].token;
    if !is_pivot(token) && !is_unpivot(token) {
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
                Token::LParen | Token::Whitespace(_) | Token::Period => {}
                Token::Word(_) => num_words += 1,
                _ => return false,
            }
        }
        num_words > 0
    }

    fn is_empty(&self, range: Range<usize>) -> bool {
        self.tokens[range].iter().all(is_space)
    }

    fn first_word(&self, mut range: Range<usize>) -> Option<usize> {
        range.find(|index| !is_space(&self.tokens[*index]))
    }

    /// Tells whether there are several columns in one pair of parentheses, and nothing else.
    fn is_row(&self, range: Range<usize>) -> bool {
        let Some(open) = self.first_word(range.clone()) else {
            return false;
        };
        if self.tokens[open].token != Token::LParen {
            return false;
        }
        let close = Self::end_of_query(self.tokens, open + 1);
        close < range.end && self.is_empty(close + 1..range.end) && self.has_comma(open + 1..close)
    }

    /// Finds columns with the lists of their values, `j IN (1, 2), k IN (3)`, with or without commas; `None` if there is
    /// anything else.
    fn lists(&self, range: Range<usize>) -> Option<Vec<(Range<usize>, Range<usize>)>> {
        let mut lists = Vec::new();
        let mut from = range.start;
        loop {
            let word = self.find(from, &["IN"]);
            if word >= range.end || self.is_empty(from..word) {
                return None;
            }
            let open = self.first_word(word + 1..range.end)?;
            let first = self.first_word(open + 1..range.end)?;
            let is_query = ["SELECT", "WITH", "FROM", "ANY"]
                .iter()
                .any(|word| is_word(&self.tokens[first].token, word));
            let close = Self::end_of_query(self.tokens, open + 1);
            if self.tokens[open].token != Token::LParen || is_query || close >= range.end {
                return None;
            }
            lists.push((from..word, open + 1..close));
            from = match self.first_word(close + 1..range.end) {
                None => return Some(lists),
                Some(comma) if self.tokens[comma].token == Token::Comma => comma + 1,
                Some(next) => next,
            };
        }
    }

    /// Returns a value of a list, and its name.
    fn named(&self, item: Range<usize>) -> Named {
        let end = self.find(item.start, &["AS"]).min(item.end);
        let name = match end < item.end {
            true => end + 1..item.end,
            false => item.clone(),
        };
        let words = self.tokens[name].iter().filter(|token| !is_space(token));
        let text = |token: &TokenWithSpan| match &token.token {
            Token::SingleQuotedString(text) => text.clone(),
            Token::Word(word) if word.quote_style.is_none() && end < item.end => {
                word.value.to_lowercase()
            }
            Token::Word(word) => word.value.clone(),
            other => other.to_string(),
        };
        Named {
            name: words.map(text).collect(),
            is_given: end < item.end,
            value: item.start..end,
        }
    }
}

/// A value of a list, and its name.
#[derive(Clone)]
struct Named {
    value: Range<usize>,
    name: String,
    is_given: bool,
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
    let done = match is_pivot(&tokens[first].token) {
        true => pivot(&clauses, &mut writer),
        false => unpivot(&clauses, &mut writer),
    };
    done?;
    Some((first..end, writer.written))
}

/// Writes GROUP BY and several lists of values of a PIVOT behind a table in the form that the parser knows; `None` if
/// there are none.
fn in_known_form(
    tokens: &[TokenWithSpan],
    first: usize,
) -> Option<(Range<usize>, Vec<TokenWithSpan>)> {
    let open = (first + 1..tokens.len()).find(|index| !is_space(&tokens[*index]))?;
    let end = Clauses::end_of_query(tokens, open + 1);
    if tokens[open].token != Token::LParen || tokens.get(end)?.token != Token::RParen {
        return None;
    }
    let clauses = Clauses {
        tokens,
        range: open + 1..end,
    };
    let word = clauses.find(open + 1, &["FOR"]);
    let group = clauses.find(word, &["GROUP"]);
    let by = clauses.find(group, &["BY"]);
    // Behind what stands for NULL is nothing else.
    let rest = clauses.find(word, &["DEFAULT"]).min(group);
    if word == end || (group < end && (by == end || rest < group)) {
        return None;
    }
    let lists = clauses.lists(word + 1..rest)?;
    if lists.len() == 1 && group == end {
        return None;
    }
    let mut writer = Writer {
        tokens,
        first,
        written: Vec::new(),
    };
    aggregates(&clauses, &mut writer, open + 1..word);
    if group < end {
        groups(&mut writer, by + 1..end);
    }
    writer.words("FOR");
    listed(&clauses, &mut writer, word + 1..rest);
    writer.copy(rest..group);
    Some((clauses.range, writer.written))
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
        groups(writer, by + 1..rest);
    }
    writer.words("FOR");
    if has_several {
        writer.words("(");
    }
    match is_listed {
        true => listed(clauses, writer, on + 1..using),
        false => writer.copy(on + 1..using),
    }
    if has_several {
        writer.words(")");
    }
    if !is_listed {
        writer.words("IN ( ANY");
        if clauses.is_row(on + 1..using) {
            writer.words("ORDER BY");
            writer.quoted(ROWS);
        }
        writer.words(")");
    }
    writer.words(")");
    writer.copy(rest..end);
    Some(())
}

/// Writes the columns of GROUP BY.
fn groups(writer: &mut Writer<'_>, columns: Range<usize>) {
    writer.words(",");
    writer.quoted(GROUPS);
    writer.words("(");
    writer.copy(columns);
    writer.words(")");
}

/// Writes columns and the lists of their values; of several, each value with each of the others.
fn listed(clauses: &Clauses<'_>, writer: &mut Writer<'_>, range: Range<usize>) {
    let lists = clauses.lists(range.clone()).unwrap_or_default();
    let mut rows: Vec<Vec<Named>> = vec![Vec::new()];
    for (_, list) in &lists {
        let items = clauses.items(list.clone()).into_iter();
        let items: Vec<Named> = items.map(|item| clauses.named(item)).collect();
        if rows.len().saturating_mul(items.len()) > COLUMNS_MAX {
            return writer.copy(range);
        }
        let with_each = |row: &Vec<Named>| -> Vec<Vec<Named>> {
            let longer =
                |item: &Named| -> Vec<Named> { row.iter().chain([item]).cloned().collect() };
            items.iter().map(longer).collect()
        };
        rows = rows.iter().flat_map(with_each).collect();
    }
    if lists.len() < 2 {
        return writer.copy(range);
    }
    writer.words("(");
    for (number, (column, _)) in lists.into_iter().enumerate() {
        if number > 0 {
            writer.words(",");
        }
        writer.copy(column);
    }
    writer.words(") IN (");
    for (number, row) in rows.into_iter().enumerate() {
        writer.words(if number > 0 { ", (" } else { "(" });
        for (number, part) in row.iter().enumerate() {
            if number > 0 {
                writer.words(",");
            }
            writer.copy(part.value.clone());
        }
        writer.words(")");
        if row.iter().any(|part| part.is_given) {
            let names: Vec<&str> = row.iter().map(|part| part.name.as_str()).collect();
            writer.words("AS");
            writer.quoted(&names.join("_"));
        }
    }
    writer.words(")");
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
                "PIVOT_WIDER t ON (j, k) USING list(v)[1:2]",
                "SELECT * FROM t PIVOT ( \"value of\" ( list(v)[1:2] ) FOR (j, k) IN ( ANY ORDER BY \"as rows\" ) )",
            ),
            (
                "PIVOT t ON j IN (1, 2 AS B), k IN (NULL)",
                "SELECT * FROM t PIVOT ( COUNT ( * ) FOR ( j , k ) IN ( ( 1 , NULL ) , ( 2 , NULL ) AS \"b_NULL\" ) )",
            ),
            (
                "SELECT * FROM t PIVOT (sum(v) AS s FOR j IN ('a') k IN ('b' AS x) GROUP BY g)",
                "SELECT * FROM t PIVOT (sum(v) AS s , \"group by\" ( g ) FOR ( j , k ) IN ( ( 'a' , 'b' ) AS \"a_x\" ) )",
            ),
            (
                "SELECT * FROM t PIVOT (sum(v) FOR j IN (1) GROUP BY g)",
                "SELECT * FROM t PIVOT (sum(v) , \"group by\" ( g ) FOR j IN (1) )",
            ),
            (
                "PIVOT_LONGER t ON a",
                "SELECT * FROM t UNPIVOT ( \"value\" FOR \"name\" IN ( a ) )",
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

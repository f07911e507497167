//! `a ASOF JOIN b ON a.k = b.k AND a.t >= b.t`, as DuckDB has it, and `ASOF LEFT JOIN`.
//!
//! The parser has Snowflake's form, `a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k`, which keeps all rows of a.
//! [`with_matches`] puts a `MATCH_CONDITION` with a word of ours into DuckDB's. Since joins have no planner of their own, an
//! ASOF join is put into parentheses, with all before it ([`nest`]), and planned as a relation.

use sqlparser::ast::{JoinOperator, Select, TableFactor, TableWithJoins};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::pivot::taken;
use super::words::{is_word, outside, places, put};

/// The condition that says that all of it is in ON or USING, and that rows without a match are left out.
const INNER: &str = "inner";

/// The same, and rows without a match are kept.
pub(crate) const LEFT: &str = "left";

/// Gives ASOF joins without one a match condition.
pub(super) fn with_matches(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "ASOF")) {
        return tokens;
    }
    let words = places(&tokens);
    // From the end, so that places before stay.
    for at in (0..words.len()).rev() {
        if !is_word(&tokens[words[at]].token, "ASOF") {
            continue;
        }
        let is = |place: usize, word: &str| {
            let place = words.get(place);
            place.is_some_and(|place| is_word(&tokens[*place].token, word))
        };
        let (kind, join) = match is(at + 1, "LEFT") {
            true => (LEFT, at + 2 + usize::from(is(at + 2, "OUTER"))),
            false => (INNER, at + 1 + usize::from(is(at + 1, "INNER"))),
        };
        if !is(join, "JOIN") {
            continue;
        }
        let Some(place) = condition(&tokens, words[join] + 1) else {
            continue;
        };
        let written = [
            Token::make_word("MATCH_CONDITION", None),
            Token::LParen,
            Token::SingleQuotedString(kind.to_owned()),
            Token::RParen,
            Token::Whitespace(Whitespace::Space),
        ];
        put(&mut tokens, place..place, written);
        tokens.drain(words[at + 1]..words[join]);
    }
    tokens
}

/// Finds ON or USING of a join; `None` if it has a match condition.
fn condition(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let begins = |token: &Token, words: &[&str]| words.iter().any(|word| is_word(token, word));
    let words = ["ON", "USING", "MATCH_CONDITION", "JOIN", "WHERE"];
    let mut rest = outside(tokens, from..tokens.len());
    let (place, token) = rest.find(|(_, token)| begins(token, &words))?;
    begins(token, &words[..2]).then_some(place)
}

/// Puts every ASOF join of a list of tables into parentheses, with all before it.
pub(super) fn nest(select: &mut Select) {
    for from in &mut select.from {
        let is_asof = |operator: &JoinOperator| matches!(operator, JoinOperator::AsOf { .. });
        let last = from
            .joins
            .iter()
            .rposition(|join| is_asof(&join.join_operator));
        let Some(last) = last else {
            continue;
        };
        let behind = from.joins.split_off(last + 1);
        let joins = std::mem::replace(&mut from.joins, behind);
        let mut joins = joins.into_iter().peekable();
        let mut relation = taken(&mut from.relation);
        while joins.peek().is_some() {
            let mut nested = TableWithJoins {
                relation,
                joins: Vec::new(),
            };
            for join in joins.by_ref() {
                let is_last = is_asof(&join.join_operator);
                nested.joins.push(join);
                if is_last {
                    break;
                }
            }
            relation = TableFactor::NestedJoin {
                table_with_joins: Box::new(nested),
                alias: None,
            };
        }
        from.relation = relation;
    }
}

#[cfg(test)]
mod tests {
    use super::with_matches;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn asof_joins_get_match_conditions() {
        for (sql, expect) in [
            (
                "FROM a ASOF JOIN b ON a.t >= b.t",
                "FROM a ASOF JOIN b MATCH_CONDITION('inner') ON a.t >= b.t",
            ),
            (
                "FROM a ASOF LEFT OUTER JOIN (SELECT 1 ON) b USING (k, t) ASOF INNER JOIN c ON x",
                "FROM a ASOF JOIN (SELECT 1 ON) b MATCH_CONDITION('left') USING (k, t) ASOF JOIN c \
                 MATCH_CONDITION('inner') ON x",
            ),
            (
                "FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON x",
                "FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON x",
            ),
        ] {
            assert_eq!(written(&with_matches(tokens(sql))), expect);
        }
    }
}

//! `x IN [1, 2]`, as in DuckDB, which is `x IN (1, 2)`, and `x IN l`, a list that is a column or a call, which is `x = ANY (l)`;
//! `x NOT IN l` is `x <> ALL (l)`.

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::words::{is_word, places};

/// Writes lists behind IN in parentheses; comprehensions are calls by now.
pub(super) fn in_parentheses(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "in")) {
        return tokens;
    }
    let words = places(&tokens);
    for (at, place) in words.iter().enumerate() {
        let Some(open) = words.get(at + 1) else {
            break;
        };
        if !is_word(&tokens[*place].token, "in") || tokens[*open].token != Token::LBracket {
            continue;
        }
        if let Some(close) = closing(&tokens, &words[at + 1..]) {
            tokens[*open].token = Token::LParen;
            tokens[close].token = Token::RParen;
        }
    }
    tokens
}

/// Finds where the bracket is closed that is the first of some tokens; `None` of an empty list, and of one of which an
/// element or a part is taken.
fn closing(tokens: &[TokenWithSpan], words: &[usize]) -> Option<usize> {
    let mut depth = 0;
    for (at, place) in words.iter().enumerate() {
        match tokens[*place].token {
            Token::LBracket => depth += 1,
            Token::RBracket if depth == 1 => {
                let next = words.get(at + 1).map(|place| &tokens[*place].token);
                return (at > 1 && next != Some(&Token::LBracket)).then_some(*place);
            }
            Token::RBracket => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Compares with the elements of the columns and calls behind IN.
pub(super) fn as_comparisons(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "in")) {
        return tokens;
    }
    let words = places(&tokens);
    let token = |at: usize| words.get(at).map(|place| &tokens[*place].token);
    let is = |at: usize, word: &str| token(at).is_some_and(|token| is_word(token, word));
    if is(0, "show") || is(0, "describe") {
        return tokens;
    }
    // Of each open parenthesis, whether it is that of `position(x IN s)`.
    let mut open = Vec::new();
    let mut found = Vec::new();
    for (at, place) in words.iter().enumerate() {
        match &tokens[*place].token {
            Token::LParen => open.push(at > 0 && is(at - 1, "position")),
            Token::RParen => {
                open.pop();
            }
            other if is_word(other, "in") && at > 0 && open.last() != Some(&true) => {
                let is_for = at > 1 && is(at - 2, "for");
                if let Some(end) = end_of_value(&token, at + 1).filter(|_| !is_for) {
                    found.push((at, is(at - 1, "not"), end));
                }
            }
            _ => {}
        }
    }
    let found: Vec<(usize, usize, usize, bool)> = found
        .into_iter()
        .map(|(at, negated, end)| (words[at - 1], words[at], words[end], negated))
        .collect();
    let mut put: Vec<(usize, Vec<Token>)> = Vec::with_capacity(2 * found.len());
    for (before, at, end, negated) in found {
        let (op, quantifier) = match negated {
            true => (Token::Neq, "ALL"),
            false => (Token::Eq, "ANY"),
        };
        if negated {
            tokens[before].token = Token::Whitespace(Whitespace::Space);
        }
        tokens[at].token = op;
        put.push((at, vec![Token::make_keyword(quantifier), Token::LParen]));
        put.push((end, vec![Token::RParen]));
    }
    // From the end, so that what is put in moves nothing that is still to be read.
    put.sort_by_key(|(behind, _)| *behind);
    for (behind, written) in put.into_iter().rev() {
        let span = tokens[behind].span;
        let written = written.into_iter();
        let written = written.map(|token| TokenWithSpan::new(token, span));
        tokens.splice(behind + 1..behind + 1, written);
    }
    tokens
}

/// Finds the last token of a name with its parts, arguments and subscripts; `None` if no name stands there.
fn end_of_value<'a>(token: &impl Fn(usize) -> Option<&'a Token>, first: usize) -> Option<usize> {
    if !matches!(token(first)?, Token::Word(_)) {
        return None;
    }
    let mut end = first;
    loop {
        match token(end + 1) {
            Some(Token::Period) if matches!(token(end + 2), Some(Token::Word(_))) => end += 2,
            Some(Token::LParen | Token::LBracket) => {
                let mut depth = 0_usize;
                loop {
                    end += 1;
                    match token(end)? {
                        Token::LParen | Token::LBracket => depth += 1,
                        Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => return Some(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{as_comparisons, in_parentheses};
    use crate::statements::tests::{tokens, written};

    #[test]
    fn lists_behind_in_are_in_parentheses() {
        for (sql, expect) in [
            ("3 IN [1, 2]", "3 IN (1, 2)"),
            ("x NOT IN [[1], [2, 3]]", "x NOT IN ([1], [2, 3])"),
            ("x IN []", "x IN []"),
            ("x IN [1, 2][1:1]", "x IN [1, 2][1:1]"),
            ("x IN (1)", "x IN (1)"),
        ] {
            assert_eq!(written(&in_parentheses(tokens(sql))), expect);
        }
    }

    #[test]
    fn other_lists_behind_in_are_compared_with() {
        for (sql, expect) in [
            ("3 IN l", "3 =ANY( l)"),
            ("x NOT IN t.l AND y", "x   <>ALL( t.l) AND y"),
            ("x IN f(y, 1)[1:2]", "x =ANY( f(y, 1)[1:2])"),
            ("x IN f(y IN l)", "x =ANY( f(y =ANY( l)))"),
            ("x IN (l)", "x IN (l)"),
            ("position('a' IN s)", "position('a' IN s)"),
            ("[x FOR x IN l]", "[x FOR x IN l]"),
            ("SHOW TABLES IN s", "SHOW TABLES IN s"),
        ] {
            assert_eq!(written(&as_comparisons(tokens(sql))), expect);
        }
    }
}

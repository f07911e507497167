//! `lambda x, y: …`, as DuckDB writes lambdas, which is `(x, y) -> …`.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is_word, places};

/// Writes lambdas with arrows.
pub(super) fn as_arrows(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "lambda")) {
        return tokens;
    }
    let words = places(&tokens);
    // From the end, so that what is put in moves nothing that is still to be read.
    for (place, &index) in words.iter().enumerate().rev() {
        let before = place.checked_sub(1).and_then(|before| words.get(before));
        let is_argument = before
            .is_some_and(|before| matches!(tokens[*before].token, Token::Comma | Token::LParen));
        if !is_argument || !is_word(&tokens[index].token, "lambda") {
            continue;
        }
        let behind = &words[place + 1..];
        let Some(num_parameters) = parameters(behind.iter().map(|index| &tokens[*index].token))
        else {
            continue;
        };
        let colon = behind[2 * num_parameters - 1];
        let span = tokens[colon].span;
        tokens[index].token = Token::LParen;
        tokens[colon].token = Token::RParen;
        tokens.insert(colon + 1, TokenWithSpan::new(Token::Arrow, span));
    }
    tokens
}

/// Counts names that commas part and a colon ends; `None` if something else stands there.
fn parameters<'a>(mut tokens: impl Iterator<Item = &'a Token>) -> Option<usize> {
    let mut count = 0;
    while let Token::Word(_) = tokens.next()? {
        count += 1;
        match tokens.next()? {
            Token::Comma => {}
            Token::Colon => return Some(count),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::as_arrows;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn lambdas_have_arrows() {
        for (sql, expect) in [
            ("f(l, lambda x: x > 1)", "f(l, ( x)-> x > 1)"),
            ("f(l, LAMBDA x, y : x)", "f(l, ( x, y )-> x)"),
            (
                "f(l, lambda x: g(x, lambda y: x))",
                "f(l, ( x)-> g(x, ( y)-> x))",
            ),
            ("SELECT lambda, x FROM t", "SELECT lambda, x FROM t"),
            ("f(lambda)", "f(lambda)"),
            ("f(lambda, x)", "f(lambda, x)"),
            ("{'a': lambda}", "{'a': lambda}"),
        ] {
            assert_eq!(written(&as_arrows(tokens(sql))), expect);
        }
    }
}

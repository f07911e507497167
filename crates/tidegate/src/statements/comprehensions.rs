//! Lists made of lists, `[x + 1 FOR x IN l IF x > 0]`, which are `list_transform(list_filter(l, x -> (x > 0)), x -> (x + 1))`.

use std::ops::Range;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is_word, outside};

/// Writes comprehensions as calls.
pub(super) fn as_calls(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "FOR")) {
        return tokens;
    }
    // From the end, so that the inner ones come first.
    for open in (0..tokens.len()).rev() {
        if tokens[open].token == Token::LBracket
            && let Some(found) = Comprehension::at(&tokens, open)
        {
            let written = found.written(&tokens);
            tokens.splice(open..=found.close, written);
        }
    }
    tokens
}

/// Where the parts of a comprehension are.
struct Comprehension {
    value: Range<usize>,
    name: usize,
    list: Range<usize>,
    condition: Option<Range<usize>>,
    close: usize,
}

impl Comprehension {
    fn at(tokens: &[TokenWithSpan], open: usize) -> Option<Self> {
        let is_for = |token: &TokenWithSpan| is_word(&token.token, "FOR");
        let at = next(tokens, open + 1, is_for)?;
        let mut words = (at + 1..tokens.len())
            .filter(|place| !matches!(tokens[*place].token, Token::Whitespace(_)));
        let (name, in_word) = (words.next()?, words.next()?);
        if !matches!(tokens[name].token, Token::Word(_)) || !is_word(&tokens[in_word].token, "IN") {
            return None;
        }
        let close = next(tokens, in_word + 1, |token| token.token == Token::RBracket)?;
        let if_word = next(&tokens[..close], in_word + 1, |token| {
            is_word(&token.token, "IF")
        });
        Some(Self {
            value: open + 1..at,
            name,
            list: in_word + 1..if_word.unwrap_or(close),
            condition: if_word.map(|if_word| if_word + 1..close),
            close,
        })
    }

    fn written(&self, tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
        let span = tokens[self.name].span;
        let put = |token: Token| TokenWithSpan::new(token, span);
        let name = |name: &str| put(Token::make_word(name, None));
        let mut written = vec![name("list_transform"), put(Token::LParen)];
        if self.condition.is_some() {
            written.extend([name("list_filter"), put(Token::LParen)]);
        }
        written.extend_from_slice(&tokens[self.list.clone()]);
        for body in self.condition.iter().chain([&self.value]) {
            let head = [
                Token::Comma,
                tokens[self.name].token.clone(),
                Token::Arrow,
                Token::LParen,
            ];
            written.extend(head.map(put));
            written.extend_from_slice(&tokens[body.clone()]);
            written.extend([Token::RParen, Token::RParen].map(put));
        }
        written
    }
}

/// Finds a token that is not within brackets; `None` if those around it end before.
fn next(
    tokens: &[TokenWithSpan],
    from: usize,
    is_it: impl Fn(&TokenWithSpan) -> bool,
) -> Option<usize> {
    let mut rest = outside(tokens, from..tokens.len());
    let (place, _) = rest.find(|(place, _)| is_it(&tokens[*place]))?;
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::as_calls;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn comprehensions_become_calls() {
        for (sql, expect) in [
            ("[x FOR x IN l]", "list_transform( l,x->(x ))"),
            (
                "[x + 1 FOR x IN [1, 2] IF x > 1]",
                "list_transform(list_filter( [1, 2] ,x->( x > 1)),x->(x + 1 ))",
            ),
            (
                "[[y FOR y IN x] FOR x IN l]",
                "list_transform( l,x->(list_transform( x,y->(y )) ))",
            ),
            ("[substring(s FOR 2)]", "[substring(s FOR 2)]"),
            ("[1, 2]", "[1, 2]"),
        ] {
            assert_eq!(written(&as_calls(tokens(sql))), expect);
        }
    }
}

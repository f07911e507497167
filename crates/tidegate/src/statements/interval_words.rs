//! `INTERVAL 2 quarters`: units in the plural that the parser does not know, for it would take them for a name, and the
//! number for seconds.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is_word, places};

/// Units in the plural, and the words that the parser knows.
const UNITS: [(&str, &str); 4] = [
    ("quarters", "QUARTER"),
    ("decades", "DECADE"),
    ("centuries", "CENTURY"),
    ("millennia", "MILLENNIUM"),
];

/// Writes such units in the singular.
pub(super) fn in_singular(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| unit(&token.token).is_some()) {
        return tokens;
    }
    let words = places(&tokens);
    for window in words.windows(2) {
        let [before, place] = window else {
            continue;
        };
        let is_behind_number = matches!(
            tokens[*before].token,
            Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen
        );
        let is_interval = || {
            let before = words.iter().take_while(|word| **word < *place);
            is_behind_interval(&tokens, before)
        };
        if let Some(word) = unit(&tokens[*place].token)
            && is_behind_number
            && is_interval()
        {
            tokens[*place].token = Token::make_keyword(word);
        }
    }
    tokens
}

fn unit(token: &Token) -> Option<&'static str> {
    let mut units = UNITS.iter();
    let (_, word) = units.find(|(written, _)| is_word(token, written))?;
    Some(*word)
}

/// Tells whether one value, perhaps in parentheses, stands behind the word INTERVAL at the end of some tokens.
fn is_behind_interval<'a>(
    tokens: &[TokenWithSpan],
    places: impl Iterator<Item = &'a usize>,
) -> bool {
    let places: Vec<&usize> = places.collect();
    let mut depth = 0;
    for place in places.into_iter().rev() {
        match &tokens[*place].token {
            Token::RParen => depth += 1,
            Token::LParen => depth -= 1,
            token if depth == 0 => match token {
                Token::Number(..) | Token::SingleQuotedString(_) | Token::Minus => {}
                token => return is_word(token, "interval"),
            },
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::in_singular;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn units_behind_intervals_are_singular() {
        for (sql, expect) in [
            ("INTERVAL 2 quarters", "INTERVAL 2 QUARTER"),
            ("INTERVAL (n + 1) Decades", "INTERVAL (n + 1) DECADE"),
            ("INTERVAL '2' centuries", "INTERVAL '2' CENTURY"),
            ("SELECT 2 quarters", "SELECT 2 quarters"),
            ("SELECT f(2) quarters", "SELECT f(2) quarters"),
            (
                "SELECT INTERVAL '1 day', 2 quarters",
                "SELECT INTERVAL '1 day', 2 quarters",
            ),
        ] {
            assert_eq!(written(&in_singular(tokens(sql))), expect);
        }
    }
}

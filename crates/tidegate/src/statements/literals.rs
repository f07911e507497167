//! How long the strings of a statement are.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Shorter strings do not count.
const LONG_BYTES_MIN: usize = 1 << 10;

/// Returns the bytes of a text's long strings together: a row may hold each of them.
pub(super) fn long_literal_bytes(tokens: &[TokenWithSpan]) -> usize {
    let bytes = tokens.iter().map(|token| match &token.token {
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text)
        | Token::NationalStringLiteral(text)
        | Token::HexStringLiteral(text) => text.len(),
        Token::DollarQuotedString(text) => text.value.len(),
        _ => 0,
    });
    bytes.filter(|bytes| *bytes > LONG_BYTES_MIN).sum()
}

#[cfg(test)]
mod tests {
    use crate::statements::tests::tokens;

    #[test]
    fn only_long_strings_count() {
        let bytes = |sql: &str| super::long_literal_bytes(&tokens(sql));
        let long = "x".repeat(2000);
        let sql = format!("SELECT '{long}', 'short', $${long}$$ /* '{long}' */ FROM t");
        assert_eq!(bytes(&sql), 4000);
        assert_eq!(bytes("SELECT 'short'"), 0);
        assert_eq!(bytes(&"SELECT 'short', ".repeat(1000)), 0);
    }
}

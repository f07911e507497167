//! How long the strings of a statement are.

use sqlparser::tokenizer::Token;

use super::tokenize;

/// Shorter strings do not count.
const LONG_BYTES_MIN: usize = 1 << 10;

/// Returns the bytes of a text's long strings together: a row may hold each of them.
pub(crate) fn long_literal_bytes(sql: &str) -> usize {
    if sql.len() <= LONG_BYTES_MIN {
        return 0;
    }
    let (tokens, _) = tokenize(sql);
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
    use super::long_literal_bytes;

    #[test]
    fn only_long_strings_count() {
        let long = "x".repeat(2000);
        let sql = format!("SELECT '{long}', 'short', $${long}$$ /* '{long}' */ FROM t");
        assert_eq!(long_literal_bytes(&sql), 4000);
        assert_eq!(long_literal_bytes("SELECT 'short'"), 0);
        assert_eq!(long_literal_bytes(&"SELECT 'short', ".repeat(1000)), 0);
    }
}

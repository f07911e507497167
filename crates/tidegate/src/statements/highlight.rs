//! What the parts of a text are, for a prompt that colours them.

use std::ops::Range;
use std::sync::LazyLock;

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::tokenize;
use super::walk::Walk;

/// Words that structure statements, in order: what a prompt colours and proposes. Names that are
/// keywords in some statement and column names in most are left out.
pub static KEYWORDS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let words = "\
        ALL ALTER ANALYZE AND ANTI ANY ARRAY AS ASC BETWEEN BIGINT BOOLEAN BY CACHE CASE CAST \
        CATALOG COLUMN COLUMNS COPY CREATE CROSS CURRENT DATABASE DATE DEALLOCATE DECIMAL \
        DELETE DESC DESCRIBE DEVICE DISTINCT DOUBLE DROP ELSE END ESCAPE EXCEPT EXECUTE EXISTS \
        EXPLAIN EXTERNAL FALSE FILTER FLOAT FOLLOWING FORMAT FROM FULL FUNCTION FUNCTIONS \
        GROUP GROUPING HAVING IF ILIKE IN INNER INSERT INT INTEGER INTERSECT INTERVAL INTO IS \
        JOIN LATERAL LEFT LIKE LIMIT LOCATION NATURAL NOT NULL NULLS OFFSET ON OPTIONS OR \
        ORDER OUTER OVER PARTITION PARTITIONED PRECEDING PREPARE QUALIFY RANGE RECURSIVE \
        REPLACE RIGHT ROLLUP ROW ROWS SCHEMA SELECT SEMI SET SETS SHOW SMALLINT STORED \
        SUMMARIZE TABLE TABLES TEMPORARY THEN TIME TIMESTAMP TINYINT TO TRUE UNBOUNDED UNCACHE \
        UNION UNNEST USING VALUES VARCHAR VIEW WHEN WHERE";
    words.split(' ').collect()
});

/// What a part of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighlightKind {
    /// One of [`KEYWORDS`], in any case, or WINDOW or WITH.
    Keyword,
    /// A number.
    Number,
    /// A string in single or dollar quotes, closed or not.
    Text,
    /// A comment.
    Comment,
    /// A name, an operator, space.
    Other,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HighlightSpan {
    /// Its bytes.
    pub range: Range<usize>,
    /// What it is.
    pub kind: HighlightKind,
}

/// Cuts text into its parts, in order and without gaps. From the first mistake on, such as a quote
/// that is not closed, all is one span of text.
pub fn highlight(text: &str) -> Vec<HighlightSpan> {
    let (tokens, error) = tokenize(text, &GenericDialect {});
    highlight_tokens(text, &tokens, error.is_none())
}

/// As [`highlight`], of a text that was cut into these tokens; to its end, or to the first mistake.
pub(super) fn highlight_tokens(
    text: &str,
    tokens: &[TokenWithSpan],
    is_whole: bool,
) -> Vec<HighlightSpan> {
    let mut walk = Walk::new(text);
    let mut spans: Vec<HighlightSpan> = Vec::new();
    let mut from = 0;
    let mut kind = HighlightKind::Other;
    for token in tokens {
        let start = walk.to(token.span.start);
        push(&mut spans, from..start, kind);
        from = start;
        kind = kind_of(&token.token);
    }
    // Behind the last token its own end is not known better than the end of the text.
    let end = match (is_whole, tokens.last()) {
        (true, _) => text.len(),
        (false, Some(last)) => walk.to(last.span.end),
        (false, None) => 0,
    };
    push(&mut spans, from..end, kind);
    push(&mut spans, end..text.len(), HighlightKind::Text);
    spans
}

fn push(spans: &mut Vec<HighlightSpan>, range: Range<usize>, kind: HighlightKind) {
    if range.is_empty() {
        return;
    }
    match spans.last_mut() {
        Some(last) if last.kind == kind && last.range.end == range.start => {
            last.range.end = range.end;
        }
        _ => spans.push(HighlightSpan { range, kind }),
    }
}

fn kind_of(token: &Token) -> HighlightKind {
    match token {
        Token::Word(word) if word.quote_style.is_none() && is_keyword(&word.value) => {
            HighlightKind::Keyword
        }
        Token::Number(..) => HighlightKind::Number,
        Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::TripleSingleQuotedString(_)
        | Token::NationalStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_) => HighlightKind::Text,
        Token::Whitespace(
            Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_),
        ) => HighlightKind::Comment,
        _ => HighlightKind::Other,
    }
}

fn is_keyword(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    KEYWORDS.binary_search(&upper.as_str()).is_ok() || matches!(upper.as_str(), "WINDOW" | "WITH")
}

#[cfg(test)]
mod tests {
    use super::{HighlightKind, KEYWORDS, highlight};

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn a_text_falls_into_its_spans() {
        let check = |text: &str, expect: &[(&str, HighlightKind)]| {
            let found = highlight(text);
            let joined: String = found.iter().map(|span| &text[span.range.clone()]).collect();
            assert_eq!(joined, text);
            let named: Vec<(&str, HighlightKind)> = found
                .iter()
                .filter(|span| span.kind != HighlightKind::Other)
                .map(|span| (&text[span.range.clone()], span.kind))
                .collect();
            assert_eq!(named, expect, "{text}");
        };
        use HighlightKind::{Comment, Keyword, Number, Text};
        check("", &[]);
        check(
            "select a, 'é''b' FROM \"from\" -- x\n WHERE n > 1.5;",
            &[
                ("select", Keyword),
                ("'é''b'", Text),
                ("FROM", Keyword),
                ("-- x\n", Comment),
                ("WHERE", Keyword),
                ("1.5", Number),
            ],
        );
        check("SELECT 'open", &[("SELECT", Keyword), ("'open", Text)]);
        check(
            "/* a */ SELECT $$x$$",
            &[("/* a */", Comment), ("SELECT", Keyword), ("$$x$$", Text)],
        );
        check("'", &[("'", Text)]);
    }
}

//! What the parts of a text are, for a prompt that colours them.

use std::ops::Range;

use sqlparser::tokenizer::{Location, Token, Whitespace};

use super::tokenize;

/// Words that structure statements: what a prompt colours and proposes. Names that are keywords in
/// some statement and column names in most are left out.
pub const KEYWORDS: [&str; 122] = [
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANTI",
    "ANY",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "CACHE",
    "CASE",
    "CAST",
    "CATALOG",
    "COLUMN",
    "COLUMNS",
    "COPY",
    "CREATE",
    "CROSS",
    "CURRENT",
    "DATABASE",
    "DATE",
    "DEALLOCATE",
    "DECIMAL",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DEVICE",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "FALSE",
    "FILTER",
    "FLOAT",
    "FOLLOWING",
    "FORMAT",
    "FROM",
    "FULL",
    "FUNCTION",
    "FUNCTIONS",
    "GROUP",
    "GROUPING",
    "HAVING",
    "IF",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INT",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "NATURAL",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PARTITIONED",
    "PRECEDING",
    "PREPARE",
    "QUALIFY",
    "RANGE",
    "RECURSIVE",
    "REPLACE",
    "RIGHT",
    "ROLLUP",
    "ROW",
    "ROWS",
    "SCHEMA",
    "SELECT",
    "SEMI",
    "SET",
    "SETS",
    "SHOW",
    "SMALLINT",
    "STORED",
    "SUMMARIZE",
    "TABLE",
    "TABLES",
    "TEMPORARY",
    "THEN",
    "TIME",
    "TIMESTAMP",
    "TINYINT",
    "TO",
    "TRUE",
    "UNBOUNDED",
    "UNCACHE",
    "UNION",
    "UNNEST",
    "USING",
    "VALUES",
    "VARCHAR",
    "VIEW",
    "WHEN",
    "WHERE",
];

/// What a part of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
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
pub struct Piece {
    /// Its bytes.
    pub range: Range<usize>,
    /// What it is.
    pub kind: PieceKind,
}

/// Cuts text into its parts, in order and without gaps. From the first mistake on, such as a quote
/// that is not closed, all is one piece of text.
pub fn pieces(text: &str) -> Vec<Piece> {
    let (tokens, error) = tokenize(text);
    let mut walk = Walk {
        text,
        offset: 0,
        location: Location::new(1, 1),
    };
    let mut pieces: Vec<Piece> = Vec::new();
    let mut from = 0;
    let mut kind = PieceKind::Other;
    for token in &tokens {
        let start = walk.to(token.span.start);
        push(&mut pieces, from..start, kind);
        from = start;
        kind = kind_of(&token.token);
    }
    // Behind the last token its own end is not known better than the end of the text.
    let end = match (&error, tokens.last()) {
        (Some(_), Some(last)) => walk.to(last.span.end),
        (Some(_), None) => 0,
        (None, _) => text.len(),
    };
    push(&mut pieces, from..end, kind);
    push(&mut pieces, end..text.len(), PieceKind::Text);
    pieces
}

fn push(pieces: &mut Vec<Piece>, range: Range<usize>, kind: PieceKind) {
    if range.is_empty() {
        return;
    }
    match pieces.last_mut() {
        Some(last) if last.kind == kind && last.range.end == range.start => {
            last.range.end = range.end;
        }
        _ => pieces.push(Piece { range, kind }),
    }
}

fn kind_of(token: &Token) -> PieceKind {
    match token {
        Token::Word(word) if word.quote_style.is_none() && is_keyword(&word.value) => {
            PieceKind::Keyword
        }
        Token::Number(..) => PieceKind::Number,
        Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::TripleSingleQuotedString(_)
        | Token::NationalStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_) => PieceKind::Text,
        Token::Whitespace(
            Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_),
        ) => PieceKind::Comment,
        _ => PieceKind::Other,
    }
}

fn is_keyword(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    KEYWORDS.binary_search(&upper.as_str()).is_ok() || matches!(upper.as_str(), "WINDOW" | "WITH")
}

/// Finds the bytes of locations that come in order.
struct Walk<'a> {
    text: &'a str,
    offset: usize,
    location: Location,
}

impl Walk<'_> {
    fn to(&mut self, location: Location) -> usize {
        while self.location < location {
            let Some(c) = self.text[self.offset..].chars().next() else {
                break;
            };
            self.offset += c.len_utf8();
            self.location = match c {
                '\n' => Location::new(self.location.line + 1, 1),
                _ => Location::new(self.location.line, self.location.column + 1),
            };
        }
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYWORDS, PieceKind, pieces};

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn a_text_falls_into_its_pieces() {
        let check = |text: &str, expect: &[(&str, PieceKind)]| {
            let found = pieces(text);
            let joined: String = found
                .iter()
                .map(|piece| &text[piece.range.clone()])
                .collect();
            assert_eq!(joined, text);
            let named: Vec<(&str, PieceKind)> = found
                .iter()
                .filter(|piece| piece.kind != PieceKind::Other)
                .map(|piece| (&text[piece.range.clone()], piece.kind))
                .collect();
            assert_eq!(named, expect, "{text}");
        };
        use PieceKind::{Comment, Keyword, Number, Text};
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

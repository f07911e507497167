//! Wildcards, escapes and letter case.

use super::{LikePattern, LikePieces};

fn check(cases: &[(&str, &str, bool)], case_insensitive: bool) {
    for (text, pattern, expected) in cases {
        let like = LikePattern::new(pattern, case_insensitive);
        assert_eq!(like.matches(text), *expected, "{text:?} like {pattern:?}");
        if let Some(pieces) = LikePieces::of(&like) {
            assert_eq!(
                pieces.matches(text),
                *expected,
                "pieces of {pattern:?} in {text:?}"
            );
        }
    }
}

#[test]
fn wildcards() {
    check(
        &[
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("a", "", false),
            ("abc", "abc", true),
            ("abc", "ABC", false),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "%d%", false),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("abc", "___", true),
            ("abc", "____", false),
            ("abc", "%%%", true),
            ("abc", "%_%", true),
            ("ab", "%a%b%", true),
            ("aab", "%ab", true),
            ("abcabd", "%ab_%d", true),
            ("mississippi", "%iss%ip%", true),
            ("mississippi", "m%i%s%i%x", false),
            ("PROMO BRUSHED", "PROMO%", true),
            ("a\nb", "a%b", true),
            ("a\nb", "a_b", true),
            ("été", "_t_", true),
            ("🌏x", "_x", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaab", "%a%a%a%a%a%a%a%a%c", false),
        ],
        false,
    );
}

#[test]
fn escapes() {
    check(
        &[
            ("%", r"\%", true),
            ("a", r"\%", false),
            ("_", r"\_", true),
            ("a", r"\_", false),
            ("a", r"\a", true),
            (r"\", r"\\", true),
            (r"\x", r"\\%", true),
            ("100%", r"100\%", true),
            ("100%!", r"100\%", false),
            ("100%!", r"100\%%", true),
            (r"ab\", r"ab\", true),
            ("a.c", "a.c", true),
            ("abc", "a.c", false),
        ],
        false,
    );
}

#[test]
fn without_case() {
    check(
        &[
            ("ABC", "abc", true),
            ("abc", "A%", true),
            ("ÉTÉ", "été", true),
            ("ΣΑΣ", "σας", true),
            // Simple folding, one character to one: no ß for ss, no dotless i for i.
            ("STRASSE", "straße", false),
            ("ẞ", "ß", true),
            ("ı", "i", false),
            ("İ", "i", false),
            ("K", "\u{212a}", true),
            ("ſ", "S", true),
            ("%", r"\%", true),
        ],
        true,
    );
}

#[test]
fn pieces_match_what_the_pattern_does() {
    // Every text of up to six letters under every pattern of up to five.
    let words = |letters: &[char], len: u32| {
        let mut words = vec![String::new()];
        let mut from = 0;
        for _ in 0..len {
            let end = words.len();
            for word in from..end {
                words.extend(
                    letters
                        .iter()
                        .map(|letter| format!("{}{letter}", words[word]))
                        .collect::<Vec<_>>(),
                );
            }
            from = end;
        }
        words
    };
    let texts = words(&['a', 'b'], 6);
    let mut with_pieces = 0;
    for pattern in words(&['a', 'b', '%'], 5) {
        let like = LikePattern::new(&pattern, false);
        let pieces = LikePieces::of(&like).expect("no _, and case counts");
        for text in &texts {
            assert_eq!(
                pieces.matches(text),
                like.matches(text),
                "{text:?} like {pattern:?}"
            );
            with_pieces += usize::from(like.matches(text));
        }
    }
    assert!(with_pieces > 1_000, "{with_pieces} matches");
    assert!(LikePieces::of(&LikePattern::new("a_", false)).is_none());
    assert!(LikePieces::of(&LikePattern::new("a", true)).is_none());
}

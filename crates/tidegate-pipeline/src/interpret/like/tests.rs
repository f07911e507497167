//! Wildcards, escapes and letter case.

use super::LikePattern;

fn check(cases: &[(&str, &str, bool)], case_insensitive: bool) {
    for (text, pattern, expected) in cases {
        let found = LikePattern::new(pattern, case_insensitive).matches(text);
        assert_eq!(found, *expected, "{text:?} like {pattern:?}");
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

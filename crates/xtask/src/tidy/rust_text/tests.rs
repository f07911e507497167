//! Texts and their two views.

use super::split;

/// Checks both views; `.` stands for a blank.
fn check_split(text: &str, code: &str, comments: &str) {
    let parted = split(text);
    assert_eq!(parted.code.replace(' ', "."), code, "code of {text}");
    assert_eq!(
        parted.comments.replace(' ', "."),
        comments,
        "comments of {text}"
    );
}

#[test]
fn code_and_comments_are_parted() {
    check_split("a//b\nc", "a...\nc", ".//b\n.");
    check_split("a/*/**/b*/c", "a.........c", "./*/**/b*/.");
    check_split(r#"a"//b"c"#, "a.....c", ".......");
    check_split(r#"a"\"//"c"#, "a......c", "........");
    check_split(r##"r#"""#a"##, "......a", ".......");
    check_split(r#"br"\"a"#, "b....a", "......");
    check_split(r#"r"\"a"#, "....a", ".....");
    check_split("r#a//b", "r#a...", "...//b");
    check_split("'\"'//b", "......", "...//b");
    check_split(r"'\''a", "....a", ".....");
    check_split("<'a>//b", "<'a>...", "....//b");
    check_split("'é'a", "....a", ".....");
    check_split("a\"b", "a..", "...");
    check_split("/*a", "...", "/*a");
}

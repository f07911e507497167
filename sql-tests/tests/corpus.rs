//! The command `corpus` says how it is used.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::process::{Command, Output};

fn corpus(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corpus"));
    command.args(words).output().unwrap()
}

#[test]
fn help_is_told_and_no_option_is_taken_for_a_folder() {
    let help = corpus(&["--help"]);
    assert!(help.status.success());
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(text.contains("usage: corpus FOLDER"), "{text}");
    for words in [&["--verbose"][..], &[]] {
        let wrong = corpus(words);
        assert_eq!(wrong.status.code(), Some(2), "{words:?}");
        let text = String::from_utf8(wrong.stderr).unwrap();
        assert!(text.contains("usage: corpus FOLDER"), "{text}");
    }
}

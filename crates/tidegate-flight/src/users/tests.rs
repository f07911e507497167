//! A password opens its user.

use std::path::Path;

use super::{Person, Users, hash_password};

#[test]
fn a_password_opens_its_user() {
    let (ada, bob) = (
        hash_password("secret").unwrap(),
        hash_password("x").unwrap(),
    );
    let text = format!(
        "[[users]]\nname = \"ada\"\npassword = \"{ada}\"\nadmin = true\n\
         [[users]]\nname = \"bob\"\npassword = \"{bob}\"\n"
    );
    let users = Users::parse(&text, Path::new("")).unwrap();
    let ada = Person {
        name: "ada".into(),
        is_admin: true,
    };
    assert_eq!(users.check("ada", "secret"), Some(ada));
    assert!(!users.check("bob", "x").unwrap().is_admin);
    for (name, password) in [("ada", "x"), ("ada", ""), ("eve", ""), ("", "")] {
        assert_eq!(users.check(name, password), None, "{name}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let hash = hash_password("x").unwrap();
    let twice = format!("[[users]]\nname = \"a\"\npassword = \"{hash}\"\n").repeat(2);
    for (text, expect) in [
        ("", "lists no users"),
        (
            "[[users]]\nname = \"a\"\npassword = \"plain\"\n",
            "hash-password",
        ),
        ("[[users]]\nname = \"a\"\n", "password"),
        ("[[user]]\nname = \"a\"\n", "user"),
        (&twice, "twice"),
    ] {
        let error = Users::parse(text, Path::new("")).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

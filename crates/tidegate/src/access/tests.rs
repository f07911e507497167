//! Paths are judged by where they lead.

use std::os::unix::fs::symlink;

use super::AllowedPaths;

#[test]
fn paths_are_judged_by_where_they_lead() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (inside, outside) = (root.join("in"), root.join("out"));
    std::fs::create_dir_all(inside.join("deep")).unwrap();
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("secret"), "s").unwrap();
    std::fs::write(inside.join("a"), "a").unwrap();
    symlink(&outside, inside.join("away")).unwrap();
    symlink(inside.join("a"), inside.join("b")).unwrap();
    symlink(outside.join("later"), inside.join("dangling")).unwrap();
    symlink(&inside, outside.join("home")).unwrap();
    let allowed = AllowedPaths::new(std::slice::from_ref(&inside)).unwrap();
    for (path, expect) in [
        ("in", true),
        ("in/a", true),
        ("in/b", true),
        ("in/new", true),
        ("in/deep/er/new", true),
        ("in/deep/../a", true),
        ("out/home/a", true),
        ("", false),
        ("out", false),
        ("out/secret", false),
        ("inside", false),
        ("in/../out/secret", false),
        ("in/away", false),
        ("in/away/secret", false),
        ("in/away/new", false),
        ("in/dangling", false),
        ("in/new/../../out/secret", false),
    ] {
        assert_eq!(allowed.allows(&root.join(path)), expect, "{path}");
    }
}

#[test]
fn nothing_is_allowed_by_default() {
    assert!(!AllowedPaths::default().allows(std::path::Path::new("/")));
    let error = AllowedPaths::new(&["/no/such/folder".into()]).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    assert!(AllowedPaths::new(&["s3://bucket".into()]).is_err());
}

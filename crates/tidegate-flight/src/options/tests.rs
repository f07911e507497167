//! Only loopback is open by default.

use super::ServerOptions;
use crate::Users;

#[test]
fn only_loopback_is_open_by_default() {
    let at = |listen: &str| ServerOptions {
        listen: listen.parse().unwrap(),
        ..ServerOptions::default()
    };
    assert!(ServerOptions::default().check().is_ok());
    assert!(at("[::1]:1").check().is_ok());
    for listen in ["0.0.0.0:1", "[::]:1", "192.168.0.1:1"] {
        let error = at(listen).check().unwrap_err().to_string();
        assert!(error.contains("--insecure"), "{error}");
        let open = ServerOptions {
            insecure: true,
            ..at(listen)
        };
        assert!(open.check().is_ok());
        let clear = ServerOptions {
            users: Some(Users::default()),
            ..at(listen)
        };
        assert!(clear.check().unwrap_err().to_string().contains("TLS"));
        let pages = ServerOptions {
            http: Some(listen.parse().unwrap()),
            ..ServerOptions::default()
        };
        assert!(pages.check().unwrap_err().to_string().contains(listen));
    }
}

//! `--connect`: the secrets gathered, the server reached, the settings made there.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::history::MemHistory;
use rustyline::{Completer, Config, Editor, Helper, Hinter, Validator};
use tidegate::{Error, ErrorKind};
use tidegate_flight::{ConnectOptions, RemoteSession};
use tokio::runtime::Handle;

use crate::args::ConnectArgs;
use crate::config::Setting;
use crate::engine::Engine;
use crate::environment;
use crate::failure::Failure;
use crate::params::literal;

/// Opens a session on a server, with the settings of wherever they come from.
pub(crate) async fn connect(
    url: &str,
    asked: &ConnectArgs,
    settings: &[Setting],
    workers: &Handle,
) -> Result<Arc<dyn Engine>, Failure> {
    let options = options(url, asked)?;
    // Its connection lives where statements run.
    let session = workers.spawn(async move { RemoteSession::connect(&options).await });
    let session = session.await.map_err(|error| Failure::join(&error))??;
    for setting in settings {
        let Setting {
            name,
            value,
            origin,
        } = setting;
        let sql = format!("SET {name} = {}", literal(value));
        session.execute(&sql).await.map_err(|error| {
            let message = format!("{origin}: {error}");
            Error::with_source(error.kind(), message, error)
        })?;
    }
    Ok(Arc::new(session))
}

fn options(url: &str, asked: &ConnectArgs) -> Result<ConnectOptions, Failure> {
    let token = match &asked.token_file {
        Some(file) => Some(secret(file)?),
        None => environment::token(),
    };
    let password = match (&asked.password_file, environment::password()) {
        _ if token.is_some() || asked.user.is_none() => None,
        (Some(file), _) => Some(secret(file)?),
        (None, Some(password)) => Some(password),
        (None, None) => ask()?,
    };
    let ca = match &asked.ca {
        Some(file) => Some(std::fs::read(file).map_err(|error| unreadable(file, &error))?),
        None => None,
    };
    Ok(ConnectOptions {
        url: url.to_string(),
        user: asked.user.clone(),
        password,
        token,
        ca,
    })
}

/// Reads the first line of a file.
fn secret(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_string())
}

fn unreadable(file: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot read {}: {error}", file.display());
    Failure::Query(Error::new(ErrorKind::Io, message))
}

/// Asks for the password, if somebody is there to be asked.
fn ask() -> Result<Option<String>, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    let failed = |error: ReadlineError| {
        let message = format!("no password was given: {error}");
        Failure::Query(Error::new(ErrorKind::Denied, message))
    };
    let config = Config::builder().auto_add_history(false).build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::<Masked, MemHistory>::with_history(config, history).map_err(failed)?;
    editor.set_helper(Some(Masked));
    editor.readline("password: ").map(Some).map_err(failed)
}

/// Shows what is typed as stars.
#[derive(Completer, Helper, Hinter, Validator)]
struct Masked;

impl Highlighter for Masked {
    fn highlight<'l>(&self, line: &'l str, _cursor: usize) -> Cow<'l, str> {
        Cow::Owned("*".repeat(line.chars().count()))
    }

    fn highlight_char(&self, _line: &str, _cursor: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

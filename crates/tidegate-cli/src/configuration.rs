//! `tidegate config`: every option and setting, its value, and where that came from.

use std::io::{self, Write};
use std::sync::Arc;

use tidegate::Session;
use tokio::runtime::Handle;

use crate::args::OutputArgs;
use crate::config::{self, OptionReport, Setting};
use crate::console;
use crate::exit::{DONE, FAILED};
use crate::failure::Failure;
use crate::run::Runner;
use crate::signals::{Heard, Signals};

/// Prints the reference page; returns the exit status.
pub(crate) fn reference() -> u8 {
    let written = io::stdout().write_all(config::reference().as_bytes());
    match written.map_err(Failure::output) {
        Ok(()) | Err(Failure::OutputClosed) => DONE,
        Err(failure) => {
            console::error(failure, None);
            FAILED
        }
    }
}

/// Prints the options and settings in the output format; returns the exit status.
pub(crate) async fn run(
    session: &Session,
    workers: &Handle,
    options: &[OptionReport],
    settings: &[Setting],
    output: &OutputArgs,
) -> u8 {
    let runner = Runner::new(Arc::new(session.clone()), workers, output, None);
    let mut signals = Signals::new(Heard::Interrupt);
    match runner.run(&query(options, settings), &mut signals).await {
        Ok(()) | Err(Failure::OutputClosed) => DONE,
        Err(failure) => {
            console::error(&failure, None);
            match failure {
                Failure::Stopped(signal) => signal.status(),
                _ => FAILED,
            }
        }
    }
}

/// Writes the query whose rows are the options, and the settings as the session knows them.
fn query(options: &[OptionReport], settings: &[Setting]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let rows = options.iter().map(|option| {
        let value = option.value.as_deref().map_or("NULL".into(), quoted);
        let (name, origin, help) = (&option.name, &option.origin, &option.help);
        format!(
            "({}, {value}, {}, {})",
            quoted(name),
            quoted(origin),
            quoted(help)
        )
    });
    let rows: Vec<String> = rows.collect();
    // The last of several is the one that holds.
    let mut origins: Vec<&Setting> = Vec::new();
    for setting in settings {
        origins.retain(|known| known.name != setting.name);
        origins.push(setting);
    }
    let origins = origins.iter().map(|setting| {
        format!(
            "WHEN {} THEN {}",
            quoted(&setting.name),
            quoted(&setting.origin)
        )
    });
    let origins: Vec<String> = origins.collect();
    let origin = match origins.is_empty() {
        true => "'default'".to_string(),
        false => format!("CASE name {} ELSE 'default' END", origins.join(" ")),
    };
    let set: Vec<String> = settings
        .iter()
        .map(|setting| quoted(&setting.name))
        .collect();
    let others = match set.is_empty() {
        true => String::new(),
        false => format!(" OR name IN ({})", set.join(", ")),
    };
    format!(
        "SELECT * FROM (VALUES {}) AS options(name, value, origin, description) UNION ALL \
         SELECT name, value, {origin}, description FROM information_schema.df_settings \
         WHERE name LIKE 'tidegate.%'{others} ORDER BY name",
        rows.join(", ")
    )
}

//! What a shell and `man` read: completions, and the manual page.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::{self, Args};
use crate::console;
use crate::exit::{DONE, FAILED};

/// Prints a shell's completions; returns the exit status.
pub(crate) fn completions(shell: Shell) -> u8 {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "tidegate", &mut text);
    write(&text)
}

/// Prints the manual page of the command or of a subcommand; returns the exit status.
pub(crate) fn page(of: Option<&str>) -> u8 {
    let mut command = Args::command();
    command.build();
    if of == Some("serve") {
        command = args::with_own_help(command);
    }
    let version = command.get_version().unwrap_or_default();
    let source = format!("tidegate {version}");
    let page = match of {
        None => command,
        Some(name) => match command.find_subcommand(name) {
            Some(found) => found.clone(),
            None => {
                let names = command.get_subcommands().map(Command::get_name);
                let names = names.collect::<Vec<_>>().join(", ");
                let message = format!("there is no subcommand {name}; there are {names}");
                console::error(message, None);
                return FAILED;
            }
        },
    };
    let mut text = Vec::new();
    match Man::new(page).source(source).render(&mut text) {
        Ok(()) => write(&text),
        Err(error) => told(&error),
    }
}

fn write(text: &[u8]) -> u8 {
    match io::stdout().lock().write_all(text) {
        Ok(()) => DONE,
        // Nobody reads on.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => DONE,
        Err(error) => told(&error),
    }
}

fn told(error: &io::Error) -> u8 {
    console::error(
        format_args!("cannot write to standard output: {error}"),
        None,
    );
    FAILED
}

//! `tidegate doctor`: what was found on this machine.

use std::io::{self, Write};

use tidegate::Session;

use crate::exit::{DONE, FAILED};
use crate::failure::Failure;
use crate::{console, environment};

/// Prints the version, the session's report and what hides devices; returns the exit status.
pub(crate) fn run(session: &Session) -> u8 {
    match print(session, &mut io::stdout().lock()).map_err(Failure::output) {
        Ok(()) | Err(Failure::OutputClosed) => DONE,
        Err(failure) => {
            console::error(failure, None);
            FAILED
        }
    }
}

fn print(session: &Session, output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "tidegate    {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(output, "{}", session.doctor().to_string().trim_end())?;
    if let Some(visible) = environment::visible_devices() {
        writeln!(output, "environment CUDA_VISIBLE_DEVICES={visible}")?;
    }
    output.flush()
}

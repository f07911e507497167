//! `tidegate kernel`: a query's CUDA kernels, compiled, and what each needs of a GPU.

use std::io::{self, Write};

use tidegate::{CompiledKernel, KernelReport, Session};

use crate::args::KernelArgs;
use crate::console;
use crate::exit::{DONE, FAILED};
use crate::failure::Failure;

/// The columns of the table.
const COLUMNS: [&str; 7] = [
    "region",
    "kernel",
    "registers",
    "spill bytes",
    "stack bytes",
    "cubin bytes",
    "ms",
];

/// Compiles the kernels of a query and prints a line for each; returns the exit status.
pub(crate) async fn run(session: &Session, asked: &KernelArgs) -> u8 {
    match tell(session, asked).await {
        Ok(()) | Err(Failure::OutputClosed) => DONE,
        Err(failure) => {
            console::error(failure, None);
            FAILED
        }
    }
}

async fn tell(session: &Session, asked: &KernelArgs) -> Result<(), Failure> {
    let reports = session.kernels(&asked.query).await?;
    let mut output = io::stdout().lock();
    for report in &reports {
        describe(report, asked.source, &mut output).map_err(Failure::output)?;
    }
    if reports.is_empty() {
        console::note("no part of the query could run on a GPU, so there is no kernel");
    }
    if reports.iter().all(|report| report.kernel.is_err()) {
        return output.flush().map_err(Failure::output);
    }
    let compiler = session.kernel_compiler()?;
    let mut rows = vec![COLUMNS.map(str::to_string)];
    for report in &reports {
        if let Ok(kernel) = &report.kernel {
            let compiled = compiler.compile(kernel, &asked.arch.0)?;
            rows.extend(lines(report.region, &compiled));
        }
    }
    print(&rows, &mut output).map_err(Failure::output)
}

/// Says what a region is, and why it has no kernel if it has none.
fn describe(report: &KernelReport, source: bool, output: &mut impl Write) -> io::Result<()> {
    let program = report.program.as_deref().unwrap_or("no program");
    writeln!(output, "region {}: {program}", report.region)?;
    match &report.kernel {
        Ok(kernel) => {
            writeln!(output, "  into: {}", kernel.store)?;
            if source {
                writeln!(output, "\n{}", kernel.text.trim_end())?;
            }
        }
        Err(why) => writeln!(output, "  no kernel: {why}")?,
    }
    writeln!(output)
}

/// Writes a line for each function of a kernel; the first has what the kernel has as a whole.
fn lines(region: u64, compiled: &CompiledKernel) -> Vec<[String; 7]> {
    let mut whole = Some((compiled.image_bytes, compiled.milliseconds));
    let line = |entry: &tidegate::EntryPoint| {
        let (bytes, milliseconds) = match whole.take() {
            Some((bytes, milliseconds)) => (console::count(bytes), format!("{milliseconds:.1}")),
            None => Default::default(),
        };
        [
            region.to_string(),
            entry.name.clone(),
            entry.registers.to_string(),
            entry.spill_bytes.to_string(),
            entry.stack_bytes.to_string(),
            bytes,
            milliseconds,
        ]
    };
    compiled.entry_points.iter().map(line).collect()
}

/// Prints rows with their columns below each other: names to the left, numbers to the right.
fn print(rows: &[[String; 7]], output: &mut impl Write) -> io::Result<()> {
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
            let padded = match COLUMNS[column] {
                "kernel" => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            };
            line.push_str(&padded);
            line.push_str("  ");
        }
        writeln!(output, "{}", line.trim_end())?;
    }
    output.flush()
}

#[cfg(test)]
mod tests;

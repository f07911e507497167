//! The timed runs of each shape, and the table that is printed of them.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tidegate_device::compiler::{Compiler, ImageCache};
use tidegate_device::cuda::{CudaDevice, CudaOptions, DeviceBuffer, Lane, LaunchShape};
use tidegate_device::{DiscoveryOptions, discover};
use tidegate_kernels::CudaPipelineDevice;
use tidegate_kernels::engine::{ResidentChunk, ResidentColumn, Segments};
use tidegate_kernels::groups::fill_float_scales;
use tidegate_kernels::program::{
    DeviceProgram, ProgramOptions, RadixLimits, Sink, Slot, StoreLimits, generate,
};
use tidegate_kernels::rows::write_rows;
use tidegate_kernels::table::GroupTable;

use crate::answer::{self, Answer};
use crate::columns::{Column, Values, zipf_quantiles};
use crate::finish;
use crate::load;
use crate::shapes::{self, Shape};

/// What H200 reads from its memory at most, in bytes a second, measured.
const READ_RATE: f64 = 4.6e12;

#[derive(Parser)]
pub(crate) struct Args {
    /// Rows of every shape.
    #[arg(long, default_value_t = 500_000_000)]
    pub(crate) rows: u64,
    /// Only shapes whose name contains this.
    #[arg(long, default_value = "")]
    pub(crate) shape: String,
    /// Timed runs of each shape; the median is printed.
    #[arg(long, default_value_t = 7)]
    pub(crate) runs: usize,
    /// Threads of a block.
    #[arg(long, default_value_t = 256)]
    threads: u32,
    /// Bytes of loads that each thread has in flight, if not what suits the store.
    #[arg(long)]
    load_bytes: Option<u32>,
    /// Bits of a partition's number where rows are sorted by partition.
    #[arg(long, default_value_t = 9)]
    way_bits: u32,
    /// KiB of shared memory for a block's own table where they are.
    #[arg(long, default_value_t = 190)]
    table_kib: u64,
    /// Keys that a block adds up by itself where they are.
    #[arg(long, default_value_t = RadixLimits::default().hot_keys)]
    hot_keys: u32,
    /// Rows of the tables that are loaded from the host's memory.
    #[arg(long, default_value_t = 100_000_000)]
    pub(crate) load_rows: usize,
    /// Threads that load them, if not a quarter more than there are cores.
    #[arg(long)]
    pub(crate) load_threads: Option<usize>,
    /// MiB of their rows that are in flight at once when they are streamed, several to be compared.
    #[arg(long, value_delimiter = ',', default_values_t = [64])]
    pub(crate) in_flight_mib: Vec<u64>,
    /// Where NVRTC is, if the loader does not know.
    #[arg(long)]
    nvrtc: Option<PathBuf>,
    /// Leaves the answers unchecked.
    #[arg(long)]
    pub(crate) unchecked: bool,
    /// Only compiles the kernels, for an architecture as `sm_90`, and tells how long each took the
    /// first time and how long in the median of the other runs; needs no GPU, but `--nvrtc`.
    #[arg(long)]
    compile: Option<String>,
    /// Prints each kernel's source.
    #[arg(long)]
    source: bool,
}

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Times what the command line asks for; its first word is the program's name. Prints help, or the
/// mistake in it, and ends the process.
pub fn start(arguments: Vec<OsString>) -> ExitCode {
    match run(Args::parse_from(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "whoever started it has to know")]
            {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "a table is what this program is for")]
fn run(args: Args) -> Result<(), Failure> {
    if let (Some(architecture), Some(place)) = (&args.compile, &args.nvrtc) {
        let compiler = Compiler::open(place)?;
        for shape in shapes::shapes()? {
            if !shape.name.contains(&args.shape) {
                continue;
            }
            let program = program_of(&shape, &args)?;
            if args.source {
                println!("{}", program.text);
            }
            let mut times = Vec::new();
            let mut log = String::new();
            for _ in 0..=args.runs {
                let began = std::time::Instant::now();
                let compiled = compiler.compile("pipeline.cu", &program.text, architecture, &[])?;
                times.push(began.elapsed().as_secs_f64() * 1e3);
                log = compiled.log;
            }
            let first = times.remove(0);
            times.sort_by(f64::total_cmp);
            let again = times.get(times.len() / 2).copied().unwrap_or(first);
            println!(
                "{:<34} {first:>8.1} ms, again {again:.1} ms\n{log}",
                shape.name
            );
        }
        return Ok(());
    }
    let found = discover(&DiscoveryOptions::default());
    let device = found
        .cuda
        .iter()
        .find(|found| found.why_not.is_none())
        .ok_or_else(|| found.why_none())?;
    let place = args
        .nvrtc
        .clone()
        .or(found.nvrtc.clone())
        .ok_or("no NVRTC")?;
    let compiler = Compiler::open(&place)?;
    let architecture = compiler.architecture(device.capability);
    let options = CudaOptions::default();
    let cuda = CudaDevice::open(device.ordinal, device.info.clone(), &options)?;
    println!(
        "{} ({architecture}), {} rows, median of {}",
        device.info.name, args.rows, args.runs
    );
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>8} {:>8} {:>6} {:>10}  answer",
        "shape", "ms", "target", "cuDF", "stored", "plain", "share", "compile"
    );
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>8} {:>8} {:>6} {:>10}",
        "", "", "ms", "ms", "GB/s", "GB/s", "", "ms"
    );
    let pipelines = CudaPipelineDevice::new(cuda, ImageCache::new(compiler, None), architecture);
    let args = Arc::new(args);
    for shape in shapes::shapes()? {
        if !shape.name.contains(&args.shape) {
            continue;
        }
        let name = shape.name.clone();
        let (target, cudf) = (shape.target, shape.cudf);
        let description = shape.description();
        let (row_bits, plain_bits) = (shape.row_bits(), 8 * shape.plain_row_bytes);
        let (device, args_of) = (pipelines.clone(), Arc::clone(&args));
        let timed = pipelines
            .device()
            .submit(move |lane| time(&device, lane, shape, &args_of));
        let timed = match futures::executor::block_on(timed)
            .map_err(Failure::from)
            .and_then(|timed| timed)
        {
            Ok(timed) => timed,
            Err(error) => {
                println!("{name:<34} failed: {error}");
                continue;
            }
        };
        let or_none = |figure: Option<f64>| {
            figure.map_or_else(|| "-".into(), |figure| format!("{figure:.1}"))
        };
        let rate = |bits: u64| (bits * args.rows) as f64 / 8e9 / timed.seconds;
        println!(
            "{name:<34} {:>9.3} {:>9} {:>9} {:>8.0} {:>8.0} {:>5.0}% {:>10.1}  {} [{}, {} regs, {} B local, min {:.3}, max {:.3}]\n    {description}",
            timed.seconds * 1e3,
            or_none(target),
            or_none(cudf),
            rate(row_bits),
            rate(plain_bits),
            rate(row_bits) * 1e9 / READ_RATE * 100.0,
            timed.compile_seconds * 1e3,
            timed.answer,
            timed.store,
            timed.registers,
            timed.local_bytes,
            timed.least * 1e3,
            timed.most * 1e3,
        );
    }
    finish::run(&pipelines, &args)?;
    load::run(&pipelines, &args)
}

struct Timed {
    seconds: f64,
    least: f64,
    most: f64,
    compile_seconds: f64,
    answer: String,
    store: &'static str,
    registers: u32,
    local_bytes: u32,
}

fn program_of(shape: &Shape, args: &Args) -> Result<DeviceProgram, Failure> {
    let facts = |slot: &Slot| match slot.expr.kind {
        tidegate_pipeline::ExprKind::Column(index) => shape.columns[index].facts(),
        _ => shape.columns[0].facts(),
    };
    let options = ProgramOptions {
        threads: args.threads,
        load_bytes: args.load_bytes,
        limits: StoreLimits {
            rows: args.rows,
            radix: RadixLimits {
                way_bits: args.way_bits,
                table_bytes: args.table_kib << 10,
                hot_keys: args.hot_keys,
                ..RadixLimits::default()
            },
            ..StoreLimits::default()
        },
        ..ProgramOptions::default()
    };
    let mut program = generate(&shape.pipeline, &facts, &options)?;
    if let Sink::Groups(plan) = &program.sink {
        fill_float_scales(plan, &mut program.literals);
    }
    Ok(program)
}

fn time(
    device: &CudaPipelineDevice,
    lane: &Lane<'_>,
    shape: Shape,
    args: &Args,
) -> Result<Timed, Failure> {
    let program = program_of(&shape, args)?;
    if args.source {
        #[expect(clippy::print_stdout, reason = "asked for")]
        {
            println!("{}", program.text);
        }
    }
    let began = std::time::Instant::now();
    let engine = device.engine(lane, &program)?;
    let compile_seconds = began.elapsed().as_secs_f64();
    let facts = lane.kernel_facts(engine.kernel(program.kernel_names()[0])?)?;
    let order: Vec<usize> = program
        .slots
        .iter()
        .map(|(slot, _)| match slot.expr.kind {
            tidegate_pipeline::ExprKind::Column(index) => index,
            _ => 0,
        })
        .collect();
    let quantiles = shape
        .columns
        .iter()
        .find_map(|column| match column.values {
            Values::Zipf { count } => Some(zipf_quantiles(count)),
            _ => None,
        })
        .unwrap_or_default();
    let mut buffers = Vec::new();
    let mut resident = Vec::new();
    for index in &order {
        let column = &shape.columns[*index];
        let buffer = fill(device, lane, "fill", column, args.rows, &quantiles)?;
        let mut validity = 0;
        if column.null_every > 0 {
            let nulls = fill(device, lane, "mark_nulls", column, args.rows, &quantiles)?;
            validity = nulls.address();
            buffers.push(nulls);
        }
        resident.push(ResidentColumn {
            values: buffer.address(),
            validity,
            base: column.base,
            factor: column.factor,
            width: column.width,
        });
        buffers.push(buffer);
    }
    let chunks = [ResidentChunk {
        num_rows: args.rows,
        columns: resident,
    }];
    let segments = Segments::of(&program, &chunks);
    let mut seconds = Vec::new();
    let mut answer = None;
    for run in 0..=args.runs {
        let from = lane.mark()?;
        let found = match &program.sink {
            Sink::Rows(columns) => {
                let rows = write_rows(&engine, &program, columns, &segments)?;
                let to = lane.mark()?;
                (to, Answer::Rows(rows.num_rows))
            }
            Sink::Groups(plan) => {
                let mut table = GroupTable::new(&engine, &program, plan, None)?;
                table.fold(&engine, &program, &segments)?;
                let to = lane.mark()?;
                let answer = if run == args.runs && !args.unchecked {
                    Answer::Groups(table.read(&engine)?)
                } else {
                    Answer::None
                };
                (to, answer)
            }
        };
        let taken = lane.elapsed_seconds(&from, &found.0)?;
        // The first run loads code and touches memory for the first time.
        if run > 0 {
            seconds.push(taken);
        }
        answer = Some(found.1);
    }
    seconds.sort_by(f64::total_cmp);
    let store = match &program.sink {
        Sink::Rows(_) => "rows",
        Sink::Groups(plan) => plan.store.name(),
    };
    let answer = match answer {
        Some(answer) if !args.unchecked => answer::check(&shape, &answer, args.rows, &quantiles),
        _ => "unchecked".into(),
    };
    drop(buffers);
    Ok(Timed {
        seconds: seconds[seconds.len() / 2],
        least: seconds[0],
        most: seconds[seconds.len() - 1],
        compile_seconds,
        answer,
        store,
        registers: facts.registers,
        local_bytes: facts.local_bytes,
    })
}

/// Fills a column on the device, or with `mark_nulls` its validity.
pub(crate) fn fill(
    device: &CudaPipelineDevice,
    lane: &Lane<'_>,
    kernel: &str,
    column: &Column,
    rows: u64,
    quantiles: &[u32],
) -> Result<DeviceBuffer, Failure> {
    const SOURCE: &str = include_str!("generate.cu");
    let padded = rows.next_multiple_of(32);
    let (bytes, count) = match kernel {
        "mark_nulls" => (padded / 8, column.null_every),
        _ => (padded * u64::from(column.width), column.count()),
    };
    let buffer = lane.alloc(bytes)?;
    let image = device
        .images()
        .get("generate.cu", SOURCE, device.architecture(), &[])?;
    let module = lane.load(&image.image)?;
    let kernel = lane.kernel(&module, kernel)?;
    let table = lane.alloc((quantiles.len() * 4) as u64)?;
    let bytes: Vec<u8> = quantiles
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    lane.upload(&table, 0, &bytes)?;
    let words = [
        buffer.address(),
        rows,
        0,
        column.seed,
        column.kind(),
        u64::from(column.width),
        count,
        column.stored_low(),
        table.address(),
    ];
    let parameters: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let shape = LaunchShape {
        blocks: 4096,
        threads: 256,
        shared_bytes: 0,
    };
    lane.launch(&kernel, shape, &parameters)?;
    lane.synchronize()?;
    Ok(buffer)
}

//! Random arrays, on the host and on a GPU: the bits that both give, and how fast they are.
//!
//! `sum(x + 1)` over N(10, 1) of 500,000 by 500,000 in chunks of 10,000 by 10,000 is the shape of the
//! Dask walkthroughs, whole and with every second index of both dimensions.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use clap::Parser;
use tidegate_device::compiler::{Compiler, ImageCache};
use tidegate_device::cuda::{CudaDevice, CudaOptions, Lane, LaunchShape};
use tidegate_device::{DiscoveryOptions, discover};
use tidegate_kernels::CudaPipelineDevice;
use tidegate_kernels::groups::{Groups, fill_float_scales};
use tidegate_kernels::program::{
    DeviceProgram, Generated, GeneratedColumn, ProgramOptions, Sink, generate, roots_kernel,
    value_type, values_kernel,
};
use tidegate_kernels::random::{Array, Part, Simd, Span, ValueKind, Values};
use tidegate_kernels::table::GroupTable;
use tidegate_pipeline::{AggregateOutput, Pipeline};

use crate::shapes;

mod host;

#[derive(Parser)]
struct Args {
    /// Length of both dimensions.
    #[arg(long, default_value_t = 500_000)]
    length: u64,
    /// Length of a chunk in both dimensions.
    #[arg(long, default_value_t = 10_000)]
    chunk: u64,
    /// Threads of a block, several to be compared.
    #[arg(long, value_delimiter = ',', default_values_t = [256])]
    threads: Vec<u32>,
    /// Bytes of values that a thread makes at once, several to be compared.
    #[arg(long, value_delimiter = ',', default_values_t = [16])]
    bytes: Vec<u32>,
    /// Values that are compared bit for bit between host and device, in millions.
    #[arg(long, default_value_t = 1000)]
    compared: u64,
    /// Timed runs; the best is printed beside the median.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Where NVRTC is, if the loader does not know.
    #[arg(long)]
    nvrtc: Option<PathBuf>,
    /// Only measures the host.
    #[arg(long)]
    host: bool,
    /// Only compiles the kernels, for an architecture as `sm_90`, into files of the working folder;
    /// needs no GPU, but `--nvrtc`.
    #[arg(long)]
    compile: Option<String>,
    /// Prints each kernel's source.
    #[arg(long)]
    source: bool,
}

type Failure = Box<dyn Error + Send + Sync>;

const NORMAL: Values = Values::Normal {
    location: 10.0,
    scale: 1.0,
};

/// Measures what the command line asks for; its first word is the program's name. Prints help, or the
/// mistake in it, and ends the process.
pub fn start_arrays(arguments: Vec<OsString>) -> ExitCode {
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
        return compile(&args, architecture, &Compiler::open(place)?);
    }
    host::print_rates()?;
    if args.host {
        return Ok(());
    }
    let found = discover(&DiscoveryOptions::default());
    let device = found
        .cuda
        .iter()
        .find(|found| found.why_not.is_none())
        .ok_or_else(|| found.why_none())?;
    let place = args.nvrtc.clone().or(found.nvrtc.clone());
    let compiler = Compiler::open(&place.ok_or("no NVRTC")?)?;
    let architecture = compiler.architecture(device.capability);
    let options = CudaOptions::default();
    let cuda = CudaDevice::open(device.ordinal, device.info.clone(), &options)?;
    println!("{} ({architecture})", device.info.name);
    let device = CudaPipelineDevice::new(cuda, ImageCache::new(compiler, None), architecture);
    let args = Arc::new(args);
    let (device_of, args_of) = (device.clone(), Arc::clone(&args));
    let compared = device
        .device()
        .submit(move |lane| compare_bits(&device_of, lane, args_of.compared * 1_000_000));
    println!("{}", futures::executor::block_on(compared)??);
    let device_of = device.clone();
    let roots = device
        .device()
        .submit(move |lane| check_roots(&device_of, lane));
    println!("{}", futures::executor::block_on(roots)??);
    for (name, step, singles) in [
        ("whole", 1, false),
        ("every second of both", 2, false),
        ("every third of both", 3, false),
        ("whole in singles", 1, true),
        ("every second in singles", 2, true),
    ] {
        for threads in &args.threads {
            for bytes in &args.bytes {
                let (device_of, args_of) = (device.clone(), Arc::clone(&args));
                let shape = LaunchedShape {
                    step,
                    singles,
                    threads: *threads,
                    bytes: *bytes,
                };
                let timed = device
                    .device()
                    .submit(move |lane| time(&device_of, lane, &args_of, shape));
                let timed = futures::executor::block_on(timed)??;
                println!("{name:<22} {threads} threads, {bytes} bytes: {timed}");
            }
        }
    }
    Ok(())
}

/// Writes each kernel's source and machine code.
#[expect(clippy::print_stdout, reason = "a report is what was asked for")]
fn compile(args: &Args, architecture: &str, compiler: &Compiler) -> Result<(), Failure> {
    for (step, singles) in [(1, false), (2, false), (3, false), (1, true)] {
        for (threads, bytes) in args.threads.iter().zip(&args.bytes) {
            let shape = LaunchedShape {
                step,
                singles,
                threads: *threads,
                bytes: *bytes,
            };
            let program = headline(args, shape)?.1;
            let kind = if singles { "singles" } else { "doubles" };
            let name = format!("arrays-{kind}-{step}-{threads}-{bytes}");
            let compiled = compiler.compile(&name, &program.text, architecture, &[])?;
            std::fs::write(format!("{name}.cu"), &*program.text)?;
            std::fs::write(format!("{name}.cubin"), &compiled.image)?;
            println!("{name}\n{}", compiled.log);
        }
    }
    Ok(())
}

/// What is timed.
#[derive(Clone, Copy)]
struct LaunchedShape {
    step: u64,
    singles: bool,
    threads: u32,
    bytes: u32,
}

/// Returns the program of `sum(x + 1)`.
fn headline(args: &Args, shape: LaunchedShape) -> Result<(Arc<Generated>, DeviceProgram), Failure> {
    let LaunchedShape {
        step,
        singles,
        threads,
        bytes,
    } = shape;
    let mut array = Array::try_new(vec![args.length; 2], NORMAL, 42)?;
    if singles {
        array = array.in_singles();
    }
    let value = value_type(&array);
    let pipeline = shapes::sum_plus_one(value, AggregateOutput::Value)?;
    let source = Arc::new(Generated {
        array,
        columns: vec![GeneratedColumn::Value],
        step,
        short_runs: false,
    });
    let program = program_of(&pipeline, &source, threads, bytes)?;
    Ok((source, program))
}

/// Compares values of random seeds from random indices on, bit for bit.
fn compare_bits(
    device: &CudaPipelineDevice,
    lane: &Lane<'_>,
    compared: u64,
) -> Result<String, Failure> {
    const PIECE: u64 = 1 << 24;
    let buffer = lane.alloc(PIECE * 8)?;
    let mut bytes = vec![0_u8; PIECE as usize * 8];
    let (mut done, mut different, mut first_difference) = (0, 0_u64, None);
    let mut piece = 0_u64;
    while done < compared {
        let seed = crate::columns::mix(piece + 1);
        let first = crate::columns::mix(seed) >> 2 & !63;
        let values = match piece % 4 {
            0 | 1 => NORMAL,
            2 => Values::Uniform {
                low: -3.0,
                width: 1e6,
            },
            _ => Values::Normal {
                location: -0.1,
                scale: 3e-7,
            },
        };
        let mut array = Array::try_new(vec![1 << 62], values, seed)?;
        if piece % 8 > 3 {
            array = array.in_singles();
        }
        let kernel = values_kernel(&array);
        let image = device
            .images()
            .get("values.cu", &kernel.text, device.architecture(), &[])?;
        let module = lane.load(&image.image)?;
        let entry = lane.kernel(&module, "write_values")?;
        let mut words = vec![buffer.address(), first, PIECE];
        words.extend(&kernel.literals);
        let parameters: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let shape = LaunchShape {
            blocks: 1056,
            threads: 256,
            shared_bytes: 0,
        };
        lane.launch(&entry, shape, &parameters)?;
        lane.download(&buffer, 0, &mut bytes)?;
        let differences = differences(&array, first, &bytes);
        for (count, first) in differences {
            different += count;
            first_difference = first_difference.or(first.map(|index| (seed, index)));
        }
        done += PIECE;
        piece += 1;
    }
    Ok(format!(
        "bits: {done} values of {piece} seeds, {different} differ{}",
        first_difference.map_or(String::new(), |(seed, index)| {
            format!(", the first of seed {seed} at {index}")
        })
    ))
}

/// Counts the square roots of all radii of singles that the device does not round correctly.
fn check_roots(device: &CudaPipelineDevice, lane: &Lane<'_>) -> Result<String, Failure> {
    let text = roots_kernel(&Array::try_new(vec![64], NORMAL, 0)?.in_singles());
    let images = device.images();
    let image = images.get("roots.cu", &text, device.architecture(), &[])?;
    let module = lane.load(&image.image)?;
    let entry = lane.kernel(&module, "check_roots")?;
    let buffer = lane.alloc(8)?;
    lane.fill(&buffer, 0, 8, 0)?;
    let shape = LaunchShape {
        blocks: 1056,
        threads: 256,
        shared_bytes: 0,
    };
    lane.launch(&entry, shape, &buffer.address().to_le_bytes())?;
    let mut different = [0; 8];
    lane.download(&buffer, 0, &mut different)?;
    let different = u64::from_le_bytes(different);
    Ok(format!(
        "roots: all 2147483648 radii of singles, {different} not rounded correctly"
    ))
}

/// Returns how many values differ from the host's, and the first of them, of each piece of the bytes.
fn differences(array: &Array, first: u64, bytes: &[u8]) -> Vec<(u64, Option<u64>)> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let is_single = array.kind() == ValueKind::Single;
    // Singles fill half of the buffer.
    let width = if is_single { 4 } else { 8 };
    let bytes = &bytes[..bytes.len() / 8 * width];
    let per_thread = (bytes.len() / width).div_ceil(threads).next_multiple_of(64);
    thread::scope(|scope| {
        let workers: Vec<_> = bytes
            .chunks(per_thread * width)
            .enumerate()
            .map(|(worker, bytes)| {
                scope.spawn(move || {
                    let from = first + (worker * per_thread) as u64;
                    let own = own_bytes(array, from, bytes.len() / width);
                    let both = bytes.chunks(width).zip(own.chunks(width)).enumerate();
                    let mut different = both.filter(|(_, (found, own))| found != own);
                    let first = different.next().map(|(at, _)| from + at as u64);
                    (u64::from(first.is_some()) + different.count() as u64, first)
                })
            })
            .collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or((1, None)));
        joined.collect()
    })
}

/// Makes values on the host, as bytes.
fn own_bytes(array: &Array, from: u64, count: usize) -> Vec<u8> {
    let (values, stream, simd) = (array.values(), array.stream(), Simd::widest());
    if array.kind() == ValueKind::Single {
        let mut own = vec![0.0; count];
        values.fill_singles(simd, stream, from, 1, &mut own);
        return own.into_iter().flat_map(f32::to_le_bytes).collect();
    }
    let mut own = vec![0.0; count];
    values.fill(simd, stream, from, 1, &mut own);
    own.into_iter().flat_map(f64::to_le_bytes).collect()
}

fn program_of(
    pipeline: &Pipeline,
    source: &Arc<Generated>,
    threads: u32,
    bytes: u32,
) -> Result<DeviceProgram, Failure> {
    let options = ProgramOptions {
        threads,
        load_bytes: Some(bytes),
        generated: Some(Arc::clone(source)),
        ..ProgramOptions::default()
    };
    let facts = |slot: &_| source.facts(slot);
    let mut program = generate(pipeline, &facts, &options)?;
    if let Sink::Groups(plan) = &program.sink {
        fill_float_scales(plan, &mut program.literals);
    }
    Ok(program)
}

/// The chunks of the array, with every `step`-th index of both dimensions.
fn parts(args: &Args, step: u64) -> Vec<Part> {
    let all = Span {
        start: 0,
        step,
        count: args.length.div_ceil(step),
    };
    let starts = || (0..args.length).step_by(args.chunk as usize);
    let chunk = |start: u64| all.within(start..(start + args.chunk).min(args.length));
    starts()
        .flat_map(|row| {
            starts().map(move |column| Part {
                spans: vec![chunk(row), chunk(column)],
            })
        })
        .collect()
}

fn time(
    device: &CudaPipelineDevice,
    lane: &Lane<'_>,
    args: &Args,
    shape: LaunchedShape,
) -> Result<String, Failure> {
    let (source, program) = headline(args, shape)?;
    if args.source {
        #[expect(clippy::print_stdout, reason = "asked for")]
        {
            println!("{}", program.text);
        }
    }
    let Sink::Groups(plan) = &program.sink else {
        return Err("no groups".into());
    };
    let engine = device.engine(lane, &program)?;
    let facts = lane.kernel_facts(engine.kernel("fold")?)?;
    let parts = parts(args, shape.step);
    // A table takes 2^31 rows.
    let per_table = ((1_u64 << 31) / parts[0].num_values().max(1)).max(1) as usize;
    let mut seconds = Vec::new();
    let mut answer = (0.0, 0);
    for run in 0..=args.runs {
        let began = Instant::now();
        let mut tables = Vec::new();
        for parts in parts.chunks(per_table) {
            let segments = source.segments(&program.slots, program.tile_rows, parts)?;
            let mut table = GroupTable::new(&engine, &program, plan, None)?;
            table.fold(&engine, &program, &segments)?;
            tables.push(table.read(&engine)?);
        }
        let groups = Groups::merged(tables);
        if run > 0 {
            seconds.push(began.elapsed().as_secs_f64());
        }
        answer = (groups.sum_of(0, 0).ok_or("no sum")?, groups.count_of(1, 0));
    }
    seconds.sort_by(f64::total_cmp);
    let expected: u64 = parts.iter().map(Part::num_values).sum();
    let mean = answer.0 / answer.1 as f64;
    let checked = if answer.1 == expected && (mean - 11.0).abs() < 6.0 / (expected as f64).sqrt() {
        "ok"
    } else {
        "WRONG"
    };
    Ok(format!(
        "best {:.4} s, median {:.4} s, {:.3e} values/s, sum {:.17e} of {} [{} regs, {} B local] {checked}",
        seconds[0],
        seconds[seconds.len() / 2],
        expected as f64 / seconds[0],
        answer.0,
        answer.1,
        facts.registers,
        facts.local_bytes
    ))
}

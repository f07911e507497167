//! The cache over a compiler that only counts, and NVRTC itself where there is one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_needs::Need;

use super::cache::ImageCache;
use super::{CompileError, Compiled, Compiler};
use crate::threads::Threads;

const ARCHITECTURE: &str = "sm_90";

/// A compiler that takes its time, and fails for the source `bad`.
#[derive(Clone, Default)]
struct Slow {
    count: Arc<AtomicU64>,
    is_broken: Arc<AtomicBool>,
}

impl Slow {
    fn cache(&self, folder: Option<PathBuf>) -> ImageCache {
        let slow = self.clone();
        let compile = move |name: &str, source: &str, _: &str, _: &[&str]| {
            slow.count.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(50));
            if slow.is_broken.load(Ordering::Relaxed) {
                return Err(CompileError::Rejected {
                    name: name.to_owned(),
                    why: "bad".to_owned(),
                    log: "line 1".to_owned(),
                });
            }
            Ok(Compiled {
                image: source.as_bytes().to_vec(),
                log: String::new(),
            })
        };
        ImageCache::over((13, 0), Threads::new("test", 2), Box::new(compile), folder)
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

fn get(cache: &ImageCache, source: &str) -> Result<Arc<Compiled>, CompileError> {
    cache.get("k.cu", source, ARCHITECTURE, &[])
}

#[test]
fn requests_at_the_same_time_compile_once() {
    let slow = Slow::default();
    let cache = slow.cache(None);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(get(&cache, "a").unwrap().image, b"a"));
        }
    });
    assert_eq!(slow.count(), 1);
    let counters = cache.counters();
    assert_eq!((counters.compiled, counters.memory_hits), (1, 7));
    assert!(counters.compile_seconds >= 0.05);
}

#[test]
fn another_process_finds_what_is_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let slow = Slow::default();
    get(&slow.cache(Some(folder.path().into())), "a").unwrap();
    let second = slow.cache(Some(folder.path().into()));
    assert_eq!(get(&second, "a").unwrap().image, b"a");
    get(&second, "a").unwrap();
    let counters = second.counters();
    assert_eq!((counters.disk_hits, counters.memory_hits), (1, 1));
    assert_eq!((slow.count(), second.disk_trouble()), (1, None));
}

#[test]
fn a_folder_that_cannot_be_used_leaves_memory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let slow = Slow::default();
    let cache = slow.cache(Some(file.path().into()));
    get(&cache, "a").unwrap();
    get(&cache, "a").unwrap();
    assert_eq!(slow.count(), 1);
    assert!(cache.disk_trouble().is_some());
}

#[test]
fn peeking_never_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let slow = Slow::default();
    let cache = slow.cache(Some(folder.path().into()));
    assert_eq!(cache.peek("a", ARCHITECTURE, &[]), None);
    assert_eq!(slow.count(), 0);
    get(&cache, "a").unwrap();
    assert!(cache.peek("a", ARCHITECTURE, &[]).is_some());
    assert_eq!(cache.peek("a", ARCHITECTURE, &["-DN=1"]), None);
    let second = slow.cache(Some(folder.path().into()));
    assert!(second.peek("a", ARCHITECTURE, &[]).is_some());
    assert!(second.peek("a", ARCHITECTURE, &[]).is_some());
    let counters = second.counters();
    assert_eq!((counters.disk_hits, counters.memory_hits), (1, 1));
}

#[test]
fn a_failure_is_tried_again() {
    let slow = Slow::default();
    let cache = slow.cache(None);
    slow.is_broken.store(true, Ordering::Relaxed);
    let error = get(&cache, "a").unwrap_err();
    assert_eq!(error.to_string(), "k.cu does not compile: bad\nline 1");
    assert_eq!(cache.peek("a", ARCHITECTURE, &[]), None);
    slow.is_broken.store(false, Ordering::Relaxed);
    get(&cache, "a").unwrap();
    assert_eq!(slow.count(), 2);
}

#[test]
fn warming_up_compiles_once_in_the_background() {
    let slow = Slow::default();
    let cache = slow.cache(None);
    let first = cache.warm_up(KERNEL.to_owned(), ARCHITECTURE.to_owned());
    let again = cache.clone();
    drop(again.warm_up(KERNEL.to_owned(), ARCHITECTURE.to_owned()));
    // Whoever lets go of it waits, so that no process ends in the compiler.
    drop(first);
    assert_eq!(slow.count(), 1);
}

#[test]
fn no_library_is_no_compiler() {
    let error = Compiler::open("libtidegate-no-nvrtc.so".as_ref()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot use NVRTC at libtidegate-no-nvrtc.so: not found"
    );
    let error = Compiler::open("libc.so.6".as_ref()).unwrap_err();
    assert!(error.to_string().contains("nvrtcVersion"), "{error}");
}

/// Opens this machine's NVRTC. Without one the tests that need it end here, unless they must run.
fn nvrtc() -> Option<Compiler> {
    let named = std::env::var_os("TIDEGATE_NVRTC").map(PathBuf::from);
    let places = match named {
        Some(place) => vec![place],
        None => vec!["libnvrtc.so.13".into(), "libnvrtc.so.12".into()],
    };
    let found = places.iter().find_map(|place| Compiler::open(place).ok());
    if found.is_none() {
        tidegate_needs::skip(Need::Nvrtc, &format!("not at {places:?}"));
    }
    found
}

const KERNEL: &str = r#"
struct Input { const long long *values; unsigned long long num_rows; long long *sum; };
__device__ long long scaled(long long value) { return (long long)(((__int128)value * 3) >> 7); }
extern "C" __global__ void fold(Input input) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long row = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    long long sum = 0;
    for (; row < input.num_rows; row += step) sum += scaled(input.values[row]);
    atomicAdd((unsigned long long *)input.sum, (unsigned long long)sum);
}
"#;

#[test]
fn nvrtc_compiles_to_a_cubin_and_tells_its_registers() {
    let Some(compiler) = nvrtc() else { return };
    println!("{compiler:?}");
    for (run, source) in ["", " ", "  "]
        .map(|end| format!("{KERNEL}{end}"))
        .iter()
        .enumerate()
    {
        let started = Instant::now();
        let compiled = compiler
            .compile("fold.cu", source, ARCHITECTURE, &[])
            .unwrap();
        println!(
            "compile {run}: {:.1} ms",
            started.elapsed().as_secs_f64() * 1e3
        );
        assert!(compiled.image.starts_with(b"\x7fELF"));
        assert!(compiled.log.contains("registers"), "{}", compiled.log);
        assert!(compiled.log.contains("spill"), "{}", compiled.log);
    }
}

#[test]
fn nvrtc_gives_ptx_for_a_virtual_architecture() {
    let Some(compiler) = nvrtc() else { return };
    let future = compiler.architecture((99, 0));
    assert!(future.starts_with("compute_"), "{future}");
    assert_eq!(compiler.architecture((9, 0)), ARCHITECTURE);
    let compiled = compiler.compile("fold.cu", KERNEL, &future, &[]).unwrap();
    let text = String::from_utf8(compiled.image).unwrap();
    assert!(text.contains(".entry fold") && text.ends_with('\0'));
}

#[test]
fn nvrtc_says_what_is_wrong() {
    let Some(compiler) = nvrtc() else { return };
    let error = compiler
        .compile(
            "bad.cu",
            "__global__ void f() { return 1 }",
            ARCHITECTURE,
            &[],
        )
        .unwrap_err();
    let CompileError::Rejected { name, why, log } = error else {
        unreachable!("{error}");
    };
    assert_eq!(
        (name.as_str(), why.as_str()),
        ("bad.cu", "NVRTC_ERROR_COMPILATION")
    );
    assert!(log.contains("bad.cu(1): error"), "{log}");
    let error = compiler.compile("k.cu", "", ARCHITECTURE, &["--no-such"]);
    assert!(error.is_err());
}

#[test]
fn nvrtc_compiles_on_many_threads() {
    let Some(compiler) = nvrtc() else { return };
    let cache = ImageCache::new(compiler, None);
    let _warm_up = cache.warm_up(KERNEL.to_owned(), ARCHITECTURE.to_owned());
    thread::scope(|scope| {
        for i in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                let define = format!("-DTHREAD={i}");
                cache
                    .get("fold.cu", KERNEL, ARCHITECTURE, &[&define])
                    .unwrap()
            });
        }
    });
    assert_eq!(cache.counters().compiled, 4);
}

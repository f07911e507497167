//! NVRTC's functions, and a program of it. Signatures are those of `nvrtc.h`.

#![expect(
    unsafe_code,
    reason = "a library found at run time is called through its symbols"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use libloading::Library;

use crate::discovery::Outcome;
use crate::library::{CallError, open_library, symbol};

type RawProgram = *mut c_void;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type GetCount = unsafe extern "C" fn(*mut c_int) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Create = unsafe extern "C" fn(
    *mut RawProgram,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Destroy = unsafe extern "C" fn(*mut RawProgram) -> c_int;
type Compile = unsafe extern "C" fn(RawProgram, c_int, *const *const c_char) -> c_int;
type GetSize = unsafe extern "C" fn(RawProgram, *mut usize) -> c_int;
type GetText = unsafe extern "C" fn(RawProgram, *mut c_char) -> c_int;

/// The opened library. It stays in the process, and so do its functions.
pub(super) struct Nvrtc {
    pub(super) place: PathBuf,
    pub(super) version: (u32, u32),
    /// The architectures that it compiles for, `90` for compute capability 9.0.
    pub(super) architectures: Vec<u32>,
    error_string: ErrorString,
    create: Create,
    destroy: Destroy,
    compile: Compile,
    log: Output,
    cubin: Output,
    ptx: Output,
    // Kept so that the functions stay where they are, also while the process ends.
    _library: ManuallyDrop<Library>,
    _builtins: Option<ManuallyDrop<Library>>,
}

/// The two functions that give one of a program's results.
#[derive(Clone, Copy)]
struct Output {
    size: GetSize,
    text: GetText,
}

impl Nvrtc {
    pub(super) fn open(place: &Path) -> Result<Self, String> {
        let library = open_library(place.as_os_str()).map_err(|outcome| match outcome {
            Outcome::Failed(why) => why,
            Outcome::NotFound | Outcome::Found(_) => "not found".to_owned(),
        })?;
        // It is never closed: NVRTC may keep threads, and functions of it are kept here.
        let library = ManuallyDrop::new(library);
        Self::look_up(place, library).map_err(|error| error.to_string())
    }

    fn look_up(place: &Path, library: ManuallyDrop<Library>) -> Result<Self, CallError> {
        // SAFETY: in each line the type is that of nvrtc.h's declaration; enums are C ints,
        // nvrtcProgram is a pointer. The library is never closed, so the copied function pointers
        // stay valid.
        let (get_version, error_string, create, destroy, compile) = unsafe {
            (
                *symbol::<Version>(&library, "nvrtcVersion")?,
                *symbol::<ErrorString>(&library, "nvrtcGetErrorString")?,
                *symbol::<Create>(&library, "nvrtcCreateProgram")?,
                *symbol::<Destroy>(&library, "nvrtcDestroyProgram")?,
                *symbol::<Compile>(&library, "nvrtcCompileProgram")?,
            )
        };
        let log = output(&library, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
        let cubin = output(&library, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")?;
        let ptx = output(&library, "nvrtcGetPTXSize", "nvrtcGetPTX")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to live ints, distinct, for the duration of the call.
        let code = unsafe { get_version(&raw mut major, &raw mut minor) };
        crate::library::check("nvrtcVersion", code)?;
        let number = |part: c_int| u32::try_from(part).unwrap_or(0);
        let version = (number(major), number(minor));
        Ok(Self {
            place: place.to_path_buf(),
            version,
            architectures: architectures(&library),
            error_string,
            create,
            destroy,
            compile,
            log,
            cubin,
            ptx,
            _builtins: open_builtins(place, version),
            _library: library,
        })
    }

    fn check(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: any code may be asked for, also an unknown one.
        let text = unsafe { (self.error_string)(code) };
        if text.is_null() {
            return Err(format!("NVRTC failed with {code}"));
        }
        // SAFETY: NVRTC gives a string that ends with a zero and is never freed.
        let text = unsafe { CStr::from_ptr(text) };
        Err(text.to_string_lossy().into_owned())
    }
}

fn output(library: &Library, size: &'static str, text: &'static str) -> Result<Output, CallError> {
    // SAFETY: nvrtc.h declares each pair alike: `nvrtcResult (nvrtcProgram, size_t *)` and
    // `nvrtcResult (nvrtcProgram, char *)`.
    unsafe {
        Ok(Output {
            size: *symbol::<GetSize>(library, size)?,
            text: *symbol::<GetText>(library, text)?,
        })
    }
}

/// Lists the architectures that NVRTC compiles for; none if it does not tell.
fn architectures(library: &Library) -> Vec<u32> {
    // SAFETY: nvrtc.h declares `nvrtcResult nvrtcGetNumSupportedArchs(int *)`.
    let count = unsafe { symbol::<GetCount>(library, "nvrtcGetNumSupportedArchs") };
    // SAFETY: nvrtc.h declares `nvrtcResult nvrtcGetSupportedArchs(int *)`.
    let list = unsafe { symbol::<GetCount>(library, "nvrtcGetSupportedArchs") };
    let (Ok(count), Ok(list)) = (count, list) else {
        return Vec::new();
    };
    let mut number: c_int = 0;
    // SAFETY: `number` is a live int for the duration of the call.
    let code = unsafe { count(&raw mut number) };
    let mut known = vec![0; usize::try_from(number).unwrap_or(0)];
    if code != 0 || known.is_empty() {
        return Vec::new();
    }
    // SAFETY: `known` has room for as many ints as NVRTC said that it writes.
    let code = unsafe { list(known.as_mut_ptr()) };
    if code != 0 {
        return Vec::new();
    }
    known
        .into_iter()
        .filter_map(|arch| u32::try_from(arch).ok())
        .collect()
}

/// Opens the library of built-in functions that lies beside NVRTC. NVRTC itself asks for it by name
/// alone, and the loader knows the name of what is open already.
fn open_builtins(place: &Path, (major, minor): (u32, u32)) -> Option<ManuallyDrop<Library>> {
    let folder = place
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())?;
    let file = folder.join(format!("libnvrtc-builtins.so.{major}.{minor}"));
    open_library(file.as_os_str()).ok().map(ManuallyDrop::new)
}

/// A program that NVRTC holds, destroyed on drop.
pub(super) struct Program<'a> {
    nvrtc: &'a Nvrtc,
    raw: NonNull<c_void>,
}

impl<'a> Program<'a> {
    pub(super) fn new(nvrtc: &'a Nvrtc, name: &str, source: &str) -> Result<Self, String> {
        let zero = |what: &str| format!("its {what} contains a zero byte");
        let source = CString::new(source).map_err(|_| zero("source"))?;
        let name = CString::new(name).map_err(|_| zero("name"))?;
        let mut raw: RawProgram = ptr::null_mut();
        // SAFETY: both strings end with a zero and outlive the call, which copies them; without
        // headers their arrays may be null.
        let code = unsafe {
            (nvrtc.create)(
                &raw mut raw,
                source.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        nvrtc.check(code)?;
        let raw = NonNull::new(raw).ok_or("NVRTC returned no program")?;
        Ok(Self { nvrtc, raw })
    }

    pub(super) fn compile(&self, options: &[String]) -> Result<(), String> {
        let options = options
            .iter()
            .map(|option| CString::new(option.as_str()))
            .collect::<Result<Vec<CString>, _>>()
            .map_err(|_| "an option contains a zero byte".to_owned())?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|_| "too many options".to_owned())?;
        // SAFETY: the program lives as long as `self`; there are `count` pointers, to strings that
        // end with a zero and outlive the call.
        let code = unsafe { (self.nvrtc.compile)(self.raw.as_ptr(), count, pointers.as_ptr()) };
        self.nvrtc.check(code)
    }

    /// Returns what the compiler said, as far as it can be had.
    pub(super) fn log(&self) -> String {
        let bytes = self.output(self.nvrtc.log).unwrap_or_default();
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        text.to_string_lossy().trim().to_owned()
    }

    pub(super) fn cubin(&self) -> Result<Vec<u8>, String> {
        let image = self.output(self.nvrtc.cubin)?;
        if image.is_empty() {
            return Err("NVRTC returned no code".to_owned());
        }
        Ok(image)
    }

    /// Returns PTX, which is text that ends with a zero.
    pub(super) fn ptx(&self) -> Result<Vec<u8>, String> {
        self.output(self.nvrtc.ptx)
    }

    fn output(&self, output: Output) -> Result<Vec<u8>, String> {
        let mut size: usize = 0;
        // SAFETY: the program lives as long as `self`, and `size` for the duration of the call.
        let code = unsafe { (output.size)(self.raw.as_ptr(), &raw mut size) };
        self.nvrtc.check(code)?;
        let mut bytes = vec![0u8; size];
        if size == 0 {
            return Ok(bytes);
        }
        // SAFETY: `bytes` has room for as many bytes as NVRTC said that it writes.
        let code = unsafe { (output.text)(self.raw.as_ptr(), bytes.as_mut_ptr().cast()) };
        self.nvrtc.check(code)?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        let mut raw: RawProgram = self.raw.as_ptr();
        // SAFETY: the program was created by this library and is destroyed only here. The result
        // tells only of handles that are none.
        let _ = unsafe { (self.nvrtc.destroy)(&raw mut raw) };
    }
}

//! The CUDA driver behind a safe surface: cards, memory, launches, graphs.
//!
//! The bindings open the driver's library when they first need it and panic where it is missing, so
//! [`Card::open`] asks first. A card is opened once per process and never closed; everything made
//! on it holds it.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys;

use super::kernels::{self, Source};
use super::memory::Sets;
use super::table::Plain;
use crate::error::{Error, Result};

/// Names of the driver's library, in the order in which they are tried.
#[cfg(not(windows))]
const DRIVER: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
#[cfg(windows)]
const DRIVER: [&str; 1] = ["nvcuda.dll"];

/// Shared memory that a block gets without asking.
const SHARED_BY_DEFAULT: u32 = 48 << 10;

/// Opens the first of these libraries and leaves it open; else says what was looked for.
pub(super) fn open_library(names: &[String]) -> std::result::Result<(), String> {
    let mut problems = Vec::new();
    for name in names {
        // SAFETY: the libraries named here run no code when they are opened that minds where or
        // when.
        match unsafe { libloading::Library::new(name) } {
            Ok(library) => {
                std::mem::forget(library);
                return Ok(());
            }
            Err(error) => {
                let reason = std::error::Error::source(&error);
                let reason = reason.map_or_else(|| error.to_string(), ToString::to_string);
                // the system's message begins with the name, or has it not at all
                let reason = reason.strip_prefix(&format!("{name}: ")).unwrap_or(&reason);
                problems.push(format!("{name}: {reason}"));
            }
        }
    }
    Err(problems.join("; "))
}

/// A result of the driver; `doing` completes "cannot ...".
fn check(code: sys::CUresult, doing: &str) -> Result<()> {
    if code == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = |ask: unsafe fn(sys::CUresult, *mut *const std::ffi::c_char) -> sys::CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the driver writes a pointer to a string of its own, which lives as long as it
        // does, or leaves it null.
        unsafe {
            if ask(code, &mut text) != sys::CUresult::CUDA_SUCCESS || text.is_null() {
                return "unknown".to_owned();
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    let (name, meaning) = (text(sys::cuGetErrorName), text(sys::cuGetErrorString));
    Err(Error::device(format!("cannot {doing}: {name}, {meaning}")))
}

/// One GPU.
pub(crate) struct Card {
    context: sys::CUcontext,
    pub name: String,
    /// Bytes of its memory.
    pub memory: usize,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Version of CUDA that the driver supports, such as 13000.
    pub driver: i32,
    /// Most bytes of shared memory of a block.
    pub shared: usize,
    /// By source, name, and whether they may have more shared memory than usual.
    functions: Mutex<HashMap<(Source, &'static str, bool), Function>>,
    modules: Mutex<HashMap<Source, Module>>,
    /// Image sets that are there.
    pub sets: Sets,
    /// Bytes of all buffers.
    pub held: Held,
}

/// Bytes that are held now, and the most so far.
#[derive(Default)]
pub(crate) struct Held {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Held {
    fn add(&self, bytes: usize) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The most so far.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }
}

// SAFETY: a context may be used from any thread that makes it current, and modules belong to the
// context.
unsafe impl Send for Card {}
// SAFETY: likewise; what changes is behind locks.
unsafe impl Sync for Card {}

#[derive(Clone, Copy)]
struct Module(sys::CUmodule);
#[derive(Clone, Copy)]
struct Function(sys::CUfunction);

/// Why the driver cannot be used.
#[derive(Clone)]
struct Unusable {
    problem: String,
    /// There is simply no card, or no driver.
    is_absent: bool,
}

/// Opens the driver once.
fn start_driver() -> std::result::Result<(), Unusable> {
    static STARTED: OnceLock<std::result::Result<(), Unusable>> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        let names = DRIVER.map(str::to_owned);
        open_library(&names).map_err(|looked| Unusable {
            problem: format!("the CUDA driver's library cannot be opened (looked for {looked})"),
            is_absent: true,
        })?;
        // SAFETY: the library is there.
        let code = unsafe { sys::cuInit(0) };
        check(code, "start the CUDA driver").map_err(|error| Unusable {
            problem: error.to_string(),
            is_absent: matches!(
                code,
                sys::CUresult::CUDA_ERROR_NO_DEVICE | sys::CUresult::CUDA_ERROR_STUB_LIBRARY
            ),
        })
    });
    started.clone()
}

/// Whether there is a card, as far as the driver lets that be known: not without a driver, nor
/// where it finds none.
pub(crate) fn is_there() -> bool {
    match start_driver() {
        Ok(()) => count().is_ok_and(|count| count > 0),
        Err(unusable) => !unusable.is_absent,
    }
}

/// Number of cards.
pub(crate) fn count() -> Result<usize> {
    start_driver().map_err(|unusable| Error::device(unusable.problem))?;
    let mut count = 0;
    // SAFETY: the driver is started and writes one number.
    let code = unsafe { sys::cuDeviceGetCount(&mut count) };
    check(code, "count the GPUs")?;
    Ok(count as usize)
}

impl Card {
    /// The card of this number, opened when it is first asked for.
    pub fn open(ordinal: usize) -> Result<Arc<Self>> {
        static CARDS: Mutex<Vec<(usize, Arc<Card>)>> = Mutex::new(Vec::new());
        let mut cards = CARDS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, card)) = cards.iter().find(|(number, _)| *number == ordinal) {
            return Ok(Arc::clone(card));
        }
        let count = count()?;
        if ordinal >= count {
            let problem = match count {
                0 => "the CUDA driver finds no GPU".to_owned(),
                count => format!("there is no GPU {ordinal}: the CUDA driver finds {count}"),
            };
            return Err(Error::device(problem));
        }
        let card = Arc::new(Self::start(ordinal)?);
        cards.push((ordinal, Arc::clone(&card)));
        Ok(card)
    }

    fn start(ordinal: usize) -> Result<Self> {
        let (mut device, mut driver, mut memory) = (0, 0, 0);
        let mut context = std::ptr::null_mut();
        let mut name = [0; 256];
        // SAFETY: the driver is started, every pointer is to a place of the type it writes, and the
        // name has room for 256 characters.
        unsafe {
            check(
                sys::cuDeviceGet(&mut device, ordinal as i32),
                "find the GPU",
            )?;
            check(
                sys::cuDriverGetVersion(&mut driver),
                "ask for the driver's version",
            )?;
            let length = name.len() as i32;
            check(
                sys::cuDeviceGetName(name.as_mut_ptr(), length, device),
                "ask for its name",
            )?;
            check(
                sys::cuDeviceTotalMem_v2(&mut memory, device),
                "ask for its memory",
            )?;
            check(
                sys::cuDevicePrimaryCtxRetain(&mut context, device),
                "open the GPU",
            )?;
        }
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: the driver writes one number.
            let code = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
            check(code, "ask for a property of the GPU").map(|()| value)
        };
        use sys::CUdevice_attribute_enum as Attribute;
        let name: Vec<u8> = name
            .iter()
            .map(|&c| c as u8)
            .take_while(|&c| c != 0)
            .collect();
        Ok(Self {
            context,
            name: String::from_utf8_lossy(&name).into_owned(),
            memory,
            capability: (
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            driver,
            shared: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                as usize,
            functions: Mutex::default(),
            modules: Mutex::default(),
            sets: Sets::default(),
            held: Held::default(),
        })
    }

    /// Lets the calling thread use the card.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as the process.
        let code = unsafe { sys::cuCtxSetCurrent(self.context) };
        check(code, "switch to the GPU")
    }

    /// Loads the kernels of a source file.
    pub fn load(&self, source: Source) -> Result<()> {
        self.enter()?;
        self.module(source).map(|_| ())
    }

    /// The compiled form of a source file, loaded when it is first asked for.
    fn module(&self, source: Source) -> Result<Module> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&source) {
            return Ok(*module);
        }
        let cubin = kernels::cubin(source, self.capability)?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the cubin is whole, made by NVRTC; the driver copies it.
        let code = unsafe { sys::cuModuleLoadData(&mut module, cubin.as_ptr().cast::<c_void>()) };
        check(code, &format!("load the kernels of {}", source.file_name()))?;
        modules.insert(source, Module(module));
        Ok(Module(module))
    }

    fn function(&self, source: Source, name: &'static str, shared: u32) -> Result<Function> {
        let mut functions = self
            .functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let more = shared > SHARED_BY_DEFAULT;
        if let Some(function) = functions.get(&(source, name, more)) {
            return Ok(*function);
        }
        let module = self.module(source)?;
        let text = CString::new(name).expect("names of kernels have no zero");
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded and the name ends with a zero.
        let code = unsafe { sys::cuModuleGetFunction(&mut function, module.0, text.as_ptr()) };
        check(code, &format!("find the kernel {name}"))?;
        if more {
            let attribute =
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function was just found.
            let code = unsafe { sys::cuFuncSetAttribute(function, attribute, self.shared as i32) };
            check(code, &format!("give {name} more shared memory"))?;
        }
        functions.insert((source, name, more), Function(function));
        Ok(Function(function))
    }
}

/// Memory of a card.
pub(crate) struct Buffer {
    card: Arc<Card>,
    pointer: sys::CUdeviceptr,
    bytes: usize,
}

impl Buffer {
    /// Room for so many bytes, whose content is anything.
    pub fn new(card: &Arc<Card>, bytes: usize) -> Result<Self> {
        card.enter()?;
        let mut pointer = 0;
        // SAFETY: the driver writes one address.
        let code = unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes.max(16)) };
        check(code, &format!("get {bytes} bytes of GPU memory"))?;
        card.held.add(bytes);
        Ok(Self {
            card: Arc::clone(card),
            pointer,
            bytes,
        })
    }

    /// Its address on the card.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.card.held.remove(self.bytes);
        if self.card.enter().is_ok() {
            // SAFETY: the memory is this buffer's own; the driver waits for launches that use it.
            // Nothing can be done if the card is lost.
            let _ = unsafe { sys::cuMemFree_v2(self.pointer) };
        }
    }
}

/// What a kernel is called with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Launch {
    pub source: Source,
    pub kernel: &'static str,
    pub grid: [u32; 3],
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The arguments one after another, each in words of eight bytes.
    pub arguments: Vec<Vec<u64>>,
}

/// Work in order.
pub(crate) struct Stream {
    card: Arc<Card>,
    raw: sys::CUstream,
}

// SAFETY: streams may be used from any thread whose context is current.
unsafe impl Send for Stream {}

impl Stream {
    pub fn new(card: &Arc<Card>) -> Result<Self> {
        card.enter()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the driver writes one handle.
        let code = unsafe { sys::cuStreamCreate(&mut raw, flags) };
        check(code, "open a stream")?;
        Ok(Self {
            card: Arc::clone(card),
            raw,
        })
    }

    /// Copies to the card, `at` bytes after the beginning of `to`.
    ///
    /// # Panics
    /// If it does not fit.
    pub fn upload<T: Plain>(&self, to: &Buffer, at: usize, from: &[T]) -> Result<()> {
        let bytes = size_of_val(from);
        assert!(at + bytes <= to.bytes, "what is uploaded fits");
        self.card.enter()?;
        // SAFETY: source and target have so many bytes; memory that is not pinned is read before
        // the call returns.
        let code = unsafe {
            sys::cuMemcpyHtoDAsync_v2(
                to.pointer + at as u64,
                from.as_ptr().cast(),
                bytes,
                self.raw,
            )
        };
        check(code, "copy to the GPU")
    }

    /// Copies from the card and waits for it.
    ///
    /// # Panics
    /// If there is not so much.
    pub fn download<T: Plain>(&self, from: &Buffer, at: usize, to: &mut [T]) -> Result<()> {
        let bytes = size_of_val(to);
        assert!(at + bytes <= from.bytes, "what is downloaded is there");
        self.card.enter()?;
        // SAFETY: source and target have so many bytes, any bytes are a value of the type, and
        // nobody looks before the stream is done.
        let code = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                to.as_mut_ptr().cast(),
                from.pointer + at as u64,
                bytes,
                self.raw,
            )
        };
        check(code, "copy from the GPU")?;
        self.wait()
    }

    /// Fills a buffer with zeros.
    pub fn clear(&self, buffer: &Buffer, bytes: usize) -> Result<()> {
        assert!(bytes <= buffer.bytes, "what is cleared is there");
        self.card.enter()?;
        // SAFETY: the buffer has so many bytes.
        let code = unsafe { sys::cuMemsetD8Async(buffer.pointer, 0, bytes, self.raw) };
        check(code, "clear GPU memory")
    }

    /// Waits until all is done.
    pub fn wait(&self) -> Result<()> {
        self.card.enter()?;
        // SAFETY: the stream is open.
        let code = unsafe { sys::cuStreamSynchronize(self.raw) };
        check(code, "finish on the GPU")
    }

    /// Launches a kernel. The arguments are what the kernel takes, and point to memory that lives
    /// until the stream is done: who makes a launch sees to it.
    pub fn launch(&self, launch: &Launch) -> Result<()> {
        self.card.enter()?;
        let function = self
            .card
            .function(launch.source, launch.kernel, launch.shared)?;
        let mut pointers: Vec<*mut c_void> = launch
            .arguments
            .iter()
            .map(|argument| argument.as_ptr().cast_mut().cast())
            .collect();
        let [x, y, z] = launch.grid;
        // SAFETY: the arguments are those of the kernel, in its order, and are copied by the call.
        let code = unsafe {
            sys::cuLaunchKernel(
                function.0,
                x,
                y,
                z,
                launch.threads,
                1,
                1,
                launch.shared,
                self.raw,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        check(code, &format!("launch {}", launch.kernel))
    }

    /// Launches in this order, so many times, as one graph.
    pub fn capture(&self, launches: &[Launch], times: usize) -> Result<Graph> {
        // Kernels are loaded first: that is not allowed while a stream is captured.
        for launch in launches {
            self.card.enter()?;
            self.card
                .function(launch.source, launch.kernel, launch.shared)?;
        }
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is open.
        let code = unsafe { sys::cuStreamBeginCapture_v2(self.raw, mode) };
        check(code, "begin a graph")?;
        let mut launched = Ok(());
        for launch in (0..times).flat_map(|_| launches) {
            launched = self.launch(launch);
            if launched.is_err() {
                break;
            }
        }
        let (mut graph, mut raw) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream is captured; a graph that was made is instantiated once and destroyed
        // once.
        unsafe {
            check(sys::cuStreamEndCapture(self.raw, &mut graph), "end a graph")?;
            let made = launched.and_then(|()| {
                check(
                    sys::cuGraphInstantiateWithFlags(&mut raw, graph, 0),
                    "make a graph",
                )
            });
            let _ = sys::cuGraphDestroy(graph);
            made?;
        }
        Ok(Graph {
            card: Arc::clone(&self.card),
            raw,
        })
    }

    /// Launches a graph.
    pub fn replay(&self, graph: &Graph) -> Result<()> {
        self.card.enter()?;
        // SAFETY: graph and stream are of the same card and open.
        let code = unsafe { sys::cuGraphLaunch(graph.raw, self.raw) };
        check(code, "launch a graph")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: the stream is this one's own; nothing can be done if the card is lost.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// Launches that were captured.
pub(crate) struct Graph {
    card: Arc<Card>,
    raw: sys::CUgraphExec,
}

// SAFETY: a graph may be launched from any thread whose context is current.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: the graph is this one's own; nothing can be done if the card is lost.
            let _ = unsafe { sys::cuGraphExecDestroy(self.raw) };
        }
    }
}

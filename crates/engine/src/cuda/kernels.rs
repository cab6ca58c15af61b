//! The kernels' source files, which the library holds, and their compiled form, a cubin per file
//! and architecture.
//!
//! A cubin is looked for by a name that holds the sum of source, options and architecture, so that
//! one of another version is never taken: in the folder that `MAXITIVE_KERNELS` names, in `kernels`
//! beside the program, and in the cache folder. If it is nowhere, NVRTC compiles it, and the cache
//! folder keeps it. Cubins, not PTX, because a driver refuses the PTX of a newer compiler.

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};

use cudarc::nvrtc::sys;
use sha2::{Digest, Sha256};

use super::driver::open_library;
use crate::error::{Error, Result};

/// Folder of cubins, searched first.
const FOLDER: &str = "MAXITIVE_KERNELS";
/// Folder of the library NVRTC, searched before those of the system.
const NVRTC_FOLDER: &str = "MAXITIVE_NVRTC";
/// Names of the library, the newest first.
#[cfg(not(windows))]
const NVRTC: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
#[cfg(windows)]
const NVRTC: [&str; 2] = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];

/// Rules have the host's bits; elsewhere every fused product is written as one. So nothing is
/// contracted anywhere.
const OPTIONS: [&str; 4] = [
    "--std=c++17",
    "--fmad=false",
    "-default-device",
    "-DINFINITY=__int_as_float(0x7f800000)",
];

/// The file that all others include.
const COMMON: (&str, &str) = ("common.cuh", include_str!("../../kernels/common.cuh"));

/// A source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Any network, layer by layer.
    Layers,
    /// The update rules.
    Rules,
    /// LeNet in one thread block.
    Lenet,
    /// ResNet-20, stage by stage.
    Resnet,
    /// DenseNet, block by block.
    Densenet,
    /// Inner products of gradients.
    Gram,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Layers,
        Self::Rules,
        Self::Lenet,
        Self::Resnet,
        Self::Densenet,
        Self::Gram,
    ];

    /// Its name in the folder `kernels`.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Layers => "layers.cu",
            Self::Rules => "rules.cu",
            Self::Lenet => "lenet.cu",
            Self::Resnet => "resnet.cu",
            Self::Densenet => "densenet.cu",
            Self::Gram => "gram.cu",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Layers => include_str!("../../kernels/layers.cu"),
            Self::Rules => include_str!("../../kernels/rules.cu"),
            Self::Lenet => include_str!("../../kernels/lenet.cu"),
            Self::Resnet => include_str!("../../kernels/resnet.cu"),
            Self::Densenet => include_str!("../../kernels/densenet.cu"),
            Self::Gram => include_str!("../../kernels/gram.cu"),
        }
    }

    /// Whether it is of use for this architecture: a stage of ResNet-20 and a block of DenseNet
    /// take more shared memory than a thread block has before 9.0.
    pub fn serves(self, architecture: &str) -> bool {
        let large = matches!(self, Self::Resnet | Self::Densenet);
        !large || !architecture.starts_with("sm_8")
    }

    /// Name of its cubin.
    pub fn cubin_name(self, architecture: &str) -> String {
        let mut sum = Sha256::new();
        for part in [COMMON.1, self.text(), architecture].iter().chain(&OPTIONS) {
            sum.update((part.len() as u64).to_le_bytes());
            sum.update(part);
        }
        let sum: String = sum.finalize()[..8]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let stem = self.file_name().trim_end_matches(".cu");
        format!("{stem}-{architecture}-{sum}.cubin")
    }
}

/// The cubin of a source file for a card.
pub(super) fn cubin(source: Source, capability: (i32, i32)) -> Result<Vec<u8>> {
    let (major, minor) = capability;
    let own = format!("sm_{major}{minor}");
    // code for the first card of a generation runs on its later ones
    let mut architectures = vec![own.clone()];
    if minor != 0 {
        architectures.push(format!("sm_{major}0"));
    }
    let mut looked = Vec::new();
    for folder in folders() {
        for architecture in &architectures {
            let path = folder.join(source.cubin_name(architecture));
            if let Ok(found) = std::fs::read(&path)
                && !found.is_empty()
            {
                return Ok(found);
            }
            looked.push(path.display().to_string());
        }
    }
    let compiled = compile(source, &own, &[]).map_err(|error| {
        let file = source.file_name();
        let looked = looked.join(", ");
        Error::device(format!(
            "no compiled form of {file} (looked for {looked}); {error}"
        ))
    })?;
    if let Some(cache) = cache_folder() {
        // The next program compiles it again if this one cannot write.
        let _ = keep(&cache, &source.cubin_name(&own), &compiled.cubin);
    }
    Ok(compiled.cubin)
}

/// Writes a file whole or not at all.
fn keep(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let temporary = folder.join(format!("{name}.{}", std::process::id()));
    std::fs::write(&temporary, bytes)?;
    std::fs::rename(&temporary, folder.join(name))
}

/// Where cubins are looked for.
fn folders() -> Vec<PathBuf> {
    let named = std::env::var_os(FOLDER).map(PathBuf::from);
    let program = std::env::current_exe().ok();
    let beside = program.and_then(|path| Some(path.parent()?.join("kernels")));
    [named, beside, cache_folder()]
        .into_iter()
        .flatten()
        .collect()
}

fn cache_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(set("HOME")?).join(".cache"));
    Some(cache.or_else(home)?.join("maxitive/kernels"))
}

/// What NVRTC made of a source file.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The machine code.
    pub cubin: Vec<u8>,
    /// What the compiler says, with registers and spills if it was asked for them.
    pub log: String,
}

/// Opens NVRTC, from the folder that is named or wherever the system looks.
fn open_nvrtc() -> Result<()> {
    let mut names: Vec<String> = NVRTC.map(str::to_owned).to_vec();
    if let Some(folder) = std::env::var_os(NVRTC_FOLDER).map(PathBuf::from) {
        // The compiler opens this one by its name alone.
        let builtins = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for file in builtins {
            let name = file.file_name().to_string_lossy().into_owned();
            if name.contains("nvrtc-builtins") && !name.contains(".alt.") {
                let _ = open_library(&[file.path().display().to_string()]);
            }
        }
        let inside = NVRTC.map(|name| folder.join(name).display().to_string());
        names.splice(0..0, inside);
    }
    open_library(&names).map_err(|looked| {
        Error::device(format!(
            "the compiler NVRTC cannot be opened (looked for {looked})"
        ))
    })
}

/// Compiles a source file for an architecture, such as `sm_90`; needs NVRTC and no GPU.
///
/// # Errors
/// [`Error::Device`] if NVRTC is missing or refuses the source.
pub fn compile(source: Source, architecture: &str, more: &[&str]) -> Result<Compiled> {
    open_nvrtc()?;
    let words = |text: &str| {
        CString::new(text).map_err(|_| Error::device("a zero byte in a kernel's source".to_owned()))
    };
    let architecture = format!("--gpu-architecture={architecture}");
    let options = [architecture.as_str()].into_iter().chain(OPTIONS);
    let options = options.chain(more.iter().copied()).map(words);
    let options = options.collect::<Result<Vec<_>>>()?;
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let (text, name) = (words(source.text())?, words(source.file_name())?);
    let (header, header_name) = (words(COMMON.1)?, words(COMMON.0)?);
    let check = |code: sys::nvrtcResult, doing: &str| match code {
        sys::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        code => Err(Error::device(format!("NVRTC cannot {doing}: {code:?}"))),
    };
    // SAFETY: the library is open; all strings end with a zero and outlive the program, which is
    // destroyed once; buffers are as long as the library says.
    unsafe {
        let mut program = std::ptr::null_mut();
        let made = sys::nvrtcCreateProgram(
            &mut program,
            text.as_ptr(),
            name.as_ptr(),
            1,
            [header.as_ptr()].as_ptr(),
            [header_name.as_ptr()].as_ptr(),
        );
        check(made, "begin")?;
        let result = sys::nvrtcCompileProgram(program, options.len() as i32, options.as_ptr());
        let read = |size: unsafe fn(sys::nvrtcProgram, *mut usize) -> sys::nvrtcResult,
                    get: unsafe fn(sys::nvrtcProgram, *mut c_char) -> sys::nvrtcResult|
         -> Result<Vec<u8>> {
            let mut length = 0;
            check(size(program, &mut length), "tell its result")?;
            let mut bytes = vec![0u8; length];
            check(get(program, bytes.as_mut_ptr().cast()), "give its result")?;
            Ok(bytes)
        };
        let log = read(sys::nvrtcGetProgramLogSize, sys::nvrtcGetProgramLog);
        let log = String::from_utf8_lossy(&log.unwrap_or_default())
            .trim_end_matches('\0')
            .to_owned();
        let compiled = match check(result, &format!("compile {}", source.file_name())) {
            Ok(()) => read(sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN)
                .map(|cubin| Compiled { cubin, log }),
            Err(error) => Err(Error::device(format!("{error}\n{log}"))),
        };
        sys::nvrtcDestroyProgram(&mut program);
        compiled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cubins_hold_file_architecture_and_sum() {
        let name = Source::Layers.cubin_name("sm_90");
        assert!(
            name.starts_with("layers-sm_90-") && name.ends_with(".cubin"),
            "{name}"
        );
        assert_eq!(name.len(), "layers-sm_90-".len() + 16 + ".cubin".len());
        assert_ne!(name, Source::Layers.cubin_name("sm_80"));
        assert!(!Source::Resnet.serves("sm_86") && Source::Resnet.serves("sm_100"));
    }
}

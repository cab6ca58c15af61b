//! Where networks are trained and evaluated.

use std::sync::OnceLock;

use machine::Isa;

use crate::backend::{Backend, Job};
use crate::cpu::{self, Choices, Cpu};
use crate::cuda::{self, CardInfo};
use crate::error::{Error, Result, check_range};
use crate::gram::{Answers, Request};
use crate::network::Network;

/// Most threads.
pub const MAX_THREADS: usize = 64;

/// Names of GPUs, by their numbers.
const GPUS: [&str; 8] = [
    "cuda", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7",
];

/// The numbers that products are computed with; all else is `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// `f32`. A GPU forms products of convolutions, where it has kernels for the whole network, of
    /// factors in two parts; an error of at most 2⁻²⁰ of a product.
    #[default]
    F32,
    /// The factors of the products of convolutions are rounded to TF32, which has 11 bits of
    /// precision; sums are `f32`.
    Tf32,
}

impl Precision {
    /// The precision of this name.
    ///
    /// # Errors
    /// [`Error::UnknownPrecision`] with the names there are.
    pub fn by_name(name: &str) -> Result<Self> {
        let known = [Self::F32, Self::Tf32];
        let found = known.into_iter().find(|precision| precision.name() == name);
        found.ok_or_else(|| Error::UnknownPrecision { name: name.into() })
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
        }
    }
}

/// A device, chosen once; what is computed there asks no further.
///
/// ```
/// use engine::Device;
/// let device = Device::by_name("cpu")?.threads(2);
/// assert_eq!((device.name(), device.precision().name()), ("cpu", "f32"));
/// let message = Device::by_name("abacus").unwrap_err().to_string();
/// assert_eq!(message, "no device \"abacus\"; there are auto, cpu, cuda, cuda:1 to cuda:7");
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    kind: Kind,
    threads: usize,
    isa: Isa,
    winograd: bool,
    precision: Precision,
    /// Why it is not the GPU that is there.
    fallback: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Cpu,
    Cuda(usize),
}

impl Default for Device {
    /// The processor.
    fn default() -> Self {
        Self::cpu()
    }
}

impl Device {
    /// The processor: as many threads as the machine has, at most 8, and its widest instruction
    /// set.
    pub fn cpu() -> Self {
        Self {
            kind: Kind::Cpu,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get().min(8)),
            isa: Isa::detect(),
            winograd: true,
            precision: Precision::F32,
            fallback: None,
        }
    }

    /// The GPU of this number, from 0.
    ///
    /// # Errors
    /// [`Error::Device`] if the driver is missing, with what was looked for, or there is no such
    /// GPU; [`Error::Input`] for a number above 7.
    pub fn cuda(number: usize) -> Result<Self> {
        check_range("number of GPUs", number + 1, GPUS.len(), "0..=7")?;
        cuda::info(number)?;
        Ok(Self {
            kind: Kind::Cuda(number),
            ..Self::cpu()
        })
    }

    /// The device of this name: `cpu`; `cuda` or `cuda:0` for the first GPU, `cuda:1` for the
    /// second; `auto` for the first GPU if there is one and its kernels are compiled or can be,
    /// else the processor, and [`Device::fallback`] says why where there is a GPU.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] with the names there are; as [`Device::cuda`] for a GPU that is not
    /// there.
    pub fn by_name(name: &str) -> Result<Self> {
        match name {
            "cpu" => Ok(Self::cpu()),
            "auto" => Ok(Self::auto()),
            "cuda:0" => Self::cuda(0),
            name => match GPUS.iter().position(|gpu| *gpu == name) {
                Some(number) => Self::cuda(number),
                None => Err(Error::UnknownDevice {
                    name: name.into(),
                    known: "auto, cpu, cuda, cuda:1 to cuda:7".into(),
                }),
            },
        }
    }

    /// The first GPU, if its kernels are there, or the processor.
    fn auto() -> Self {
        static PROBLEM: OnceLock<String> = OnceLock::new();
        if !cuda::is_there() {
            return Self::cpu();
        }
        match Self::gpu_problem(0) {
            None => Self {
                kind: Kind::Cuda(0),
                ..Self::cpu()
            },
            Some(problem) => Self {
                fallback: Some(PROBLEM.get_or_init(|| problem)),
                ..Self::cpu()
            },
        }
    }

    /// Why it is not the GPU that is there, though the fastest device was asked for.
    pub const fn fallback(&self) -> Option<&'static str> {
        self.fallback
    }

    /// Why the GPU of this number, from 0, cannot be used, if it cannot: its kernels are neither
    /// compiled nor can be, say.
    pub fn gpu_problem(number: usize) -> Option<String> {
        let found = Self::cuda(number).and_then(|_| cuda::load(number));
        found.err().map(|error| error.to_string())
    }

    /// The GPUs of the machine.
    ///
    /// # Errors
    /// [`Error::Device`] if the driver is missing or does not start.
    pub fn gpus() -> Result<Vec<CardInfo>> {
        let count = cuda::count()?.min(GPUS.len());
        (0..count).map(cuda::info).collect()
    }

    /// With so many threads of the processor, `1..=64`. Results do not depend on it.
    #[must_use]
    pub const fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// With this instruction set of the processor.
    #[must_use]
    pub const fn isa(self, isa: Isa) -> Self {
        Self { isa, ..self }
    }

    /// With or without Winograd's form of 3×3 convolutions, where it pays; for the processor alone.
    #[must_use]
    pub const fn winograd(self, winograd: bool) -> Self {
        Self { winograd, ..self }
    }

    /// With products of this precision.
    ///
    /// # Errors
    /// [`Error::Precision`] if the device does not have it.
    pub fn with_precision(self, precision: Precision) -> Result<Self> {
        if self.kind == Kind::Cpu && precision != Precision::F32 {
            return Err(Error::Precision {
                precision: precision.name(),
                device: self.name(),
            });
        }
        Ok(Self { precision, ..self })
    }

    /// With products of this precision, or a better one where the device has nothing less: the
    /// processor computes in `f32` always.
    #[must_use]
    pub const fn with_precision_or_better(self, precision: Precision) -> Self {
        match self.kind {
            Kind::Cpu => Self {
                precision: Precision::F32,
                ..self
            },
            Kind::Cuda(_) => Self { precision, ..self },
        }
    }

    /// Most bytes of the device's own memory that this process has held at a time so far; none for
    /// the processor.
    pub fn peak_memory(&self) -> Option<usize> {
        match self.kind {
            Kind::Cpu => None,
            Kind::Cuda(number) => cuda::peak_memory(number),
        }
    }

    /// Its name, as in records.
    pub const fn name(&self) -> &'static str {
        match self.kind {
            Kind::Cpu => "cpu",
            Kind::Cuda(number) => GPUS[number],
        }
    }

    /// The numbers it computes with.
    pub const fn precision(&self) -> Precision {
        self.precision
    }

    /// Whether it is a processor of the host.
    pub const fn is_cpu(&self) -> bool {
        matches!(self.kind, Kind::Cpu)
    }

    /// Threads of the processor, the calling one included.
    pub const fn thread_count(&self) -> usize {
        self.threads
    }

    /// The instruction set of the processor.
    pub const fn instruction_set(&self) -> Isa {
        self.isa
    }

    /// How many runs of a network it trains best together.
    pub fn together(&self, network: &Network) -> usize {
        match self.kind {
            Kind::Cpu => 1,
            Kind::Cuda(number) => cuda::together(number, self.precision, network),
        }
    }

    /// How many runs of a network with batches of so many images the device's own memory holds; no
    /// number to speak of for the processor, which trains one at a time.
    pub fn room(&self, network: &Network, batch: usize) -> usize {
        match self.kind {
            Kind::Cpu => usize::MAX,
            Kind::Cuda(number) => cuda::room(number, self.precision, network, batch),
        }
    }

    /// How many steps of so many runs of a network are worth handing over at once.
    pub fn stretch(&self, network: &Network, runs: usize) -> usize {
        match self.kind {
            Kind::Cpu => 1,
            Kind::Cuda(_) => cuda::stretch(network, runs),
        }
    }

    fn check_threads(&self) -> Result<()> {
        check_range("threads", self.threads, MAX_THREADS, "1..=64")
    }

    /// Gram matrices of images.
    ///
    /// # Errors
    /// [`Error::Input`] for a number of threads outside its range, [`Error::Device`] if the device
    /// does not do it.
    pub(crate) fn gram(
        &self,
        network: &Network,
        request: &Request<'_>,
        out: &mut Answers<'_>,
    ) -> Result<()> {
        self.check_threads()?;
        match self.kind {
            Kind::Cpu => {
                let machine = (Choices::new(self.winograd), self.threads, self.isa);
                cpu::gram::run(network, request, machine, out);
                Ok(())
            }
            Kind::Cuda(number) => cuda::gram::run(number, network, request, out),
        }
    }

    /// # Errors
    /// [`Error::Input`] for a number of threads outside its range, [`Error::Device`] if the device
    /// does not do it.
    pub(crate) fn start(&self, job: &Job<'_>) -> Result<Box<dyn Backend>> {
        self.check_threads()?;
        match self.kind {
            Kind::Cpu => {
                let choices = Choices::new(self.winograd);
                Ok(Box::new(Cpu::new(job, self.threads, self.isa, choices)))
            }
            Kind::Cuda(number) => cuda::start(number, self.precision, job),
        }
    }
}

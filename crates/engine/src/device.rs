//! Where networks are trained and evaluated.

use machine::Isa;

use crate::backend::{Backend, Job};
use crate::cpu::{Choices, Cpu};
use crate::error::{Error, Result, check_range};
use crate::network::Network;

/// Most threads.
pub const MAX_THREADS: usize = 64;

/// A device, chosen once; what is computed there asks no further.
///
/// ```
/// use engine::Device;
/// let device = Device::by_name("auto")?.threads(2);
/// assert_eq!((device.name(), device.precision()), ("cpu", "f32"));
/// let message = Device::by_name("abacus").unwrap_err().to_string();
/// assert_eq!(message, "no device \"abacus\"; there are auto, cpu");
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    threads: usize,
    isa: Isa,
    winograd: bool,
}

impl Default for Device {
    /// The one that [`Device::by_name`] calls "auto".
    fn default() -> Self {
        Self::cpu()
    }
}

impl Device {
    /// Names that [`Device::by_name`] knows.
    pub const NAMES: [&'static str; 2] = ["auto", "cpu"];

    /// The processor: as many threads as the machine has, at most 8, and its widest instruction
    /// set.
    pub fn cpu() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, |n| n.get().min(8)),
            isa: Isa::detect(),
            winograd: true,
        }
    }

    /// The device of this name: `cpu`, or `auto` for the fastest of the machine.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] with the names there are.
    pub fn by_name(name: &str) -> Result<Self> {
        match name {
            "auto" | "cpu" => Ok(Self::cpu()),
            _ => Err(Error::UnknownDevice {
                name: name.into(),
                known: Self::NAMES.join(", "),
            }),
        }
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

    /// With or without Winograd's form of 3×3 convolutions, where it pays.
    #[must_use]
    pub const fn winograd(self, winograd: bool) -> Self {
        Self { winograd, ..self }
    }

    /// Its name, as in records.
    pub const fn name(&self) -> &'static str {
        "cpu"
    }

    /// The numbers it computes with.
    pub const fn precision(&self) -> &'static str {
        "f32"
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
    pub const fn together(&self, _network: &Network) -> usize {
        1
    }

    /// How many steps are worth handing over at once.
    pub const fn stretch(&self) -> usize {
        1
    }

    /// # Errors
    /// [`Error::Input`] for a number of threads outside its range.
    pub(crate) fn start(&self, job: Job) -> Result<Box<dyn Backend>> {
        check_range("threads", self.threads, MAX_THREADS, "1..=64")?;
        let choices = Choices::new(self.winograd);
        Ok(Box::new(Cpu::new(job, self.threads, self.isa, choices)))
    }
}

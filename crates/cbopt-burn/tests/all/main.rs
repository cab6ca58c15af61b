//! The optimizers from the outside: against golden numbers, and on whole modules.

mod golden;
mod module;

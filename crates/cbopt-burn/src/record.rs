//! States as named tensors and numbers, in Burn's records.

use burn::optim::{RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

/// Writes the named tensors and the step.
pub(crate) fn flatten<const D: usize>(
    tensors: &[(&str, Option<&Tensor<D>>)],
    numbers: &[(&str, u64)],
    prefix: &str,
    out: &mut StateSink,
) {
    for (name, tensor) in tensors {
        if let Some(tensor) = tensor {
            out.push_tensor(prefix, name, (*tensor).clone().into_data());
        }
    }
    for (name, value) in numbers {
        out.push_scalar(prefix, name, (*value).into());
    }
}

/// The tensor of that name, if it was saved.
pub(crate) fn tensor<const D: usize>(
    name: &str,
    prefix: &str,
    source: &mut StateSource,
    device: &Device,
) -> Option<Tensor<D>> {
    source
        .take_tensor(prefix, name)
        .map(|data| Tensor::from_data(data, device))
}

/// The number of that name.
pub(crate) fn number(name: &str, prefix: &str, source: &mut StateSource) -> Option<u64> {
    source
        .take_scalar(prefix, name)
        .and_then(|value| u64::try_from(value).ok())
}

/// Compiles only for types that Burn can record.
const fn _is_record<T: RecordState>() {}
const _: () = _is_record::<crate::CboState<2>>();

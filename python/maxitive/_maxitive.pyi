from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

Floats = NDArray[np.float32]
Tensor = tuple[Floats, Floats, Floats, Floats, Floats | None]

class Rule:
    def __init__(self, config: str) -> None: ...
    def parameters(self) -> str: ...
    def step(self, lr: float, step: int, threads: int, tensors: list[Tensor]) -> None: ...

class Outcomes:
    def __init__(self, probabilities: NDArray[Any], labels: NDArray[np.int64]) -> None: ...
    def metrics(
        self, bins: int, scheme: str, replicates: int, level: float, seed: int
    ) -> str: ...

def scores(probabilities: NDArray[Any], score: str) -> NDArray[np.float64]: ...
def detection(
    name: str,
    ins: NDArray[np.float64],
    outs: NDArray[np.float64],
    replicates: int,
    level: float,
    seed: int,
) -> str: ...

class Posterior:
    family: str
    log_consistency: float
    weight: float
    mode: float | None
    precision: float | None
    domain: tuple[float, float]
    def __init__(
        self, family: str, known: float, prior: tuple[float, float] | None
    ) -> None: ...
    def observe(self, data: NDArray[np.float64]) -> Posterior: ...
    def cut(self, alpha: float) -> tuple[float, float]: ...
    def at(self, value: float) -> float: ...
    def credence(self, lower: float, upper: float) -> tuple[float, float]: ...

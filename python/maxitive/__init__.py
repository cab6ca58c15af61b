"""Possibilistic variational inference: optimizers, metrics and inference.

* `maxitive.torch`: uCBOpt, uCBOpt-adapt and lCBOpt-adapt as PyTorch optimizers, and the Gram
  matrices of a network's logits.
* `maxitive.optax`: the same optimizers as optax gradient transformations.
* `maxitive.evaluate`: metrics of any model's predictions, in- and out-of-domain.
* `maxitive.report`: one HTML page about evaluations and runs.
* `maxitive.bounds`: upper and lower probabilities of a classifier.
* `maxitive.infer`: posterior possibility functions of conjugate families and regressions.
* `maxitive.possibility`: events, and normal possibility functions.
* `maxitive.lightning`: a callback that writes the run record of a PyTorch Lightning training.

>>> import maxitive
>>> coin = maxitive.infer.bernoulli([1, 1, 0, 1, 1])
>>> coin.mode
0.8
>>> round(coin.possibility(upper=0.3), 4)
0.0692
"""

from . import infer, possibility
from ._maxitive import __version__
from .evaluation import Evaluation, evaluate
from .prediction import Bounds, bounds
from .reporting import report

__all__ = [
    "Bounds",
    "Evaluation",
    "__version__",
    "bounds",
    "evaluate",
    "infer",
    "possibility",
    "report",
]

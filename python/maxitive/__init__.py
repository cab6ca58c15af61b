"""Possibilistic variational inference: optimizers, metrics and inference.

* `maxitive.torch`: uCBOpt, uCBOpt-adapt and lCBOpt-adapt as PyTorch optimizers.
* `maxitive.optax`: the same as optax gradient transformations.
* `maxitive.evaluate`: metrics of any model's predictions, in- and out-of-domain.
* `maxitive.infer`: posterior possibility functions of the conjugate families.

>>> import maxitive
>>> coin = maxitive.infer.bernoulli([1, 1, 0, 1, 1])
>>> coin.mode
0.8
>>> round(coin.possibility(upper=0.3), 4)
0.0692
"""

from . import infer
from ._maxitive import __version__
from .evaluation import Evaluation, evaluate

__all__ = ["Evaluation", "__version__", "evaluate", "infer"]

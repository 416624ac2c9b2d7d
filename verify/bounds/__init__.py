"""Bounds: what a declared arithmetic model permits, proved, one theorem a file.

    bound(operation, inputs, decomposition, models) -> Bound

A bound is a function of the inputs, of the exact quantities that the oracle derives from them, and
of the arithmetic model; it never sees an output.  `models` is a preset, a model, or several: then
the kernel may follow any of them and the bound is the maximum.  Proofs: docs/theory/bounds.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from references.decompose import Decomposition
from verify.arithmetic import ArithmeticModel
from verify.bounds.attention import attention_bound_of_models
from verify.bounds.attention_backward import attention_backward_bound_of_models
from verify.bounds.cross_entropy import cross_entropy_bound
from verify.bounds.softmax import softmax_bound_of_models
from verify.bounds.softmax_backward import softmax_backward_bound_of_models
from verify.bounds.statement import FLAGS, GRADIENT_STAGES, STAGES, Bound, joined
from verify.case import Inputs
from verify.operation import Operation
from verify.presets import Preset

__all__ = [
    "FLAGS",
    "GRADIENT_STAGES",
    "STAGES",
    "Bound",
    "Models",
    "attention_bound",
    "bound",
    "gradient_bound",
    "joined",
    "softmax_bound",
]

Models = Preset | ArithmeticModel | Sequence[ArithmeticModel]


def bound(
    operation: Operation,
    inputs: Inputs,
    decomposition: Decomposition,
    models: Models,
    *,
    probability: float = 1e-9,
) -> Bound:
    """
    The bound of any operation.

    Shapes      decomposition: `references.decompose` of the same inputs and operation; for softmax,
                log_softmax and logsumexp `decompose_softmax`.
    Definition  as in `references`.
    Guarantee   see `Bound`, `attention_bound`, `softmax_bound` and `gradient_bound`.
    Requires    the kernel follows one of the models.
    Special     see `Bound`.
    Source      docs/theory/bounds.md.
    """
    if operation.backward:
        return gradient_bound(inputs, operation, decomposition, models)
    if operation.name == "attention":
        return attention_bound(inputs, operation, decomposition, models, probability=probability)
    if operation.name == "cross_entropy":
        rows = softmax_bound(replace(operation, name="log_softmax"), decomposition, models)
        return cross_entropy_bound(rows, inputs.integers["target"])
    return softmax_bound(operation, decomposition, models)


def attention_bound(
    inputs: Inputs,
    operation: Operation,
    decomposition: Decomposition,
    models: Models,
    *,
    probability: float = 1e-9,
) -> Bound:
    """
    The bound of scaled dot-product attention (Theorem 1), and its probable companion (Theorem 2).

    Shapes      see `Bound`.
    Definition  as in `references`.
    Guarantee   see `verify.bounds.attention.attention_bound_of_models`; P(some element exceeds
                `probable`) <= probability under the assumptions of Theorem 2.
    Requires    the kernel follows one of the models.
    Special     rows without keys: 0.
    Source      docs/theory/bounds.md, sections 2 to 6 and 9.
    """
    return attention_bound_of_models(
        inputs, operation, decomposition, _variants(models), probability
    )


def softmax_bound(operation: Operation, decomposition: Decomposition, models: Models) -> Bound:
    """
    The bound of softmax, log_softmax or logsumexp (S1 to S4).

    Shapes      total: (rows, n), or (rows,) for logsumexp.
    Definition  as in `references`.
    Guarantee   see `verify.bounds.softmax.softmax_bound_of_models`; `probable` is `total`.
    Requires    the kernel follows one of the models.
    Special     rows that are all -inf, or hold NaN or +inf: flagged.
    Source      docs/theory/bounds.md, section 7.
    """
    return softmax_bound_of_models(operation.name, decomposition, _variants(models))


def gradient_bound(
    inputs: Inputs, operation: Operation, decomposition: Decomposition, models: Models
) -> Bound:
    """
    The bound of a gradient: of attention (dQ, and in `others` dK, dV, dbias, dsinks), softmax or
    log_softmax.

    Shapes      see `Bound`; inputs hold the gradient that comes from above as do or dy.
    Definition  as in `references`.
    Guarantee   see `attention_backward_bound_of_models`, `softmax_backward_bound_of_models`.
    Requires    the kernel follows one of the models; of a preset those of its backward pass.
    Special     see there.
    Source      docs/theory/bounds.md, section 14.
    """
    variants = _variants(models)
    if isinstance(models, Preset) and models.backward:
        variants = models.backward
    if operation.is_attention:
        return attention_backward_bound_of_models(inputs, operation, decomposition, variants)
    return softmax_backward_bound_of_models(operation.name, inputs, decomposition, variants)


def _variants(models: Models) -> tuple[ArithmeticModel, ...]:
    if isinstance(models, Preset):
        return models.variants
    if isinstance(models, ArithmeticModel):
        return (models,)
    return tuple(models)

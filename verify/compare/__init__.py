"""Compare: two versions of kernels, from their certificates and timings.

    old side, new side -> pairs -> changes of accuracy and of speed -> outcome -> text, Markdown

A certificate is compared with one of the same operation, format, device, profile and seed, case by
case where the inputs have the same bits: on these the truth is the same, so that errors compare.
"""

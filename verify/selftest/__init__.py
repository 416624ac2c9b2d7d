"""Selftest: is the judge itself sound and sharp?

Every kernel that is broken on purpose must be refuted, by two different families or properties and
with a margin; every unusual but right kernel must pass; every cheat must be caught.  The kills that
are expected are committed beside the controls, and one that no longer happens fails the run.
"""

"""Templates: Jinja with escaping always on, so that no text of a certificate becomes markup."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


@cache
def environment() -> Environment:
    """The environment of all templates; an undefined name is an error."""
    import jinja2

    from verify.report import words

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("verify.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": words.number,
        "decimal": words.decimal,
        "plural": words.plural,
        "words": words.words,
    }
    return made


def render(source: str, **values: Any) -> Markup:
    """Fill in a template that is given as text."""
    from markupsafe import Markup

    return Markup(environment().from_string(source).render(**values))


def render_file(name: str, **values: Any) -> Markup:
    """Fill in a template of this package."""
    from markupsafe import Markup

    return Markup(environment().get_template(name).render(**values))


def asset(name: str) -> Markup:
    """A style sheet or script of this package, as it is."""
    from markupsafe import Markup

    text = resources.files("verify.report").joinpath(name).read_text(encoding="utf-8")
    return Markup(text)

"""A Sphinx extension: formulas become MathML when the pages are built, which every browser draws by itself."""

import itertools
import re

from docutils import nodes
from latex2mathml.converter import convert as to_mathml
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number

BLACKBOARD = {"C": "ℂ", "N": "ℕ", "P": "ℙ", "Q": "ℚ", "R": "ℝ", "Z": "ℤ", "E": "𝔼"}


def convert(formula: str, **options: str) -> str:
    """MathML with the characters themselves: browsers ignore `mathvariant`, and a prime is an operator."""
    text = to_mathml(formula, **options)
    text = re.sub(
        r'<mi mathvariant="double-struck">(\w)</mi>', lambda m: f"<mi>{BLACKBOARD.get(m[1], m[1])}</mi>", text
    )
    text = text.replace("<mi>&#x02032;</mi>", "<mo>&#x02032;</mo>")
    text = text.replace('<mo stretchy="true">&#x000AF;</mo>', "<mo>&#x02212;</mo>")  # a macron is as short as a dot
    for bar in ("&#x0007C;", "&#x02016;"):  # without a form the closing one is set apart, as a relation
        first, *rest = re.split(rf"<mo(?![^>]*form=)[^>]*>{bar}", text)
        forms = itertools.cycle(("prefix", "postfix"))
        text = first + "".join(f'<mo stretchy="false" form="{next(forms)}">{bar}{part}' for part in rest)
    return text


def inline(translator, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(translator, node: nodes.math_block) -> None:
    number = get_node_equation_number(translator, node) if node["number"] else ""
    label = f'<span class="eqno">({number})</span>' if number else ""
    formula = convert(node.astext(), display="block")
    style = "overflow-y: hidden; padding: 0.2em 0"  # the theme would give tall formulas a scroll bar
    translator.body.append(f'<div class="math" style="{style}">{label}{formula}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}

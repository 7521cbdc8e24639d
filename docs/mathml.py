"""A Sphinx extension: formulas become MathML when the pages are built, which every browser draws by itself."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number


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

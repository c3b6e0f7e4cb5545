"""Formulas as MathML, which browsers draw by themselves, without a script from elsewhere."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def _inline(translator, node):
    translator.body.append(convert(node.astext(), display="inline"))


def _block(translator, node):
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')


def _visitor(write):
    def visit(translator, node):
        write(translator, node)
        raise SkipNode

    return visit


def setup(app):
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (_visitor(_inline), None), (_visitor(_block), None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Settings of Sphinx for the documentation site; `make docs` builds it."""

from postrender import __version__

project = "grpo-charts"
release = __version__
project_copyright = "the authors of grpo-charts"
extensions = ["myst_parser", "sphinx_copybutton"]
# Copied without the prompt, and a command without its output.
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
# Headings down to this level can be linked to.
myst_heading_anchors = 3
# The files that pages link to are no pages.
exclude_patterns = ["examples", "schemas", "values"]
# A quotation mark or two hyphens in a command stay what they are.
smartquotes = False

html_theme = "furo"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_title = f"grpo-charts {release}"
html_use_index = False
html_copy_source = False
html_show_sourcelink = False

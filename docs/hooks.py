"""Hooks of the documentation site: links that leave `docs/`, lists as GitHub reads them, and the notebook as a page.

The Markdown files are written for the repository's web view, where a link leads to any file of the repository. A site has only
what lies in `docs/`. So files that pages link to, such as the results, become pages and files of the site. Links to folders lead
to the README that describes the folder, or become text.
"""

import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.structure.files import File, Files

DOCS = "docs"
NOTEBOOK, NOTEBOOK_PAGE = "tutorial.ipynb", "tutorial.md"
LINK = re.compile(r"(\]\(|\b(?:src|href)=\")([^)\s\"#]+)(#[^)\s\"]*)?(\)|\")")
FOLDER_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)\)")
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
STYLE_OR_BREAK = re.compile(r"<style.*?</style>|\n\s*", re.DOTALL)
LIST_ITEM = re.compile(r"\s*([-*]|\d+\.) ")
NOTEBOOK_TIMEOUT = 600  # seconds


def on_files(files: Files, config) -> Files:
    """Add the notebook as a page, and the files outside `docs/` that pages link to, directly or through other pages."""
    root = Path(config.config_file_path).parent
    if (notebook := files.get_file_from_path(NOTEBOOK)) is not None:
        files.remove(notebook)
        files.append(File.generated(config, NOTEBOOK_PAGE, content=_notebook(root / DOCS / NOTEBOOK)))
    pages = list(files.documentation_pages())
    while pages:
        page = pages.pop()
        for _, path in _repository_links(page.content_string, _repository_path(page.src_uri, root), root):
            if path.startswith(f"{DOCS}/") or path == "README.md" or not (root / path).is_file() or _has(files, path):
                continue
            files.append(added := File.generated(config, path, abs_src_path=str(root / path)))
            if path.endswith(".md"):
                pages.append(added)
    return files


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    """Rewrite the links of a page from the repository to the site, and separate lists and tables from paragraphs."""
    root, own = Path(config.config_file_path).parent, page.file.src_uri
    folder = posixpath.dirname(_repository_path(own, root))

    def rewrite(found: re.Match[str]) -> str:
        before, target, anchor, after = found.groups(default="")
        path = _resolve(folder, target)
        if _is_external(target) or not (root / path).is_file():
            return found[0]
        return f"{before}{posixpath.relpath(_site_path(path), posixpath.dirname(own) or '.')}{anchor}{after}"

    def name_folder(found: re.Match[str]) -> str:
        path = _resolve(folder, found[2])
        if _is_external(found[2]) or not (root / path).is_dir():
            return found[0]
        about = next((page for page in _pages_above(path) if (root / page).is_file()), None)
        if about is None or not _has(files, about):
            return f"{found[1]} (`{path}`)"
        return f"[{found[1]}]({posixpath.relpath(about, folder or '.')})"

    return _outside_fences(lambda text: LINK.sub(rewrite, FOLDER_LINK.sub(name_folder, _separate(text))), markdown)


def _outside_fences(change: Callable[[str], str], markdown: str) -> str:
    return "".join(part if part.startswith("```") else change(part) for part in FENCE.split(markdown))


def _separate(text: str) -> str:
    """Insert the blank lines before lists and tables that GitHub does not need, and indent nested lists by four columns."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        in_list = LIST_ITEM.match(before) or before.startswith(" ")
        starts_list = LIST_ITEM.match(line) and not in_list
        starts_table = line.startswith("|") and not before.startswith("|")
        if before.strip() and not line.startswith("    ") and (starts_list or starts_table):
            lines.append("")
        lines.append(re.sub(r"^  (?=[-*] )", "    ", line))
    return "\n".join(lines)


def _repository_links(markdown: str, page: str, root: Path) -> list[tuple[str, str]]:
    """Return the targets of a page's links, each with the path in the repository that it leads to."""
    targets = [found[2] for found in LINK.finditer(FENCE.sub("", markdown)) if not _is_external(found[2])]
    return [(target, _resolve(posixpath.dirname(page), target)) for target in targets]


def _pages_above(path: str) -> list[str]:
    """Return where a README that describes a folder may be: in the folder itself, or in one above it, but the root."""
    parts = path.split("/")
    return ["/".join((*parts[:count], "README.md")) for count in range(len(parts), 0, -1)]


def _is_external(target: str) -> bool:
    return "://" in target or target.startswith(("mailto:", "/", "data:"))


def _resolve(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(folder, target))


def _repository_path(src_uri: str, root: Path) -> str:
    """Return the path in the repository of a page of the site."""
    if src_uri == NOTEBOOK_PAGE:
        return f"{DOCS}/{NOTEBOOK}"
    return f"{DOCS}/{src_uri}" if (root / DOCS / src_uri).exists() else src_uri


def _site_path(path: str) -> str:
    """Return where the site has a file of the repository."""
    if path == "README.md":
        return "index.md"
    inside = path.removeprefix(f"{DOCS}/")
    return NOTEBOOK_PAGE if inside == NOTEBOOK else inside


def _has(files: Files, src_uri: str) -> bool:
    return files.get_file_from_path(src_uri) is not None


def _notebook(path: Path) -> str:
    """Return the notebook as Markdown; REFIL_DOCS_EXECUTE=1 in the environment runs it first and shows its outputs."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    if os.environ.get("REFIL_DOCS_EXECUTE", "0") != "0":
        from nbclient import NotebookClient

        NotebookClient(notebook, timeout=NOTEBOOK_TIMEOUT, resources={"metadata": {"path": str(path.parent.parent)}}).execute()
    return "\n\n".join(_cell(cell) for cell in notebook.cells) + "\n"


def _cell(cell) -> str:
    if cell.cell_type == "markdown":
        return cell.source
    shown = (_output(output) for output in cell.get("outputs", ()))
    return "\n\n".join([f"```python\n{cell.source}\n```", *filter(None, shown)])


def _output(output) -> str:
    """Return an output as HTML where it has that, and otherwise as text; what is written to stderr is left out."""
    if output.output_type == "stream":
        return "" if output.name == "stderr" else f"```text\n{output.text.rstrip()}\n```"
    data = output.get("data", {})
    if "text/html" in data:
        html = STYLE_OR_BREAK.sub("", data["text/html"])  # Markdown would end the HTML at an empty line
        return f'<div class="output">{html}</div>'
    return f"```text\n{data['text/plain']}\n```" if "text/plain" in data else ""

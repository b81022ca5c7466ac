"""A hook of mkdocs: the pages of the site are the documents of the checkout, where they lie, so that their links hold."""
import pathlib
import re
import shutil

TOP = pathlib.Path(__file__).resolve().parents[1]


def on_config(config):
    """Copies all documents, their pictures and the files that they link to into the folder that mkdocs reads."""
    folder = TOP / "build/site-docs"
    config["docs_dir"] = str(folder)
    shutil.rmtree(folder, ignore_errors=True)
    pages = [TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "CHANGELOG.md", TOP / "packaging/README.md", TOP / "samples/README.md",
             TOP / "samples/papers/README.md", *sorted((TOP / "docs").glob("*.md"))]
    for page in pages:
        name = page.relative_to(TOP)
        target = folder / ("index.md" if str(name) == "README.md" else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = page.read_text()
        # mkdocs knows files by their names alone: links to folders and to other files stay texts.
        text = re.sub(r"\[([^\]]*)\]\((?!https?:|#)([^)\s]*)\)", lambda link, page=page: _link(page, folder, link), text)
        target.write_text(text)
    return config


def _link(page, folder, link):
    text, path = link.groups()
    file = (page.parent / path.split("#")[0]).resolve()
    if file.suffix == ".md" and file.exists():
        return link.group(0).replace("(README.md", "(index.md") if page.parent == TOP else link.group(0)
    if file.suffix == ".png" and file.exists():
        target = folder / file.relative_to(TOP)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
        return link.group(0)
    return text

"""docs/: what the pages print is what the commands in them print today, and every pass has its paragraph."""

import ast
import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

import pytest

from inferno.mlir import ir, idle_context
from inferno.passes import pass_names, summary
from inferno.passes.manager import run_pipeline, split
from inferno.passes.pipelines import PIPELINES
from inferno.schedule.attributes import GENERATORS, group_of
from inferno.targets.toolkit import find_tool
from inferno.tools.cli import _parser as commands
from inferno.tools.cli import main
from inferno.tools.opt import _parser, _split

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
STAGES = re.findall(r"^    inferno compile (\S[^\n]*)\n\n```\w+\n(.*?)^```", (ROOT / "docs/ir.md").read_text(), re.M | re.S)
SECTIONS = re.findall(r"^##+ [^\n]*: `(\w+)`\n((?:(?!^##).)*?)^    inferno (explain [^\n]*)$", (ROOT / "docs/convolution.md").read_text(), re.M | re.S)
PASSES = re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", (ROOT / "docs/passes.md").read_text(), re.M | re.S)


def lines(text, exactly):
    """Lines to compare; from the scheduled stage on without numbers, which change whenever a cost model or a generator does."""
    found = [line.rstrip() for line in text.splitlines()]
    return found if exactly else [re.sub(r"\d+", "0", line) for line in found]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("command, shown", STAGES, ids=[command.rpartition(" ")[2] for command, _ in STAGES])
def test_stages_are_as_shown(command, shown, capsys, monkeypatch):
    stage = command.rpartition(" ")[2]
    monkeypatch.chdir(ROOT)
    if stage == "sass" and not (find_tool("ptxas") and find_tool("nvdisasm")):
        pytest.skip("ptxas and the disassembler are optional")
    assert main(["compile", *shlex.split(command)]) == 0
    exactly = stage in ("torch", "linalg", "fused")
    printed = lines(capsys.readouterr().out, exactly)
    if exactly:
        assert lines(shown, exactly) == printed
    printed = iter(printed)
    for line in lines(shown, exactly):
        assert line == "..." or any(line == other for other in printed), f"ir.md shows a line that is not printed, or not there: {line}"


def test_the_file_is_the_model(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["compile", "docs/matmul_relu.py:MatmulRelu", "--ir", "linalg", "--target", "sm_90a"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/matmul_relu.mlir").read_text()


def test_the_guided_path_runs(capsys):
    """The page's Python, in order; what a line prints stands behind it, where that does not change with a cost model."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/learning.md").read_text(), re.M | re.S))
    exec(compile(code, "learning.md", "exec"), {})
    shown, printed = re.findall(r"^ *print\(.*\) +# (\d+)$", code, re.M), capsys.readouterr().out.splitlines()
    assert printed[:len(shown)] == shown == ["2", "1"]
    assert "tile_m=8, tile_n=32" in printed[len(shown)] and len(printed) > 5


def test_a_schedule_is_changed_by_hand(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    assert main(["compile", "docs/matmul_relu.py:MatmulRelu", "--target", "sm_90a", "--ir", "scheduled"]) == 0
    changed = tmp_path / "scheduled.mlir"
    changed.write_text(capsys.readouterr().out.replace("tile_n = 32", "tile_n = 64"))
    assert main(["compile", str(changed), "--target", "sm_90a", "--ir", "gpu"]) == 0
    assert re.search(r"block = \[512, 1, 1\].* grid = \[32, 1, 1\]", capsys.readouterr().out)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("generator, command", [(name, command) for name, _, command in SECTIONS], ids=[name for name, _, _ in SECTIONS])
def test_sections_show_the_generators_that_they_are_about(generator, command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert main(shlex.split(command)) == 0
    assert f"│ {generator} " in capsys.readouterr().out


def test_every_pass_has_a_paragraph():
    missing = set(pass_names()) - {name for name, _ in PASSES}
    assert not missing, f"docs/passes.md says nothing of {', '.join(sorted(missing))}"


def test_paragraphs_are_in_the_order_of_the_pipelines():
    steps = [step for text in PIPELINES.values() for step in split(text) if step != "trim-results{windows=1}"]  # early, and for convolutions alone
    ran = dict.fromkeys(step.partition("{")[0] for step in steps)
    documented = [name for name, _ in PASSES]
    assert [name for name in documented if name in ran] == [name for name in ran if name in pass_names()]
    assert pass_names() == documented


def test_paragraphs_begin_with_the_summary():
    assert {name: paragraph.split("*")[1].replace("`", "") for name, paragraph in PASSES} == {name: summary(name) for name in pass_names()}


def test_every_generator_has_a_row():
    table = (ROOT / "docs/architecture.md").read_text().partition("| kind | generator |")[2].partition("\n\n")[0]
    rows = [(name, kind) for kind, row in re.findall(r"^\| (\w+) \| (`[^|]*) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(rows) == sorted((name, group_of(name)) for name in GENERATORS)


@pytest.mark.parametrize("package", sorted(p.parent for p in (ROOT / "inferno").glob("*/**/__init__.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_packages_name_modules_that_exist(package):
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    topics = re.findall(r"^\* (.*?)(?=^\* |^$|\Z)", text, re.M | re.S)
    named = [name for topic in topics for name in re.findall(r"``(\w+)``", topic)]
    assert [name for name in named if not (package / f"{name}.py").exists() and not (package / name).is_dir()] == []


KINDS = sorted(p.parent for name in ("schedule", "codegen") for p in (ROOT / "inferno" / name).glob("*/__init__.py") if p.parent.name != "spaces")


@pytest.mark.parametrize("package", KINDS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_groups_name_all_their_modules(package):
    """But for passes, which are listed elsewhere."""
    named = re.findall(r"``([\w*]+)``", (package / "__init__.py").read_text())
    passes = {name.replace("-", "_") for name in pass_names()}
    modules = {p.stem for p in package.glob("*.py")} - {"__init__"} - passes
    assert not {m for m in modules if not any(fnmatch(m, name) for name in named)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        if not path.startswith("http"):
            other = (page.parent / path) if path else page
            assert other.exists(), target
            assert not anchor or anchor in anchors(other), target


COMMANDS = [(page.name, command) for page in PAGES for command in re.findall(r"^    (inferno .*?)(?: > \S+|  +#.*)?$", page.read_text(), re.M)]


@pytest.mark.parametrize("page, command", COMMANDS, ids=[f"{page}-{i}" for i, (page, _) in enumerate(COMMANDS)])
def test_commands_parse(page, command):
    """With what they compile: ``-c`` and Python, or a file, a model in one, a folder."""
    options = commands().parse_args(shlex.split(re.sub(r"[\[\]]", " ", command) if "-c " not in command else command)[1:])
    if getattr(options, "code", None):
        compile(options.code, command, "exec")
    elif getattr(options, "expr", None):
        assert re.fullmatch(r"EXPR|[\w./-]+(:\w+)?", options.expr), options.expr


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def run(text, pipeline):
    module = ir.Module.parse(text, idle_context())
    run_pipeline(module, pipeline)
    return str(module)


@pytest.mark.covering(most=25)
@pytest.mark.parametrize("name, paragraph", PASSES, ids=[name for name, _ in PASSES])
def test_commands_show_what_the_pass_does(name, paragraph):
    command = re.search(r"^    inferno-opt (.*)$", paragraph, re.M).group(1)
    options = _parser().parse_args(shlex.split(command))
    text = (ROOT / options.file).read_text()
    pieces = [c.text for c in _split(options.file, text)] if options.split_input_file else [text]
    steps = split(options.pass_pipeline)
    at = next(i for i, step in enumerate(steps) if step.partition("{")[0] == name)
    if name == "check-import":
        with pytest.raises(Exception, match="check-import"):
            run(pieces[0], options.pass_pipeline)
        return
    without = ",".join(steps[:at] + ([] if name == "generate-kernels" else steps[at + 1:]))
    assert any(run(piece, options.pass_pipeline) != run(piece, without) for piece in pieces)

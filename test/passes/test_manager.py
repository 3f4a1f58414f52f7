"""What pipelines mean, and what is said about wrong ones."""

import pytest

from inferno.errors import CompileError, PassError
from inferno.mlir import ir, idle_context, walk
from inferno.passes import find_pass, manager
from inferno.passes.manager import parse, run_pipeline, split

MODULE = "func.func @main(%a: i64, %ok: i1) -> i64 {\n%c = arith.constant 0 : i64\n%b = arith.addi %a, %c : i64\ncf.assert %ok, \"no\"\nreturn %b : i64\n}"


@pytest.mark.parametrize("text,parts", [
    ("", []),
    (" cse , func.func(canonicalize,cse) ", ["cse", "func.func(canonicalize,cse)"]),
    ("a{b=1 c={d,e}},f<g,h>,i[j,k]", ["a{b=1 c={d,e}}", "f<g,h>", "i[j,k]"]),
])
def test_split(text, parts):
    assert split(text) == parts


def test_parse():
    steps = parse("builtin.module(cse,builtin.module(remove-asserts)),assign-schedules{target=sm_90a},canonicalize{max-iterations=1}")
    assert [s.name for s in steps] == ["cse", "remove-asserts", "assign-schedules", "canonicalize"]
    assert [s.options for s in steps] == [{}, {}, {"target": "sm_90a"}, {}]
    steps = [s.text for s in parse("inferno-schedule{target=cpu}")]
    assert (steps[0], steps[-1]) == ("fuse-rows{target=cpu}", "explain-boundaries") and not any("$" in s or "," in s for s in steps)
    assert "assign-schedules{target=cpu}" in steps


@pytest.mark.parametrize("pipeline,message", [
    ("func.func(cse", "ends inside a bracket"),
    ("cse),cse", "unbalanced '\\)'"),
    ("cse,,cse", "an empty element"),
    ("remove-asserts{all=1}", "remove-asserts has no option all; it has none"),
    ("assign-schedules{goal=1}", "no option goal; it has target"),
    ("remove-asserts{all}", "option 'all' of 'remove-asserts{all}' is not of the form name=value"),
    ("inferno-schedule", "needs a value for target, as in {target=...}"),
    ("inferno-schedule{target=cpu level=3}", "unknown option level; the options are target"),
    ("remove-assert", "did you mean remove-asserts"),
    ("func.func(cse,remove-asserts)", "remove-asserts runs on a module"),
    ("func.func(inferno-fuse)", "inferno-fuse runs on a module"),
    ("canonicalize{nothing=1}", "no such option nothing"),
])
def test_wrong_pipelines(pipeline, message):
    with idle_context(), pytest.raises(PassError, match=message):
        run_pipeline(ir.Module.parse(MODULE), pipeline)


def test_passes_of_both_kinds_in_order():
    seen = []
    with idle_context():
        module = ir.Module.parse(MODULE)
        run_pipeline(module, "func.func(canonicalize),remove-asserts,cse", lambda text, m: seen.append((text, "cf.assert" in str(m))))
    assert seen == [("func.func(canonicalize)", True), ("remove-asserts", False), ("cse", False)]


def _returns_something_else(module):
    function = module.body.operations[0]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(list(function.type.inputs), [ir.IntegerType.get_signless(32)]))


@pytest.mark.parametrize("pipeline,each,message", [
    ("remove-asserts,fold-empty,cse", False, "^one of remove-asserts, fold-empty failed: "),
    ("cse,remove-asserts", False, "^one of cse, remove-asserts failed: "),
    ("cse,fold-empty,cse,remove-asserts", False, "^one of cse, remove-asserts failed: "),
    ("cse,remove-asserts,fold-empty", True, "^remove-asserts failed: "),
])
def test_invalid_modules_are_found_before_upstreams_passes_and_at_the_end(monkeypatch, pipeline, each, message):
    monkeypatch.setattr(manager, "find_pass", lambda name: _returns_something_else if name == "remove-asserts" else find_pass(name))
    seen = []
    with idle_context(), pytest.raises(PassError, match=message):
        run_pipeline(ir.Module.parse(MODULE), pipeline, lambda text, _: seen.append(text), verify_each=each)
    assert seen[-1:] == {"remove-asserts,fold-empty,cse": ["fold-empty"], "cse,remove-asserts,fold-empty": ["cse"]}.get(pipeline, ["remove-asserts"])


def test_what_mlir_says_is_in_the_error():
    text = (
        "func.func @f(%x: tensor<4xf32>) {\n%0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tensor<8xf32>\n"
        "%1 = tensor.collapse_shape %0 [[0]] : tensor<8xf32> into tensor<8xf32>\nreturn }"
    )
    with idle_context(), pytest.raises(PassError, match=r"(?s)one-shot-bufferize failed:.*2:6: op was not bufferized"):
        run_pipeline(ir.Module.parse(text), "one-shot-bufferize")


def test_what_is_used_is_not_erased():
    with idle_context():
        module = ir.Module.parse(MODULE)
        constant, added = walk(module, "arith.constant")[0], walk(module, "arith.addi")[0]
        with pytest.raises(CompileError, match="arith.constant is erased while its results are used"):
            constant.erase()
        added.results[0].replace_all_uses_with(module.body.operations[0].entry_block.arguments[0])
        added.erase()
        constant.erase()
        assert not walk(module, "arith.constant", "arith.addi")


def test_an_operation_is_found_whatever_is_said_of_it():
    with idle_context() as context:
        module = ir.Module.parse(MODULE)
        constant, added = walk(module, "arith.constant")[0], walk(module, "arith.addi")[0]
        argument = module.body.operations[0].entry_block.arguments[0]
        seen, places = {added}, {added: 0, (added, 1): 1}
        changes = (
            lambda: added.attributes.__setitem__("inferno.said", ir.UnitAttr.get()),
            lambda: added.operands.__setitem__(1, argument),
            lambda: setattr(added, "location", ir.Location.name("elsewhere", context=context)),
            lambda: added.move_before(constant),
            lambda: [v.set_type(ir.IntegerType.get_signless(64)) for v in (*added.operands, added.results[0])],
        )
        for change in changes:
            change()
            for handle in (added, added.opview, walk(module, "arith.addi")[0], added.results[0].owner):
                assert handle in seen and places[handle] == 0 and places[handle, 1] == 1 and hash(handle) == hash(added)
        twin = added.clone()
        assert twin not in seen and twin not in places
        twin.erase()

"""What the shell commands compile: Python text, ``module.py:Model``, or a Hugging Face model id or folder.

In Python text, such as ``torch.nn.RMSNorm(2048)(torch.randn(1, 32, 2048))`` or
``x = torch.randn(64, 128); w = torch.randn(128, 256); torch.relu(x @ w)``, the last expression is compiled.  Tensors that
the statements before it bind are its inputs, and so are the calls in it that make a tensor out of nothing; modules that
it makes keep their parameters as parameters.
"""

import ast
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from inferno.errors import InputError, OptionError
from inferno.tools.hugging_face import Sizes, load_model

# Methods that only change how a fresh tensor or module is held: the result is as fresh as what they are called on.
_CONVERSIONS = {
    "to", "cuda", "cpu", "half", "bfloat16", "float", "double", "int", "long", "bool", "type", "eval", "train",
    "requires_grad_", "contiguous", "clone", "detach",
}

_SCOPE = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}


@dataclass(frozen=True)
class Subject:
    """Something to compile: ``model(*args, **kwargs)``; ``name`` is what the user wrote."""

    name: str
    model: Callable
    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)


def read_subject(text: str | None, code: str | None = None, device: str = "cpu", sizes: Sizes = Sizes()) -> Subject:  # noqa: B008
    """The subject of a command line: ``code`` is the text after ``-c``, else ``text`` names a file or a model."""
    torch.manual_seed(0)
    if code is not None and text is not None:
        raise OptionError(f"expected one subject, got {text!r} and the text after -c; a text that is several words wants quotes")
    if (sizes.batch or sizes.sequence) and (code is not None or (text or "").partition(":")[0].endswith(".py")):
        raise OptionError("--batch and --sequence are for Hugging Face models; Python text says itself what its inputs are")
    if code is not None:
        return _on(from_code(code), device, sizes.dtype)
    if text is None:
        raise OptionError('nothing to compile: give -c "python text", file.py:Model, or a Hugging Face model')
    if text.endswith(".mlir"):
        raise InputError(f"{text}: IR has no model to call; `inferno compile`, `run` and `tune` take it")
    if ".py:" in text or text.endswith(".py"):
        return _on(_from_file(text), device, sizes.dtype)
    model, kwargs = load_model(text, sizes, device)
    return Subject(text, model, (), kwargs)


def place_of(error: Exception, text: str | None) -> str | None:
    """The line of the user's own text, after ``-c`` or in the file that ``text`` names, that raised the error; None where none did."""
    path = (text or "").partition(":")[0]
    names = {"<-c>": "-c", os.path.abspath(path): path}
    if isinstance(error, SyntaxError) and error.filename in names:
        return f"{names[error.filename]}, line {error.lineno}"
    found = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in names]
    return f"{names[found[-1].filename]}, line {found[-1].lineno}" if found else None


def _on(subject: Subject, device: str, dtype: torch.dtype | None) -> Subject:
    """The subject on a device, and its floating-point tensors in ``dtype``."""
    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device, dtype if value.is_floating_point() else None)

    if isinstance(subject.model, torch.nn.Module):
        subject.model.to(device, dtype)
    tree = torch.utils._pytree.tree_map
    return Subject(subject.name, subject.model, tree(move, subject.args), tree(move, subject.kwargs))


class _Shared(dict):
    """Names that copies of an Expression share: imported modules cannot be copied."""

    def __deepcopy__(self, memo: dict) -> "_Shared":
        return self


class Expression(torch.nn.Module):
    """A Python expression as a module: its names are this module's inputs, its hoisted modules submodules."""

    def __init__(self, code: Any, names: list[str], scope: dict[str, Any]) -> None:
        super().__init__()
        # torch.export keeps the lines of frames called forward alone.
        self._shared = _Shared(scope, __code__=code.replace(co_name="forward"))
        self._names = names
        self._parts = {name: f"m{name}" for name, value in scope.items() if isinstance(value, torch.nn.Module)}
        for name, attribute in self._parts.items():
            self.add_module(attribute, scope[name])

    def forward(self, *tensors: torch.Tensor) -> Any:
        own = {name: getattr(self, attribute) for name, attribute in self._parts.items()}
        return eval(self._shared["__code__"], {**self._shared, **own, **dict(zip(self._names, tensors))})


def from_code(code: str) -> Subject:
    """The subject of Python text.  Runs the statements before the last expression; InputError if there is none."""
    try:
        tree = ast.parse(code.strip())
    except SyntaxError as error:
        raise InputError(f"-c: not Python: {error}") from error
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        raise InputError("-c: the text must end in an expression, as in: x = torch.randn(8, 8); torch.relu(x)")
    scope: dict[str, Any] = dict(_SCOPE)
    *statements, last = tree.body
    _execute(compile(ast.Module(statements, []), "<-c>", "exec"), scope)
    hoisted = _Hoist(scope)
    expression = ast.fix_missing_locations(ast.Expression(hoisted.visit(last.value)))
    used = {n.id for n in ast.walk(expression) if isinstance(n, ast.Name)}
    inputs = {k: v for k, v in scope.items() if isinstance(v, torch.Tensor) and not isinstance(v, torch.nn.Parameter) and k in used}
    rest = {k: v for k, v in scope.items() if k not in inputs}
    if isinstance(expression.body, ast.Name) or not used & (scope.keys() - _SCOPE.keys()):
        raise InputError(f"-c: the last expression, {ast.unparse(last.value)}, computes nothing")
    model = Expression(compile(expression, "<-c>", "eval"), list(inputs), rest)
    model.train(any(isinstance(m, torch.nn.Module) and m.training for m in rest.values()))
    return Subject(code, model, tuple(inputs.values()))


def _execute(code: Any, scope: dict[str, Any]) -> None:
    try:
        exec(code, scope)
    except Exception as error:
        raise InputError(f"-c: {type(error).__name__}: {error}") from error


class _Hoist(ast.NodeTransformer):
    """Evaluates, from the inside out, the calls that make tensors or modules out of nothing, and binds them to names."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self._scope = scope
        self._fresh: set[str] = set()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        source = node.func.value if isinstance(node.func, ast.Attribute) else None
        converts = isinstance(source, ast.Name) and source.id in self._fresh and node.func.attr in _CONVERSIONS
        if not converts and any(self._is_data(n) for n in ast.walk(node) if isinstance(n, ast.Name)):
            return node
        code = compile(ast.fix_missing_locations(ast.Expression(node)), "<-c>", "eval")
        try:
            value = eval(code, self._scope)
        except Exception as error:
            raise InputError(f"-c: {ast.unparse(node)}: {type(error).__name__}: {error}") from error
        if not isinstance(value, (torch.Tensor, torch.nn.Module)):
            return node
        if converts:
            self._scope.pop(source.id)
            self._fresh.discard(source.id)
        kind = "module" if isinstance(value, torch.nn.Module) else "input"
        name = f"{kind}{sum(k.startswith(kind) for k in self._scope)}"
        self._scope[name] = value
        self._fresh.add(name)
        return ast.Name(name, ast.Load())

    def _is_data(self, name: ast.Name) -> bool:
        return isinstance(self._scope.get(name.id), (torch.Tensor, torch.nn.Module))


def _from_file(text: str) -> Subject:
    """``module.py:Model``; the file says what to call it with: ``example_inputs`` (a tensor, a tuple or a function)."""
    path, _, name = text.partition(":")
    if not os.path.isfile(path):
        raise InputError(f"{path}: {'it is a folder' if os.path.isdir(path) else 'no such file'}; expected file.py:Model")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # as ``python file.py`` does: what lies beside the file is found
    sys.modules.setdefault(spec.name, module)  # where dataclasses look for their module
    spec.loader.exec_module(module)
    if not name or not hasattr(module, name):
        known = [k for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, torch.nn.Module)]
        models = f"with one of {', '.join(known)}" if known else "with a function of it; it has no class of a torch.nn.Module"
        raise InputError(f"{path}: {f'there is no {name} in it' if name else 'it does not say which model'}; write {path}:NAME {models}")
    model = getattr(module, name)
    if isinstance(model, type):
        model = _made(path, name, model, getattr(module, "get_init_inputs", tuple)())
    if not callable(model):
        raise InputError(f"{path}: {name} is {type(model).__name__} {model!r:.100}, which cannot be called; name a module, its class or a function")
    places = ((model, "example_inputs"), (module, "example_inputs"), (module, "get_inputs"))
    inputs = next((found for place, key in places if (found := getattr(place, key, None)) is not None), None)
    if inputs is None:
        raise InputError(f"{path} does not say what to call {name} with: define example_inputs, a tuple of tensors or a function of none")
    inputs = inputs() if callable(inputs) else inputs
    return Subject(text, model, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,))


def _made(path: str, name: str, model: type, given: Any) -> Any:
    """An instance of the class; InputError where its constructor wants other arguments."""
    try:
        inspect.signature(model).bind(*given)
    except TypeError as error:
        raise InputError(f"{path}: {name}{tuple(given)}: {error}; define get_init_inputs, a function that gives what {name} is made of") from error
    return model(*given)
